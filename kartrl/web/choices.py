"""The policies that viewers may choose: files, runs' checkpoints, and those that a run has yet to make."""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from kartrl.learning import checkpoint
from kartrl.metrics import csv_table, scalars_csv
from kartrl.run.run_folder import is_training

RETURN = "charts/episodic_return"
MOST_POINTS = 200  # of a curve
MOST_CHECKPOINTS = 100  # of a run


class Choice(NamedTuple):
    """A policy to choose; its name may be gone when it has been removed."""

    source: Path  # a checkpoint file, or a run's folder
    path: Path | None  # its checkpoint; None: its newest one, whenever an episode begins


class Choices:
    """What there is to choose, and what is chosen.

    Args:
        sources: checkpoint files, and folders of runs.
        source: the one of these to begin with.
        path: its checkpoint; None: its newest one, whenever an episode begins.
    """

    def __init__(self, sources: Sequence[Path], source: Path, path: Path | None) -> None:
        self._sources = sources
        self.chosen = Choice(source, path)
        self._points: list[tuple[int, float]] = []
        self._read = 0  # bytes of the run's scalars
        self.look()

    def look(self) -> None:
        """Look for new checkpoints and points of the curve."""
        names = [source.name for source in self._sources]
        found: dict[str, Choice] = {}
        for source in self._sources:
            title = source.name if names.count(source.name) == 1 else str(source)
            if source.is_file():
                found[title] = Choice(source, source)
                continue
            if is_training(source) or self.chosen == (source, None):
                found[f"{title}: newest"] = Choice(source, None)
            best = source / "best.pt"
            for path in [*[best] * best.is_file(), *checkpoint.newest_first(source)[:MOST_CHECKPOINTS]]:
                found[f"{title}: {path.stem.lstrip('0') or '0'}"] = Choice(source, path)
        if self.chosen not in found.values():  # removed meanwhile
            found[str(self.chosen.path)] = self.chosen
        self._found = found
        self.is_training = self.source.is_dir() and is_training(self.source)
        """Whether the chosen run is in training."""
        self._follow_curve()

    @property
    def names(self) -> list[str]:
        """All that there is to choose."""
        return [*self._found]

    @property
    def name(self) -> str:
        """What is chosen."""
        return next(name for name, one in self._found.items() if one == self.chosen)

    @property
    def source(self) -> Path:
        """The file or run that is chosen."""
        return self.chosen.source

    @property
    def followed(self) -> Path | None:
        """The folder of the run whose newest checkpoint drives; None: a checkpoint is chosen."""
        return self.source if self.chosen.path is None else None

    def path(self) -> Path | None:
        """The checkpoint that drives; None if the run has none yet."""
        return self.chosen.path or checkpoint.newest(self.source)

    def find(self, name: str) -> Choice | None:
        """The one of this name; None if there is none."""
        return self._found.get(name)

    def choose(self, chosen: Choice) -> None:
        """Choose what has been found, now or earlier."""
        self.chosen = chosen
        self._points, self._read = [], 0
        self.look()

    @property
    def curve(self) -> list[tuple[int, float]]:
        """Agent steps and mean returns of the chosen run's episodes, thinned out."""
        stride = -(-len(self._points) // MOST_POINTS) or 1
        return self._points[::-stride][::-1]

    def _follow_curve(self) -> None:
        """Read what has been appended to the run's scalars."""
        with contextlib.suppress(OSError), (self.source / scalars_csv.NAME).open("rb") as file:
            file.seek(self._read)
            whole, end, _ = file.read().rpartition(b"\n")
            self._read += len(whole) + len(end)
            for line in whole.decode("utf-8", errors="replace").splitlines():
                row = csv_table.parse(f"{line}\n", scalars_csv.Row)
                if row is not None and row.tag == RETURN:
                    self._points.append((row.agent_steps, row.value))
