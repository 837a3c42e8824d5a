"""A run of the benchmark."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from kartrl import config
from kartrl.comparison.training import train_to_end
from kartrl.kart.generalisation.protocol import PRESET, Protocol
from kartrl.kart.generalisation.splits import Split
from kartrl.launch import config_options


class Run(NamedTuple):
    """A policy to train: a split and a seed."""

    split: Split
    seed: int
    folder: Path  # run folder

    @property
    def name(self) -> str:
        """Name of the run."""
        return f"{self.split.name}-seed{self.seed}"

    @property
    def result(self) -> Path:
        """File with the results of the evaluation."""
        return self.folder / "result.json"


def train(run: Run, protocol: Protocol, on_look: Callable[[], None]) -> Path:
    """Train or resume until the last step; returns the last checkpoint.

    Args:
        on_look: called periodically during training.

    Raises:
        RunFailed: training ended before its last step.
    """
    own = (f"run.logs={run.folder.parent}", f"run.name={run.folder.name}", f"run.seed={run.seed}")
    options = config_options([PRESET], [*protocol.overrides_of(run.split), *own])
    return train_to_end(run.folder, options, config.Run(agent_steps=protocol.steps_of(run.split)), on_look)
