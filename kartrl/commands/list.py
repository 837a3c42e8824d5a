"""`kartrl list`: runs, configurations, environments, levels, policies and retro games, as a table or as JSON."""

import argparse
import contextlib
import fnmatch
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from rich.box import HEAVY_HEAD

from kartrl.commands.shared.arguments import Parser
from kartrl.commands.shared.policy import SHIPPED
from kartrl.commands.shared.results import add_formats, print_results
from kartrl.config import Config, read
from kartrl.config.ini import PRESETS, presets
from kartrl.config.worlds import WORLDS
from kartrl.errors import UserError
from kartrl.files import read_text
from kartrl.metrics import episodes_csv, scalars_csv
from kartrl.metrics.tables import Line, fitted, make_console, say
from kartrl.options import add_config, config_files

if TYPE_CHECKING:
    from kartrl.retro.library import Game

EVALUATED, TRAINED = ("evaluation/test_return", "evaluation/train_return"), "charts/episodic_return"  # tags
NEWEST = 100  # training episodes, as the terminal has them; their curve's last point may be a single one


Row = dict[str, Any]  # heading -> value; the first one is the name


def add_arguments(parser: Parser) -> None:
    parser.runs(
        run,
        "list",
        "list runs 'Cart*' --json",
        "list runs -c mine.cfg",
        "list presets 'pong*'",
        "list envs 'ALE/*'",
        "list levels '*.Act1'",
        "list retro 'Sonic*'",
    )
    parser.add_argument(
        "what",
        nargs="?",
        choices=KINDS,
        default="runs",
        metavar="WHAT",
        help="runs (default), presets (bundled configurations), envs (ids of environments), levels (that come with "
        "kartrl), policies (of runs, and the bundled one), or retro (games that stable-retro knows, without retro/)",
    )
    parser.add_argument("glob", nargs="?", default="*", metavar="GLOB", help="only names that match, such as 'pong*'")
    add_config(parser)
    add_formats(parser, "line of the list")


def run(options: argparse.Namespace) -> int:
    """Print the list; returns the exit status."""
    console, config = make_console(), read(config_files(options), options.set)
    logs = config.run.logs_folder
    rows, names = [], list[str]()
    for row in KINDS[options.what](config):
        names.append(str(next(iter(row.values()))))
        if fnmatch.fnmatchcase(names[-1], options.glob):
            rows.append(row)
    if options.json or options.csv:
        print_results(options, rows, **{options.what: rows})
    elif rows:
        heading, *headings = rows[0]
        lines = [Line(str(name), [_shown(value) for value in rest]) for name, *rest in (row.values() for row in rows)]
        console.print(fitted(heading, headings, [lines], console.width, HEAVY_HEAD))
    else:
        where = f" in {logs} (KARTRL_LOGS=FOLDER: elsewhere)" if options.what == "runs" else ""
        matching = "" if options.glob == "*" else f" match {options.glob}"
        part = options.glob.strip("*").lower()
        like = next((name for name in names if part in name.lower()), None)
        near = f"; GLOB must match a whole name, such as {like}" if matching and like is not None else ""
        say(console, f"No {options.what}{matching}{where}{near}")
    return 0


def _runs(config: Config) -> Iterator[Row]:
    """All runs, the most recently begun last."""
    from kartrl.learning import checkpoint  # these two load torch
    from kartrl.run.folders import config_of
    from kartrl.run.places import runs_in
    from kartrl.run.run_folder import CONFIG, ended_by, has_checkpoint, is_training

    logs = config.run.logs_folder

    def begun(folder: Path) -> float:
        return (folder / CONFIG).stat().st_mtime if (folder / CONFIG).exists() else 0.0

    for folder in sorted(runs_in(logs), key=begun):
        saved, steps = has_checkpoint(folder), scalars_csv.come_to(folder)[1]
        try:
            newest = checkpoint.newest_readable(folder)  # a resumed run has other limits than config.cfg, how it began
            of = newest[1].config if newest else config_of(folder)
            steps = max(steps, newest[1].counters.agent_steps) if newest else steps  # the last are not always logged
        except UserError:
            state, about = "unreadable", dict.fromkeys(("of", "environment", "algorithm"))
        else:
            whole = saved and (ended_by(folder) or steps >= of.run.agent_steps)
            state = "training" if is_training(folder) else "ended" if whole else "resumable" if saved else "not saved"
            about = {
                "of": of.run.agent_steps,
                "environment": of.environment.id,
                "algorithm": of.algorithm.name,
            }
        row: Row = {"run": str(folder.relative_to(logs)), "state": state, "steps": steps, "return": _score(folder)}
        yield row | about | {"megabytes": _megabytes(folder)}


