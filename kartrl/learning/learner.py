"""The learner: makes updates, and nothing else."""

import functools
import math
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from kartrl.algorithms import Algorithm, make_algorithm
from kartrl.algorithms.algorithm import Batch, Loss
from kartrl.algorithms.clear import Cloning
from kartrl.config import Config
from kartrl.config.schedule import Schedule
from kartrl.envs.spec import ActionSpec
from kartrl.learning.diagnostics import PolicyProbe, describe
from kartrl.learning.gradient_reducer import GradientReducer, OneLearner
from kartrl.learning.graphed_loss import Capture, CudaCapture, GraphedLoss
from kartrl.learning.optimizers import FACTOR, adapt, get_state, make_optimizer, set_state
from kartrl.learning.update_threads import UpdateThreads
from kartrl.models import ActorCritic, make_distribution, run
from kartrl.models.mirror_symmetry import MirrorSymmetry
from kartrl.trajectory import Trajectory


class LearnerState(NamedTuple):
    """CPU copies of everything that updates change."""

    network: dict[str, Tensor]
    optimizer: dict[str, Tensor]  # see `optimizers.get_state`
    algorithm: dict[str, Tensor]  # see `Algorithm.state_dict`


class Step(NamedTuple):
    """The result of an optimizer step."""

    finite: bool  # else the step was skipped and nothing has changed
    gradient_norm: float  # before clipping
    losses: list[Loss]  # of the parts of the minibatch
    serials: list[Tensor]  # of the unrolls in each part, int64 [b]; see `Trajectory`
    replayed: list[Tensor]  # whether each of these unrolls was replayed, bool [b]

    def mean_of_replayed(self, name: str) -> float | None:
        """The mean of `Loss.steps[name]` over replayed valid steps; None if there are none."""
        values = [
            loss.steps[name][loss.valid & replayed]
            for loss, replayed in zip(self.losses, self.replayed, strict=True)
            if name in loss.steps
        ]
        chosen = torch.cat(values) if values else torch.empty(0)
        return float(chosen.mean()) if len(chosen) else None


class Update(NamedTuple):
    """The result of an update: one optimizer step per minibatch, until one is skipped."""

    steps: list[Step]
    policy_kl: float | None  # KL(before || after), if requested and there was a valid step
    unit: float  # of values: the deviation of returns that rewards were divided by

    @property
    def finite(self) -> bool:
        """Whether all steps were made (none was skipped)."""
        return self.steps[-1].finite

    def value_targets(self, steps: int) -> Tensor:
        """Value targets of the fresh valid steps, in `unit`, float32 [steps]; later passes over them have the same."""
        parts = [pair for step in self.steps for pair in zip(step.losses, step.replayed, strict=True)]
        fresh = [loss.steps["value_target"][loss.valid & ~replayed] for loss, replayed in parts]
        return torch.cat(fresh)[:steps]

    def td_errors(self) -> tuple[np.ndarray, np.ndarray]:
        """Serial numbers, int64 [n], and absolute TD errors, float32 [n], of the unrolls that a replay holds.

        0.9 times the largest of an unroll's valid steps plus 0.1 times their mean, as in R2D2 (Kapturowski et al.
        2019), in the unit of rewards, which does not change. An unroll may appear several times, its newest error last.
        This waits for the device.
        """
        serials, errors = [], []
        for step in self.steps:
            for loss, serial in zip(step.losses, step.serials, strict=True):
                error = (loss.steps["value_target"] - loss.steps["value"]).abs() * loss.valid
                mean = error.sum(0) / loss.valid.sum(0).clamp(min=1)
                errors.append(self.unit * (LARGEST_SHARE * error.amax(0) + (1 - LARGEST_SHARE) * mean))
                serials.append(serial)
        every = torch.cat(serials)
        held = every >= 0
        return every[held].cpu().numpy(), torch.cat(errors)[held].float().cpu().numpy()

    def scalars(self) -> dict[str, float]:
        """Scalars for the logger, over all optimizer steps (see `describe`); this waits for the device."""
        scalars = describe([loss for step in self.steps for loss in step.losses], len(self.steps))
        for name in ("behaviour_kl", "trusted"):
            means = [mean for step in self.steps if (mean := step.mean_of_replayed(name)) is not None]
            if means:
                scalars[f"replay/{name}"] = fmean(means)
        return scalars if self.policy_kl is None else scalars | {"losses/policy_kl": self.policy_kl}


LARGEST_SHARE = 0.9  # weight of the largest TD error in that of an unroll; the mean has the rest
PART_STEPS = 160  # steps that go through the network at once on a CPU, so that activations fit into its cache
ALL_STEPS = 1_000_000_000  # on other devices
EPSILON = 1e-6  # added to norms that gradients are divided by, as in PyTorch
MOST_IMAGES = 32  # of a batch, for running statistics of pixels: all would take as long as the update


