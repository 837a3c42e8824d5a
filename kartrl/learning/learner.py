"""The learner: one update, and nothing else."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kartrl.algorithms import Algorithm, make_algorithm
from kartrl.algorithms.algorithm import Loss
from kartrl.algorithms.losses import explained_variance
from kartrl.config import Config
from kartrl.envs.spec import ActionSpec
from kartrl.learning.optimizers import get_state, make_optimizer, set_state
from kartrl.models import Network, make_distribution
from kartrl.trajectory import Trajectory


class Update(NamedTuple):
    """What came of an update."""

    finite: bool  # else it was skipped: nothing has changed
    steps: int  # valid ones in the batch
    gradient_norm: float  # before clipping
    losses: list[Loss]  # of the parts of the batch

    def scalars(self) -> dict[str, float]:
        """For the logger; this waits for the device."""
        names = self.losses[0].terms
        terms = {f"losses/{name}": float(sum(loss.terms[name] for loss in self.losses)) for name in names}
        return {
            "losses/total": float(sum(loss.total for loss in self.losses)),
            **terms,
            "losses/explained_variance": explained_variance(torch.stack([x.value_moments for x in self.losses]).sum(0)),
            "losses/gradient_norm": self.gradient_norm,
        }


PART_STEPS = 160  # of a batch that go through the network at once on a CPU: what they need fits into its cache


class Learner:
    """A network, an algorithm and an optimizer: makes the only optimizer step.

    Args:
        gradient_clip: largest global norm of the gradient; infinity for none.
        part: unrolls that go through the network at once. Gradients of parts add up to that of the batch; on a CPU,
            parts that fit its cache are faster and need less memory.
    """

    def __init__(
        self,
        network: Network,
        algorithm: Algorithm[Any],
        optimizer: torch.optim.Optimizer,
        *,
        gradient_clip: float,
        part: int,
    ) -> None:
        self.network, self.algorithm, self.optimizer = network, algorithm, optimizer
        self._clip, self._part = gradient_clip, part

    def update(
        self, trajectory: Trajectory[Tensor], steps: int, learning_rate: float, lap: Callable[[str], None]
    ) -> Update:
        """One update from a batch of unrolls.

        Args:
            trajectory: on the network's device.
            steps: valid ones in it.
            lap: called after each of the stages forward, loss, backward and optimizer.

        Returns:
            What came of it. Where the loss or gradient is not finite, the update is skipped.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            batch = self.algorithm.prepare(self.network, trajectory, max(steps, 1))
        losses: list[Loss] = []
        for begin in range(0, trajectory.reward.shape[1], self._part):
            part = batch.unrolls(slice(begin, begin + self._part))
            observation, first, state = (
                part.trajectory.observation,
                part.trajectory.first,
                part.trajectory.initial_state,
            )
            output, _ = self.network(observation, first, state)
            lap("forward")
            loss = self.algorithm.loss(output, part)
            lap("loss")
            loss.total.backward()
            lap("backward")
            losses.append(_detached(loss))
        norm = torch.nn.utils.clip_grad_norm_(self.network.parameters(), self._clip)
        # On a GPU this waits for the device, once an update: the price of never stepping into weights that are lost.
        finite = math.isfinite(float(norm + sum(loss.total for loss in losses)))
        if finite:
            self.optimizer.step()
            if self.network.normalises:  # after the step, which so sees what was acted on
                self.network.observe(trajectory.observation[:-1][trajectory.valid])
        lap("optimizer")
        return Update(finite, steps, float(norm), losses)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Copies on the CPU of the network's and the optimizer's state."""
        return _copied(self.network.state_dict()), _copied(get_state(self.optimizer))

    def load_state(self, network: dict[str, Tensor], optimizer: dict[str, Tensor]) -> None:
        """Continue from what `state` gave."""
        self.network.load_state_dict(network)
        set_state(self.optimizer, optimizer)


def make_learner(config: Config, network: Network, action: ActionSpec) -> Learner:
    """The learner that the configuration describes, for a network with these actions."""
    on_cpu = next(iter(network.parameters())).device.type == "cpu"
    return Learner(
        network,
        make_algorithm(config, make_distribution(action)),
        make_optimizer(config.optimizer, network.parameters()),
        gradient_clip=config.optimizer.gradient_clip or math.inf,
        part=max(1, PART_STEPS // config.algorithm.unroll_length) if on_cpu else 1_000_000,
    )


def _detached(loss: Loss) -> Loss:
    terms = {name: term.detach() for name, term in loss.terms.items()}
    return Loss(loss.total.detach(), terms, loss.value_moments)


def _copied(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in state.items()}
