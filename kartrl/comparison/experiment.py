"""An experiment: a TOML file that describes a grid of runs. They are trained one after another, and resumed if stopped.

docs/comparing.md describes the file. The runs are in one folder; next to each are its configuration, `<run>.cfg`, and
the output of its training, `<run>.log`.
"""

import contextlib
import itertools
import math
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field, ValidationError, field_validator
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from kartrl.comparison.runs import check_comparable
from kartrl.comparison.training import share_trained, train_to_end, trained
from kartrl.config import Config, Run, check_own, dump, read
from kartrl.config.section import Section, UserPath
from kartrl.config.wording import word
from kartrl.errors import RunFailed, UserError
from kartrl.files import explained, read_text, user_path, write_whole
from kartrl.launch import config_options
from kartrl.metrics.tables import say

SPEED_SECONDS = 3600.0  # of the past that the time left is estimated from: trainings report rarely, and take long

Part = tuple[str, ...]
Seed = Annotated[int, Field(ge=0, lt=2**32)]


class Experiment(Section):
    """The grid: each algorithm on each environment with each seed.

    A part of a configuration is a list of arguments of `-c`, which may be files next to the experiment's, and, if they
    contain an equals sign and are no files, of `--set`.
    """

    folder: UserPath = Field("", description="of the runs; default: the file's name, in logs")
    seeds: tuple[Seed, ...] = Field(min_length=1)
    common: Part = ()
    algorithms: dict[str, Part] = Field(min_length=1)
    environments: dict[str, Part] = Field({"": ()}, min_length=1)

    @field_validator("seeds")
    @classmethod
    def _each_once(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if twice := [seed for seed in seeds if seeds.count(seed) > 1]:
            raise ValueError(f"{twice[0]} is there twice")
        return seeds

    @field_validator("algorithms", "environments")
    @classmethod
    def _names_fit_folders(cls, parts: dict[str, Part]) -> dict[str, Part]:
        for name in parts:
            if name and re.fullmatch(r"\w[\w.+-]*", name) is None:
                raise ValueError(f"{name[:40]!r} cannot be part of a folder name: use letters, digits, . _ + -")
        return parts


class Cell(NamedTuple):
    """A run of the grid."""

    algorithm: str  # its name in the file
    config: Config
    folder: Path
    options: Sequence[str] = ()  # of `kartrl train`, without the seed, and where the run is


def read_experiment(file: Path, by: str) -> tuple[Path, list[Cell]]:
    """The folder of the runs, and the runs in training order: seed by seed.

    Args:
        by: the key by which they will be compared.

    Raises:
        UserError: the file cannot be read, it or a configuration is invalid, or the runs could not be compared.
    """
    try:
        with explained(file, "read this experiment"):
            experiment = Experiment.model_validate(tomllib.loads(read_text(file)))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{file}: not valid TOML: {error}") from error
    except ValidationError as errors:
        first = errors.errors()[0]
        raise UserError(f"{file}: {'.'.join(map(str, first['loc']))}: {word(first)}") from errors
    folder = Path(experiment.folder) if experiment.folder else Run().logs_folder / file.stem
    grid = itertools.product(experiment.seeds, experiment.environments.items(), experiment.algorithms.items())
    cells, names = [], []
    for seed, (environment, its), (algorithm, own) in grid:
        name = "__".join(part for part in (environment, algorithm, str(seed)) if part)
        parts = [_beside(file, part) for part in (*experiment.common, *its, *own)]
        ours = {"run.logs": folder, "run.name": name, "run.seed": seed}
        files = [part for part in parts if "=" not in part or os.path.isfile(user_path(part))]
        overrides = [part for part in parts if part not in files]
        check_own(overrides, ours, str(file))
        config = read(files, [*overrides, *(f"{key}={value}" for key, value in ours.items())])
        cells.append(Cell(algorithm, config, folder / name, config_options(files, overrides)))
        names.append(environment)
    check_comparable([(cell.folder.name, cell.config) for cell in cells], by)
    ids: dict[str, str] = {}
    for cell, environment in zip(cells, names, strict=True):
        other = ids.setdefault(cell.config.environment.id, environment)
        if other != environment:
            raise UserError(
                f"{file}: environments {other} and {environment} are both {cell.config.environment.id}, and would be "
                "averaged; put what differs into the algorithms"
            )
    return folder, cells


def _beside(file: Path, part: str) -> str:
    """The part, as a path if a file next to the experiment's has this name."""
    near = str(file.parent / part)
    return near if os.path.isfile(near) else part


@contextlib.contextmanager
def resumable(folder: Path, console: Console) -> Iterator[None]:
    """Tell how to resume what Ctrl-C interrupts.

    Raises:
        UserError: the folder cannot be written to.
    """
    try:
        with explained(folder, "write", "name another folder"):
            yield
    except KeyboardInterrupt:
        console.print("Interrupted; run the same command to resume", highlight=False)
        raise


def train_all(
    cells: Sequence[Cell], console: Console, then: Callable[[Cell, Path], None] = lambda cell, path: None
) -> list[Cell]:
    """Train the runs that are not trained yet, and report those that fail.

    Args:
        then: called with each trained run and its last checkpoint, in order.

    Returns:
        Those that failed.

    Raises:
        UserError: a run was begun with another configuration.
        OSError: the folder cannot be written to.
    """
    for cell in cells:
        _check(cell)
    recorded = [record(cell) for cell in cells]
    failed = []
    with make_progress(console) as progress:
        shares = [float(trained(cell.folder, cell.config.run) is not None) for cell in cells]
        task = progress.add_task("", total=len(cells))
        for number, cell in enumerate(cells):
            title = f"{cell.folder.name}, {number + 1} of {len(cells)}"
            progress.update(task, description=title, completed=math.fsum(shares))

            def look(done: float = math.fsum(shares), cell: Cell = cell) -> None:
                progress.update(task, completed=done + share_trained(cell.folder, cell.config.run))

            try:
                if not shares[number]:
                    say(console, f"{title}: training")
                options = config_options([str(recorded[number])], [])
                path = train_to_end(cell.folder, options, cell.config.run, look)
                shares[number] = 1.0
                then(cell, path)
            except (RunFailed, UserError) as failure:
                failed.append(cell)
                say(console, f"kartrl: {cell.folder.name}: {failure}", "red")
    if failed:
        names = ", ".join(cell.folder.name for cell in failed)
        say(console, f"Failed: {names}; run the same command to retry", "red")
    return failed


def make_progress(console: Console) -> Progress:
    """Bars with the time left, in a terminal."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    disabled = not console.is_terminal
    return Progress(*columns, console=console, disable=disabled, speed_estimate_period=SPEED_SECONDS)


def record(cell: Cell) -> Path:
    """Write a run's configuration next to its folder, for its training; return the file.

    Raises:
        UserError: the run was begun with another configuration.
        OSError: it cannot be written.
    """
    _check(cell)
    file = _recorded(cell)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, dump(cell.config).encode())
    return file


def _recorded(cell: Cell) -> Path:
    return cell.folder.with_name(f"{cell.folder.name}.cfg")


def _check(cell: Cell) -> None:
    """Refuse an existing run of the same name with another configuration; a run that never began has no folder."""
    file = _recorded(cell)
    if cell.folder.exists() and not (file.exists() and read([str(file)]) == cell.config):
        raise UserError(
            f"{cell.folder}: was started with another configuration; remove it and {file}, or choose another folder "
            "for the experiment"
        )
