"""Where runs are: in the folder of all runs, `run.logs`, or in that of an experiment, which lies there."""

import difflib
from collections.abc import Iterator
from pathlib import Path

from kartrl.errors import UserError

MARKS = ("config.cfg", "checkpoints")  # what a run's folder holds from the start


def runs_in(logs: Path) -> list[Path]:
    """Folders of all runs."""
    return sorted({mark.parent for depth in ("*", "*/*") for name in MARKS for mark in logs.glob(f"{depth}/{name}")})


def places_of(name: str, logs: Path) -> Iterator[Path]:
    """The folders that the name of a run, or the path of its folder, may mean, the most likely first.

    Raises:
        UserError: several experiments have a run of this name.
    """
    yield from (Path(name), logs / name)
    of_experiments = [run for run in runs_in(logs) if run.name == name and run.parent != logs]
    if len(of_experiments) > 1:
        raise UserError(f"{name}: several runs have this name; name one as {' or '.join(map(str, of_experiments))}")
    yield from of_experiments


def nearest(name: str, logs: Path) -> str:
    """The end of a message that there is no such run: the nearest name, else where runs are looked for."""
    near = difflib.get_close_matches(name, [run.name for run in runs_in(logs)], n=1)
    return (
        f"; did you mean the run {near[0]}?"
        if near
        else f", nor is there such a run in {logs} (KARTRL_LOGS=FOLDER: elsewhere)"
    )