def _score(folder: Path) -> float | None:
    """The newest mean return: of an evaluation on test levels, on train levels, else of the last training episodes.

    None without one.
    """
    newest = {row.tag: row.value for row in scalars_csv.read(folder) if row.tag in (*EVALUATED, TRAINED)}
    if (tag := next((tag for tag in EVALUATED if tag in newest), None)) is not None:
        return newest[tag]
    returns = deque((row.episodic_return for row in episodes_csv.read(folder)), NEWEST)
    return fmean(returns) if returns else newest.get(TRAINED)


def _megabytes(folder: Path) -> float:
    size = 0
    for file in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # a run that trains replaces its files
            size += file.stat().st_size * file.is_file()
    return round(size / 1e6, 2)


def _presets(_: Config) -> Iterator[Row]:
    for name in presets():
        config = read([name])
        about = read_text(PRESETS / f"{name}.cfg").partition("\n")[0].removeprefix("#").strip()
        yield {
            "preset": name,
            "environment": config.environment.id,
            "algorithm": config.algorithm.name,
            "steps": config.run.agent_steps,
            "about": about,
        }


def _envs(_: Config) -> Iterator[Row]:
    from kartrl.envs.registered import known_ids

    own = (name for name in WORLDS if not name.endswith("/"))
    for name, steps in (dict.fromkeys(own) | known_ids()).items():
        yield {"environment": name, "steps": steps}


def levels(config: Config) -> Iterator[Row]:
    """Those of kartrl's own worlds and games, and of the configuration's retro game, and how each is used.

    The configuration says that of its own environment; for the others the default one does.
    """
    from kartrl.envs.worlds import load_world
    from kartrl.retro.library import BUNDLED
    from kartrl.retro.world import RetroWorld

    own = [name for name in WORLDS if not name.endswith("/")] + [f"retro/{game.name}" for game in BUNDLED.iterdir()]
    for name in dict.fromkeys([*own, config.environment.id]):
        of = config if config.environment.id == name else read(overrides=[f"environment.id={name}"])
        uses: Mapping[str, str] = of.levels.uses
        if isinstance(world := load_world(of), RetroWorld):
            used = {world.name_level(state): use for state, use in world.named_uses().items()}
            uses = dict.fromkeys(world.game.states(), "none") | used
        for level, use in uses.items():
            yield {"level": level, "environment": name, "use": use}


def _policies(config: Config) -> Iterator[Row]:
    """The bundled policy, and the best of each run."""
    from kartrl.learning import checkpoint  # these two load torch
    from kartrl.run.places import runs_in

    logs = config.run.logs_folder
    best = {str(run.relative_to(logs)): run / "best.pt" for run in runs_in(logs)}
    for name, file in {str(SHIPPED): SHIPPED, **best}.items():
        with contextlib.suppress(UserError):
            policy = checkpoint.load(file)
            of = policy.config
            yield {
                "policy": name,
                "environment": of.environment.id,
                "algorithm": of.algorithm.name,
                "steps": policy.counters.agent_steps,
                "score": policy.score,
            }


def _retro(_: Config) -> Iterator[Row]:
    from kartrl.retro.library import folders, game_in

    for name, folder in folders().items():
        try:
            game = game_in(folder)
        except UserError:
            continue  # kartrl does not run its console
        yield {"game": name, "console": game.system.name, "rom": _rom(game), "states": [*game.states()]}


def _rom(game: "Game") -> str:
    """Whether a game's ROM is there."""
    try:
        game.rom()
    except UserError as error:
        return "another revision" if "another revision" in str(error) else "missing"
    return "there"


KINDS: dict[str, Callable[[Config], Iterator[Row]]] = {
    "runs": _runs,
    "presets": _presets,
    "envs": _envs,
    "levels": levels,
    "policies": _policies,
    "retro": _retro,
}


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        return str(value[0] if len(value) == 1 else len(value))
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}" if isinstance(value, float) else str(value)
