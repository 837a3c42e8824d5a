"""The interface between the learner and an algorithm, which is one file of this folder."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from kartrl.algorithms.laser import Relevance
from kartrl.config.schedule import Schedule
from kartrl.envs.spec import ActionSpec
from kartrl.models import VALUE, ActorCritic, Distribution, Output
from kartrl.trajectory import Trajectory

RewardTransform = Callable[[Tensor], Tensor]
Section = TypeVar("Section")


class Batch(NamedTuple):
    """The data of one update, or a part of it: B unrolls and the targets added by `Algorithm.prepare`."""

    trajectory: Trajectory[Tensor]
    targets: dict[str, Tensor]  # float32 [T, B] or [T, B, any] each
    steps: int | Tensor  # valid steps of the whole batch, over which means are taken; int64 scalar

    @property
    def weight(self) -> Tensor:
        """Weight of each step in the losses, float32 [T, B]: a mean over valid steps, times the unrolls' importance."""
        return self.trajectory.valid * self.trajectory.importance / self.steps

    @property
    def share(self) -> Tensor:
        """Weight of each step in means that are logged, float32 [T, B]: over valid steps, whatever their importance."""
        return self.trajectory.valid.to(self.trajectory.importance.dtype) / self.steps

    def unrolls(self, part: slice) -> "Batch":
        """A part of the unrolls; means remain those over the whole batch."""
        targets = {name: target[:, part] for name, target in self.targets.items()}
        return Batch(self.trajectory.unrolls(part), targets, self.steps)

    def single_steps(self) -> "Batch":
        """Every valid step as an unroll of its own, T = 1, without the observation that follows it.

        Without a valid step it is the first one: other learners, whose gradients count, may have some.
        """
        valid = self.trajectory.valid
        step, unroll = (valid if valid.any() else torch.ones_like(valid[:1, :1])).nonzero(as_tuple=True)
        targets = {name: target[step, unroll][None] for name, target in self.targets.items()}
        return Batch(self.trajectory.single_steps(step, unroll), targets, self.steps)

    def minibatch(self, chosen: Tensor) -> "Batch":
        """The unrolls with these indices, int64 [any], as a batch of its own: means are over it alone."""
        targets = {name: target[:, chosen] for name, target in self.targets.items()}
        trajectory = self.trajectory.unrolls(chosen)
        return Batch(trajectory, targets, trajectory.valid.sum().clamp(min=1))  # a GPU's number, not waited for


class Loss(NamedTuple):
    """A loss that is additive over the parts of a batch, so that their gradients add up to the batch's."""

    total: Tensor  # float32 scalar
    terms: dict[str, Tensor]  # scalars to be logged, by name; additive too
    steps: dict[str, Tensor]  # float32 [T, B] each, for diagnostics: "value", "value_target", "advantage" and others
    valid: Tensor  # bool [T, B], the valid steps

    def detach(self) -> "Loss":
        """The loss without its autograd graph."""
        terms, steps = ({name: x.detach() for name, x in tensors.items()} for tensors in (self.terms, self.steps))
        return Loss(self.total.detach(), terms, steps, self.valid)


class Algorithm(ABC, Generic[Section]):
    """The base of all algorithms: one file, one section of the configuration, one paper.

    Args:
        discount: gamma, over the run.
        reward_transform: applied to rewards [T, B].
        distribution: the policy's action distribution.
        relevance: LASER's mask, if any, for algorithms with V-trace.

    Attributes:
        distribution: the policy's action distribution.
        progress: of the run's schedules, 0 to 1; the learner sets it before each update.
        return_deviation: rewards are divided by it, so that values are in this unit; set by the learner too.
        describes: whether losses have terms that are only logged.
        gather: maps rows [n, ...] of this learner to those of all learners, if there are several; set by the learner
            too.
        synchronous: agents wait for each update, so that the policy lag is 0.
        has_vtrace: the algorithm takes a `relevance`.
        replays: the algorithm can learn from unrolls of older policies.
        batch_share: default for the fraction of all environments whose unrolls make one update: the policy lag, in
            updates, is about its inverse, on any machine.
        group_size: default for the largest number of environments that an agent steps together if it runs the network
            itself; with more, each is stepped less between two updates, and learning takes more steps.
        longest_unroll: then also: default for the most steps of an unroll where few environments make an update.
        heads: of the network, see `ActorCritic`.
        looks_ahead: whether the loss needs the network's output for the observation after an unroll.
    """

    synchronous: ClassVar[bool]
    replays: ClassVar[bool] = False
    has_vtrace: ClassVar[bool] = False
    batch_share: ClassVar[float] = 1.0
    group_size: ClassVar[int] = 4
    longest_unroll: ClassVar[int] = 32
    heads: ClassVar[frozenset[str]] = VALUE
    looks_ahead: ClassVar[bool] = True

    def __init__(
        self,
        section: Section,
        discount: Schedule,
        reward_transform: RewardTransform,
        distribution: Distribution,
        relevance: Relevance | None = None,
    ) -> None:
        self.section, self._discount, self._relevance = section, discount, relevance
        self._reward_transform, self.distribution = reward_transform, distribution
        self.progress, self.return_deviation, self.describes = 0.0, 1.0, True
        self.gather: Callable[[Tensor], Tensor] = lambda rows: rows

    @classmethod
    def accepts(cls, action: ActionSpec) -> bool:
        """Whether it can learn these actions."""
        return True

    def transform(self, reward: Tensor) -> Tensor:
        """Rewards [T, B], transformed and scaled for learning."""
        return self._reward_transform(reward) / self.return_deviation

    def prepare(self, network: ActorCritic, trajectory: Trajectory[Tensor], steps: int) -> Batch:
        """Compute what the loss needs from the batch as a whole; called once per update, without gradients."""
        return Batch(trajectory, {}, steps)

    def minibatches(self, batch: Batch, losses: Sequence[Loss]) -> Iterator[Batch]:
        """Split the result of `prepare` into one batch per optimizer step: by default a single one.

        Args:
            losses: of all parts of those yielded so far; the learner adds to it.
        """
        yield batch

    def after_step(self, network: ActorCritic) -> None:
        """Called after each optimizer step, with the updated network."""
        if self._relevance is not None:
            self._relevance.follow(network)

    def state_dict(self) -> dict[str, Tensor]:
        """Everything the algorithm keeps from one update to the next, float32 or int64; not copied."""
        return {} if self._relevance is None else self._relevance.state_dict()

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore a `state_dict`."""
        if self._relevance is not None:
            self._relevance.load_state_dict(state)

    @classmethod
    def state_of(cls, network: dict[str, Tensor]) -> dict[str, Tensor]:
        """The algorithm's own state, without LASER's lagged network; see `kartrl.algorithms.state_of`."""
        return {}

    @abstractmethod
    def loss(self, output: Output, batch: Batch) -> Loss:
        """The loss of these unrolls.

        Args:
            output: of the learner's network, on `batch.trajectory`: [T + 1, B, ...]; or [T, B, ...], see `looks_ahead`.
        """
