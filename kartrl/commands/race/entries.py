"""Who takes part in `kartrl race`."""

import contextlib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from kartrl.commands.shared.policy import find_policy
from kartrl.config import Config, read
from kartrl.console.movie import read_names
from kartrl.driving.driver import open_driver, openable
from kartrl.envs.worlds import load_world
from kartrl.errors import UserError
from kartrl.kart import KART, cartridge
from kartrl.kart.game_files import BUNDLED
from kartrl.kart.race.contest import Competitor, open_races
from kartrl.learning import checkpoint
from kartrl.learning.checkpoint import Checkpoint
from kartrl.retro.env import FPS
from kartrl.retro.library import game_of
from kartrl.retro.recorded import RecordedDrive, open_recorded
from kartrl.retro.world import NAMESPACE as RETRO
from kartrl.run.policies import HUB, WEIGHTS
from kartrl.viewer.beside import BesideContest, Racer, racer_of
from kartrl.viewer.podium import Contest

KART_GAMES = ("", BUNDLED, cartridge.NAME)  # in recorded drives
SCRIPTED, MOVIE = "scripted", ".bk2"  # the scripted driver; how a recorded drive ends
MOST = 8  # competitors: the kart's game draws seven ghosts


def find_competitors(names: Sequence[str | None], levels: bool, console: Console) -> list[Competitor]:
    """The competitors that a user names, with names of their own.

    Args:
        names: each a policy's (None: the usual one), a movie's file, a folder of these, or `SCRIPTED`.
        levels: whether the user names levels.

    Raises:
        UserError: there is no such policy or file, or they are too few or too many.
    """
    if not 2 <= len(names) <= MOST:
        raise UserError(f"race: name 2 to {MOST} competitors: policies, recorded drives (.bk2), {SCRIPTED}")
    found = [_find(name, levels, console) for name in names]
    called: dict[str, int] = {}
    for number, one in enumerate(found):
        called[one.name] = called.get(one.name, 0) + 1
        if called[one.name] > 1:
            found[number] = one._replace(name=f"{one.name} {called[one.name]}")
    return found


def _find(name: str | None, levels: bool, console: Console) -> Competitor:
    if name == SCRIPTED and not Path(name).exists():
        return Competitor(SCRIPTED)
    if name is not None and name.lower().endswith(MOVIE):
        if not Path(name).is_file():
            raise UserError(f"race {name}: no such recorded drive; kartrl play -o FILE.bk2 records one")
        return Competitor(Path(name).stem, movies=(Path(name),))
    if name is not None and (movies := sorted(Path(name).glob(f"*{MOVIE}"))):
        return Competitor(Path(name).absolute().name, movies=tuple(movies))
    path = find_policy(name, levels, console, "race")
    folder = path.absolute().parent
    if name is not None and name.startswith(HUB):
        return Competitor(name.removeprefix(HUB), policy=path)
    if path.name in ("best.pt", WEIGHTS):
        return Competitor(folder.name, policy=path)
    if folder.name == "checkpoints" and path.stem.isdecimal():
        return Competitor(f"{folder.parent.name} {int(path.stem)}", policy=path)
    return Competitor(path.stem, policy=path)


def _policies_of(competitors: Sequence[Competitor]) -> list[Checkpoint]:
    """The checkpoints of the policies, which all are of one environment.

    Raises:
        UserError: names whoever does not belong there.
    """
    paths = [one.policy for one in competitors if one.policy is not None]
    policies = [checkpoint.load(path) for path in paths]
    for path, found in zip(paths, policies, strict=True):
        id, first = found.config.environment.id, policies[0].config.environment.id
        if id != first:
            raise UserError(f"{path}: trained on {id}, not on {first} as {paths[0]}")
        if not load_world(found.config).independent and 0 < found.most_envs < len(paths):
            raise UserError(f"{id}: a process can have {found.most_envs} at most")
    return policies


def _config_of(competitors: Sequence[Competitor], policies: Sequence[Checkpoint]) -> Config:
    """The configuration of the environment in which all take part: of the first policy, or as recorded drives say.

    Raises:
        UserError: somebody cannot take part there.
    """
    recorded = [file for one in competitors for file in one.movies]
    scripted = any(one.policy is None and not one.movies for one in competitors)
    games = {file: read_names(file)[0] for file in recorded}
    if policies:
        config = policies[0].config
    else:
        game = "" if scripted else games[recorded[0]]
        config = read(overrides=[] if game in KART_GAMES else [f"environment.id={RETRO}{game}"])
    id = config.environment.id
    if scripted and id != KART:
        raise UserError(f"the scripted driver races on kart circuits alone, and the policies are for {id}")
    for file, game in games.items():
        if id == KART and game not in KART_GAMES:
            raise UserError(f"{file}: recorded in {game}, not on a kart circuit")
        if id != KART and not id.startswith(RETRO):
            raise UserError(f"{file}: recorded drives are of the kart and of retro games; there are none of {id}")
        if id != KART and game not in ("", own := game_of(id.removeprefix(RETRO)).name):
            raise UserError(f"{file}: recorded in {game}, not in {own}")
    return config


def _usual_level(competitors: Sequence[Competitor], config: Config) -> list[str]:
    """The level where none is named: a recorded drive's, else the first one of the first policy; () without levels."""
    for file in (file for one in competitors for file in one.movies):
        if circuit := read_names(file)[1]:
            return [circuit]
    path = next((one.policy for one in competitors if one.policy is not None), None)
    return load_world(config if path is None else openable(path, config)[0]).level_keys()[:1]


@contextlib.contextmanager
def open_contest(
    names: Sequence[str | None], levels: Sequence[str], device: str, console: Console
) -> Iterator[tuple[Contest, list[dict[str, Any]]]]:
    """Context manager: the races that the command line names, and what is reported of each competitor as JSON.

    Raises:
        UserError: see `find_competitors`; a level is missing, or somebody cannot race there.
    """
    competitors = find_competitors(names, bool(levels), console)
    policies = _policies_of(competitors)
    config = _config_of(competitors, policies)
    keys = list(levels) or _usual_level(competitors, config)
    steps = iter(found.counters.agent_steps for found in policies)
    about = [
        {"name": one.name, "source": one.source, "agent_steps": next(steps) if one.policy else None}
        for one in competitors
    ]
    if config.environment.id != KART:
        with _open_beside(competitors, config, keys, device, console) as beside:
            yield beside, about
    else:
        with open_races(competitors, [found.config for found in policies], keys, console) as races:
            yield races, about


@contextlib.contextmanager
def _open_beside(
    competitors: Sequence[Competitor], config: Config, keys: Sequence[str], device: str, console: Console
) -> Iterator[BesideContest]:
    """Context manager: episodes side by side; beside recorded drives, all begin at the same frame."""
    world = load_world(config)
    found = world.find_levels(keys, console) if keys else ()
    exactly = ["retro.noop_max=0"] if any(one.movies for one in competitors) else []
    with contextlib.ExitStack() as stack:
        racers = []
        for one in competitors:
            if one.policy is not None:
                driver = stack.enter_context(open_driver(one.policy, keys, device, True, console, exactly))
                racers.append(racer_of(driver, one.name))
            else:
                recorded = stack.enter_context(open_recorded(config, one.movies, found))
                racers.append(Racer(one.name, FPS, partial(_same, recorded)))
        yield BesideContest(racers, {key: world.name_level(key) for key in found} or {"": config.environment.id})


def _same(recorded: RecordedDrive, greedy: bool) -> RecordedDrive:
    """A recorded drive, however policies act."""
    return recorded
