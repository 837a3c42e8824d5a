"""Who acts and learns in a run, as its server sees them."""

from collections.abc import Iterator
from typing import Protocol

import torch

from kartrl.metrics.terminal import Status
from kartrl.replay import Mixture
from kartrl.runtime.messages import EpisodeEnd
from kartrl.runtime.trainer_thread import Trainer


class Team(Protocol):
    """The processes that act."""

    @property
    def alive(self) -> int:
        """How many live."""

    @property
    def deaths(self) -> int:
        """How many have died since the run began."""

    @property
    def where(self) -> str:
        """Where they are, for people; "" where that is this machine."""


class Crew(Protocol):
    """The processes and threads that act and learn: `Central`, `DataParallel`, `Hogwild` or `Nodes`."""

    @property
    def supervisor(self) -> Team:
        """Of the processes that act."""

    @property
    def waiting(self) -> bool:
        """Whether nobody is there to act, which is no fault: somebody may come."""

    @property
    def trainer(self) -> Trainer:
        """What was learned, how far it has come, and what there is to report of it."""

    @property
    def predictions(self) -> int:
        """Observations for which actions were chosen, in this process's life."""

    @property
    def batches(self) -> int:
        """Forward passes in which they were."""

    @property
    def generators(self) -> dict[str, torch.Generator]:
        """What they draw from and a checkpoint keeps, by name."""

    @property
    def replay(self) -> Mixture | None:
        """What they replay; None where they learn from fresh unrolls alone."""

    def start(self) -> None:
        """Start the processes, and make what the threads need while they come up."""

    def begin(self) -> None:
        """Start the threads."""

    def receive(self, timeout: float) -> Iterator[EpisodeEnd]:
        """The episodes that have ended; waits for a message at most this long.

        Raises:
            UserError: an agent met bad input.
        """

    def watch(self, now: float) -> None:
        """See that every process lives, or is replaced.

        Args:
            now: the monotonic time.

        Raises:
            RunFailed: too few do, or what they learn has diverged.
        """

    def tune(self, now: float, status: Status) -> None:
        """Adjust the sizes that may be adjusted while training goes on."""

    def scalars(self) -> dict[str, float]:
        """For the logger: sizes, faults, and where the time went since the last call."""

    def finish(self, timeout: float) -> None:
        """Wait for the last update of a run that has reached its limit, at most so many seconds."""

    def stop(self, timeout: float) -> None:
        """Have all of them end; threads are waited for, at most so many seconds each."""