class Learner:
    """Makes all optimizer steps, with a network, an algorithm and an optimizer.

    Args:
        learning_rate: over the run.
        kl_target: KL of an update to which the learning rate is adapted, see `adapt`; 0 to keep its schedule.
        gradient_clip: largest global norm of the gradient; infinity for no clipping.
        part_steps: steps that go through the network at once, as whole unrolls. Gradients of parts add up to that of
            the batch; on a CPU, parts that fit into its cache are faster and need less memory.
        threads: they share the parts of a batch on a CPU, and what is left of them, if there are fewer parts, shares
            each operation. With the same parts, gradients are the same, bit for bit, as with a single thread. None: a
            single one.
        cloning: CLEAR's terms, added to the algorithm's loss.
        reducer: connects this learner with others that update at the same time; None for a single learner.
        normalising: the network to whose running statistics batches are added, on any device; None for `network`.
        capture: records what computes a minibatch's loss and gradients, so that a GPU repeats it by one launch; the
            minibatch must then be one part. None: nothing is recorded.
        symmetry: of the network, whose weights are tied already.

    Attributes:
        optimizer_steps: begun so far, including those skipped as not finite.
        threads: which share the parts of a batch.
    """

    def __init__(
        self,
        network: ActorCritic,
        algorithm: Algorithm[Any],
        optimizer: torch.optim.Optimizer,
        *,
        learning_rate: Schedule,
        kl_target: float,
        gradient_clip: float,
        part_steps: int,
        threads: UpdateThreads | None = None,
        cloning: Cloning | None = None,
        reducer: GradientReducer | None = None,
        normalising: ActorCritic | None = None,
        capture: Capture | None = None,
        symmetry: MirrorSymmetry | None = None,
    ) -> None:
        self.network, self.algorithm, self.optimizer = network, algorithm, optimizer
        self._normalising = normalising or network
        self._schedule, self._kl_target = learning_rate, kl_target
        self.gradient_clip, self._part_steps = gradient_clip, part_steps
        self._cloning, self.threads = cloning, threads or UpdateThreads()
        self._parameters = [each for each in network.parameters() if each.requires_grad]  # own ones may be frozen
        self.reducer: GradientReducer = reducer or OneLearner()
        algorithm.gather = self.reducer.gather
        self._graphed = GraphedLoss(self._gradients, algorithm, self._parameters, capture) if capture else None
        self._symmetry = symmetry
        self.optimizer_steps = 0

    def learning_rate(self, progress: float) -> float:
        """Learning rate of the next optimizer step."""
        (group,) = self.optimizer.param_groups
        return self._schedule.at(progress) * float(group.get(FACTOR, 1.0))

    def update(
        self,
        trajectory: Trajectory[Tensor],
        steps: int,
        progress: float,
        lap: Callable[[str], None],
        probe: bool = False,
    ) -> Update:
        """One update from a batch of unrolls.

        Args:
            trajectory: on the network's device.
            steps: number of valid steps in it.
            lap: called after each of the stages forward, loss, backward and optimizer.
            probe: measure how far the update moves the policy, which costs two small forward passes.

        Returns:
            The result. If a loss or gradient of any learner is not finite, the step is skipped and the update ends.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate(progress)
        self.algorithm.progress = progress
        if self.network.normalises_returns:
            self.algorithm.return_deviation = float(self.network.return_deviation())
        before = (
            PolicyProbe(self.network, self.algorithm.distribution, trajectory) if probe or self._kl_target else None
        )
        with torch.no_grad():
            batch = self.algorithm.prepare(self.network, trajectory, max(steps, 1))
        made, losses = list[Step](), list[Loss]()
        for minibatch in self.algorithm.minibatches(batch, losses):
            made.append(self._step(minibatch, lap))
            losses += made[-1].losses
            if not made[-1].finite:
                return Update(made, None, self.algorithm.return_deviation)
        if self.network.normalises:  # after the steps, so that these use the statistics used for acting
            seen = self.reducer.gather(observed(trajectory))
            self._normalising.observe(seen if self._symmetry is None else self._symmetry.both(seen))
        update = Update(made, None if before is None else before.divergence(), self.algorithm.return_deviation)
        if self._kl_target:
            divergence = math.nan if update.policy_kl is None else update.policy_kl
            adapt(self.optimizer, self._kl_target, self.reducer.gather(torch.tensor([divergence])))
        if self.network.normalises_returns:
            targets = update.value_targets(int((trajectory.valid & trajectory.online).sum()))
            self._normalising.observe_returns(self.reducer.gather(targets), update.unit)
        return update

    def _step(self, batch: Batch, lap: Callable[[str], None]) -> Step:
        self.optimizer_steps += 1
        for parameter in self._parameters:
            parameter.grad = None
        length, number = batch.trajectory.reward.shape
        most = max(1, self._part_steps // length)  # unrolls
        size = -(-number // max(-(-number // most), self.threads.least_parts))  # alike, as threads share the parts
        parts = [batch.unrolls(slice(begin, begin + size)) for begin in range(0, number, size)]
        losses = self._add_gradients(parts, lap)
        total = torch.as_tensor(sum(loss.total for loss in losses))
        total = self.reducer.reduce(self._parameters, total, batch.trajectory.valid.sum())
        if self._symmetry is not None:
            self._symmetry.average_gradients(self._parameters)
        norm = clip_norm(
            [gradient for each in self._parameters if (gradient := each.grad) is not None], self.gradient_clip
        )
        # On a GPU this waits for the device once per step: the price of never applying a non-finite gradient.
        gradient_norm, loss = torch.stack([norm, total]).tolist()
        finite = math.isfinite(gradient_norm + loss)
        if finite:
            self.optimizer.step()
            self.algorithm.after_step(self.network)
        lap("optimizer")
        serials = [part.trajectory.serial for part in parts]
        return Step(finite, gradient_norm, losses, serials, [~part.trajectory.online for part in parts])

    def _add_gradients(self, parts: Sequence[Batch], lap: Callable[[str], None]) -> list[Loss]:
        """Set the gradients of all parts' losses, and return these; by graphs or several threads, all is `backward`."""
        losses = []
        graphed = self._graphed if len(parts) == 1 else None  # the gradients of a second one would overwrite its own
        if graphed is None and (self.threads.number == 1 or len(parts) == 1):
            for part in parts:
                loss = self._loss(part, lap)
                loss.total.backward()
                lap("backward")
                losses.append(loss.detach())
            return losses
        every = []
        results = self.threads.map(self._gradients, parts) if graphed is None else map(graphed, parts)
        for loss, gradients in results:
            losses.append(loss)
            every.append(gradients)
        for parameter, *of_parts in zip(self._parameters, *every, strict=True):
            if known := [gradient for gradient in of_parts if gradient is not None]:
                parameter.grad = functools.reduce(torch.add, known)
        lap("backward")
        return losses

    def _gradients(self, part: Batch) -> tuple[Loss, tuple[Tensor | None, ...]]:
        """The loss of a part and its gradients; called on a thread of the pool, or recorded."""
        loss = self._loss(part, lambda stage: None)
        return loss.detach(), torch.autograd.grad(loss.total, self._parameters, allow_unused=True)

    def _loss(self, part: Batch, lap: Callable[[str], None]) -> Loss:
        output = run(self.network, part.trajectory, self.algorithm.looks_ahead)
        lap("forward")
        loss = self.algorithm.loss(output, part)
        if self._cloning is not None:
            loss = self._cloning.added(loss, output, part)
        lap("loss")
        return loss

    def state(self) -> LearnerState:
        states = self.network.state_dict(), get_state(self.optimizer), self.algorithm.state_dict()
        return LearnerState(*map(_copied, states))

    def load_state(self, state: LearnerState) -> None:
        self.network.load_state_dict(state.network)
        set_state(self.optimizer, state.optimizer)
        self.algorithm.load_state_dict(state.algorithm)


