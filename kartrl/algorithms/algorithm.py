"""What an algorithm is: the protocol between the learner and one file of this folder."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Generic, NamedTuple, TypeVar

from torch import Tensor

from kartrl.models import Distribution, Network, Output
from kartrl.trajectory import Trajectory

RewardTransform = Callable[[Tensor], Tensor]
Section = TypeVar("Section")


class Batch(NamedTuple):
    """What one update is made from, or a part of it: B unrolls, and what `Algorithm.prepare` has added."""

    trajectory: Trajectory[Tensor]
    targets: dict[str, Tensor]  # float32 [T, B] each
    steps: int  # valid ones of the whole batch, over which means are taken

    def unrolls(self, part: slice) -> "Batch":
        """Only these unrolls; means stay those over the whole batch."""
        targets = {name: target[:, part] for name, target in self.targets.items()}
        return Batch(self.trajectory.unrolls(part), targets, self.steps)


class Loss(NamedTuple):
    """A loss that is additive over the parts of a batch, so that their gradients add up to the batch's."""

    total: Tensor  # float32 scalar
    terms: dict[str, Tensor]  # scalars to be logged, by name; additive too
    value_moments: Tensor  # float64 [4]: see `losses.value_moments`


class Algorithm(ABC, Generic[Section]):
    """The base of all algorithms: one file, one section of the configuration, one paper.

    Args:
        section: the algorithm's own.
        discount: gamma.
        reward_transform: of rewards [T, B].
        distribution: of the policy.

    Attributes:
        synchronous: agents wait for each update, so that the policy lag is 0.
    """

    synchronous: ClassVar[bool]

    def __init__(
        self, section: Section, discount: float, reward_transform: RewardTransform, distribution: Distribution
    ) -> None:
        self._section, self._discount = section, discount
        self._transform, self._distribution = reward_transform, distribution

    def prepare(self, network: Network, trajectory: Trajectory[Tensor], steps: int) -> Batch:
        """What the loss needs to know of the batch as a whole; called without gradients, once for each update."""
        return Batch(trajectory, {}, steps)

    @abstractmethod
    def loss(self, output: Output, batch: Batch) -> Loss:
        """The loss of these unrolls.

        Args:
            output: of the network that learns, on `batch.trajectory`: [T + 1, B, ...].
            batch: a part of what `prepare` gave.
        """
