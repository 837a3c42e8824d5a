"""The server's interface to the processes and threads that act and learn."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Protocol

import torch

from kartrl.acting.messages import EpisodeEnd
from kartrl.acting.program import Program
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
    def signs(self) -> int:
        """A number that grows while any of them makes, resets or steps environments, or asks for actions."""

    @property
    def where(self) -> str:
        """Where they run, for display; "" if on this machine."""

    def rest(self, now: float) -> None:
        """Start timing them again: until the monotonic time `now`, they have been suspended."""


class Crew(ABC):
    """The processes and threads that act and learn: `Central`, `DataParallel`, `Hogwild` or `Nodes`."""

    supervisor: Team
    """The processes that act, and their deaths."""

    trainer: Trainer
    """The trainer, with its learner, counters and reports."""

    waiting = False
    """Whether there are no agents at present, which is not a fault: nodes may join later."""

    replay: Mixture | None = None
    """The replays; None if they learn from fresh unrolls alone."""

    programs: Mapping[int, Program] | None = None
    """The network's, if agents run it themselves by these."""

    @property
    @abstractmethod
    def predictions(self) -> int:
        """Number of observations for which actions were chosen since this process started."""

    @property
    @abstractmethod
    def batches(self) -> int:
        """Number of forward passes that chose them."""

    @property
    def generators(self) -> dict[str, torch.Generator]:
        """The random generators that a checkpoint saves, by name; what comes and goes begins with new seeds instead."""
        return {}

    def keep_updates(self) -> None:
        """From `start` on, keep what each update has shown in `Trainer.made`, until somebody takes it from there."""
        self.trainer.keeps = True

    @abstractmethod
    def start(self) -> None:
        """Start the processes and, while they load, create what the threads need."""

    def begin(self) -> None:  # noqa: B027  # optional
        """Start the threads, if there are any."""

    @abstractmethod
    def receive(self, timeout: float) -> Iterator[EpisodeEnd]:
        """Yield the episodes that have ended; wait at most `timeout` seconds for a message.

        Raises:
            UserError: an agent failed on bad user input.
        """

    @abstractmethod
    def watch(self, now: float) -> None:
        """Check that every process is alive, and replace dead ones.

        Raises:
            RunFailed: too few processes are healthy, or training has diverged.
        """

    @abstractmethod
    def scalars(self) -> dict[str, float]:
        """Scalars for the logger: sizes, faults, and how time was spent since the last call."""

    def finish(self, timeout: float) -> None:  # noqa: B027  # optional
        """Wait at most `timeout` seconds for the last update of a run that has reached its limit."""

    @abstractmethod
    def stop(self, timeout: float) -> None:
        """Tell all of them to end; wait at most `timeout` seconds for each thread."""