def make_learner(
    config: Config,
    network: ActorCritic,
    action: ActionSpec,
    optimizer: torch.optim.Optimizer | None = None,
    reducer: GradientReducer | None = None,
    threads: UpdateThreads | None = None,
    normalising: ActorCritic | None = None,
    capture: Capture | None = None,
    symmetry: MirrorSymmetry | None = None,
) -> Learner:
    """Make the learner that the configuration describes, for a network with these actions.

    Args:
        capture: see `Learner`; None: CUDA graphs on a GPU.
    """
    device = next(iter(network.parameters())).device.type
    capture = capture or (CudaCapture() if device == "cuda" else None)
    distribution = make_distribution(action, config.model.squash_actions)
    return Learner(
        network,
        make_algorithm(config, distribution),
        optimizer or make_optimizer(config.optimizer, network.parameters()),
        learning_rate=config.optimizer.learning_rate,
        kl_target=config.optimizer.kl_target,
        gradient_clip=config.optimizer.gradient_clip or math.inf,
        part_steps=PART_STEPS if device == "cpu" and capture is None else ALL_STEPS,
        threads=threads,
        cloning=Cloning(config.clear, distribution, config.laser.seed_threshold) if config.clear.clones else None,
        reducer=reducer,
        normalising=normalising,
        capture=capture,
        symmetry=symmetry,
    )


def observed(trajectory: Trajectory[Tensor]) -> Tensor:
    """The observations [N, ...] for running statistics: of all fresh valid steps, but at most `MOST_IMAGES` images."""
    fresh = trajectory.valid & trajectory.online
    env, step = fresh.t().nonzero(as_tuple=True)  # by environment, so that a few are from all of them
    every = max(1, -(-len(step) // MOST_IMAGES)) if trajectory.observation.dtype == torch.uint8 else 1
    return trajectory.observation[step[::every], env[::every]]


@torch.no_grad()
def clip_norm(gradients: list[Tensor], largest: float) -> Tensor:
    """Scale gradients so that their global norm is at most `largest`; returns what it was, float32 scalar.

    As `torch.nn.utils.clip_grad_norm_`, but for its checks.
    """
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    torch._foreach_mul_(gradients, (largest / (norm + EPSILON)).clamp_(max=1.0))
    return norm


def _copied(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in state.items()}
