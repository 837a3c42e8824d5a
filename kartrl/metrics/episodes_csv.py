"""`episodes.csv`: the training episodes of a run, one row each."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kartrl.metrics import csv_table
from kartrl.metrics.csv_table import CsvTable
from kartrl.metrics.records import EpisodeRecord

NAME = "episodes.csv"  # in the run's folder


class EpisodeRow(NamedTuple):
    """A training episode; the file's columns."""

    seconds: float  # of training, when it ended
    agent_steps: int  # trained on by then
    time: str  # when it ended, in seconds since the Unix epoch, to the hundredth
    level: str
    episodic_return: float
    episodic_length: int  # in actions
    finished: int  # 1 or 0


class EpisodesTable(CsvTable[EpisodeRow]):
    """Appends to `episodes.csv`: see `CsvTable`."""

    def __init__(self, run_folder: Path, first_step: int, first_seconds: float = math.inf) -> None:
        super().__init__(run_folder / NAME, EpisodeRow, first_step, first_seconds)

    def write(self, record: EpisodeRecord) -> None:
        """Append an episode.

        Raises:
            OSError: it cannot be written.
        """
        episode = record.episode
        values = episode.level, float(episode.episodic_return), episode.agent_steps, int(episode.finished)
        self.append([EpisodeRow(record.seconds, record.agent_steps, f"{record.time:.2f}", *values)])


def read(run_folder: Path) -> Iterator[EpisodeRow]:
    """The rows of a run's `episodes.csv`.

    Raises:
        OSError: it cannot be read.
    """
    return csv_table.read(run_folder / NAME, EpisodeRow)
