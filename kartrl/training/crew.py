"""The server's interface to the processes and threads that act and learn."""

from collections.abc import Iterator
from typing import Protocol

import torch

from kartrl.acting.messages import EpisodeEnd
from kartrl.replay import Mixture
from kartrl.training.trainer import Trainer


class Team(Protocol):
    """The processes that act."""

    @property
    def alive(self) -> int:
        """Number of living processes."""

    @property
    def deaths(self) -> int:
        """Number of deaths since the run began."""

    @property
    def where(self) -> str:
        """Where they run, for display; "" if on this machine."""

    def rest(self, now: float) -> None:
        """Start timing them again: until the monotonic time `now`, they have been suspended."""


class Crew(Protocol):
    """The processes and threads that act and learn: `Central`, `DataParallel`, `Hogwild` or `Nodes`."""

    @property
    def supervisor(self) -> Team:
        """The processes that act, and their deaths."""

    @property
    def waiting(self) -> bool:
        """Whether there are no agents at present, which is not a fault: nodes may join later."""

    @property
    def trainer(self) -> Trainer:
        """The trainer, with its learner, counters and reports."""

    @property
    def predictions(self) -> int:
        """Number of observations for which actions were chosen since this process started."""

    @property
    def batches(self) -> int:
        """Number of forward passes that chose them."""

    @property
    def generators(self) -> dict[str, torch.Generator]:
        """The random generators that a checkpoint saves, by name."""

    @property
    def replay(self) -> Mixture | None:
        """The replays; None if they learn from fresh unrolls alone."""

    def start(self) -> None:
        """Start the processes and, while they load, create what the threads need."""

    def begin(self) -> None:
        """Start the threads."""

    def receive(self, timeout: float) -> Iterator[EpisodeEnd]:
        """Yield the episodes that have ended; wait at most `timeout` seconds for a message.

        Raises:
            UserError: an agent failed on bad user input.
        """

    def watch(self, now: float) -> None:
        """Check that every process is alive, and replace dead ones.

        Args:
            now: the monotonic time.

        Raises:
            RunFailed: too few processes are healthy, or training has diverged.
        """

    def scalars(self) -> dict[str, float]:
        """Scalars for the logger: sizes, faults, and how time was spent since the last call."""

    def finish(self, timeout: float) -> None:
        """Wait at most `timeout` seconds for the last update of a run that has reached its limit."""

    def stop(self, timeout: float) -> None:
        """Tell all of them to end; wait at most `timeout` seconds for each thread."""
