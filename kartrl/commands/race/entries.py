"""Who takes part in `kartrl race`."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from kartrl.commands.shared.policy import find_policy
from kartrl.config import Config
from kartrl.console.movie import read_movie
from kartrl.driving.driver import openable
from kartrl.envs.worlds import load_world
from kartrl.errors import UserError
from kartrl.kart import KART
from kartrl.kart.race.contest import Competitor, open_races
from kartrl.learning import checkpoint
from kartrl.learning.checkpoint import Checkpoint
from kartrl.run.policies import HUB, WEIGHTS
from kartrl.viewer.beside import open_beside
from kartrl.viewer.podium import Contest

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
    environment = policies[0].config.environment.id if policies else KART
    for path, found in zip(paths, policies, strict=True):
        if found.config.environment.id != environment:
            raise UserError(f"{path}: trained on {found.config.environment.id}, not on {environment} as {paths[0]}")
    for one in competitors if environment != KART else ():
        if one.policy is None:
            what = f"{one.movies[0]}: recorded drives race" if one.movies else "the scripted driver races"
            raise UserError(f"{what} on kart circuits alone, and {paths[0]} was trained on {environment}")
    return policies


def _usual_level(competitors: Sequence[Competitor], config: Config) -> list[str]:
    """The level where none is named: a recorded drive's, else the first one of the first policy; () without levels."""
    for file in (file for one in competitors for file in one.movies):
        if circuit := read_movie(file).circuit:
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
    configs = [found.config for found in policies]
    keys = list(levels) or _usual_level(competitors, configs[0] if configs else Config())
    steps = iter(found.counters.agent_steps for found in policies)
    about = [
        {"name": one.name, "source": one.source, "agent_steps": next(steps) if one.policy else None}
        for one in competitors
    ]
    if configs and configs[0].environment.id != KART:
        paths = [one.policy for one in competitors if one.policy is not None]
        with open_beside(paths, [one.name for one in competitors], keys, device, console) as beside:
            yield beside, about
    else:
        with open_races(competitors, configs, keys, console) as races:
            yield races, about
