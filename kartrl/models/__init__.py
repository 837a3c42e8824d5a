"""Networks: encoders, cores, distributions, and the actor-critic built from them."""

import copy
from collections.abc import Iterator
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn

from kartrl.config import Model
from kartrl.envs.named_modules import named_modules
from kartrl.envs.observation_spec import ObservationSpec
from kartrl.envs.spec import ActionSpec
from kartrl.models.actor_critic import VALUE, ActorCritic, Output
from kartrl.models.distributions import Distribution, make_distribution
from kartrl.models.scripting import script
from kartrl.trajectory import Trajectory

__all__ = [
    "VALUE",
    "ActorCritic",
    "Distribution",
    "Network",
    "Output",
    "for_inference",
    "make_distribution",
    "make_network",
    "run",
]


class Network(Protocol):
    """An `ActorCritic`, scripted or not; type checkers cannot see the methods of a scripted module."""

    state_size: int
    normalises: bool
    normalises_returns: bool
    masked: bool
    parameter_size: int

    def __call__(
        self, observation: Tensor, first: Tensor, state: Tensor, restriction: Tensor | None = None
    ) -> tuple[Output, Tensor]: ...

    def initial_state(self, batch: int) -> Tensor: ...

    def step(
        self, observation: Tensor, first: Tensor, state: Tensor, restriction: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]: ...

    def act(
        self,
        observation: Tensor,
        first: Tensor,
        state: Tensor,
        noise: Tensor,
        greedy: bool,
        restriction: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]: ...

    def features(self, observation: Tensor) -> Tensor: ...

    def advantages(self, features: Tensor, action: Tensor) -> Tensor: ...

    def observe(self, observation: Tensor) -> None: ...

    def return_deviation(self) -> Tensor: ...

    def observe_returns(self, value_target: Tensor, unit: float) -> None: ...

    def parameters(self) -> Iterator[nn.Parameter]: ...

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]: ...

    def buffers(self) -> Iterator[Tensor]: ...

    def state_dict(self) -> dict[str, Tensor]: ...

    def load_state_dict(self, state_dict: dict[str, Tensor]) -> Any: ...

    def to(self, device: torch.device) -> "Network": ...

    def eval(self) -> "Network": ...


def make_network(
    section: Model, observation: ObservationSpec, action: ActionSpec, heads: frozenset[str] = VALUE
) -> Network:
    """Make an `ActorCritic` for these observations and actions; parts that TorchScript refuses run eagerly."""
    network = ActorCritic(section, observation, action, heads)
    try:
        return cast(Network, script(network) if section.torchscript else network)
    except Exception:  # it has no common class for what it does not take
        if not named_modules(section):
            raise
        return cast(Network, network)


def run(network: Network, trajectory: Trajectory[Tensor]) -> Output:
    """The output [T + 1, B, ...] for unrolls; [1, B, ...] for single steps without the observation that follows.

    Where the environment says which actions are legal, the policy is restricted to them as it was when it acted: its
    parameters then say which these were.
    """
    observation, first, state = trajectory.observation, trajectory.first, trajectory.initial_state
    acted = trajectory.decision[..., -network.parameter_size :] if network.masked else None
    if len(observation) > 1:
        return network(observation, first, state, acted)[0]
    policy, value, _ = network.step(observation[0], first[0], state, None if acted is None else acted[0])
    return Output(policy[None], value[None])


def for_inference(network: Network) -> Network:
    """A copy for inference only: in bfloat16, if the network computes in it, and equal to it bit for bit.

    Layers that scale their weights stay in float32: they are rounded after that, as in the network itself.
    """
    with torch.no_grad():  # otherwise the copied parameters would not be leaf tensors, and casting them would warn
        copied: Any = copy.deepcopy(network)
    copied.eval()
    for encoder in copied.modules():
        if getattr(encoder, "bf16", False):
            for layer in (*encoder.body.modules(), *encoder.linear.modules()):  # not the normaliser
                if not [*layer.children()] and getattr(layer, "scale", 1.0) == 1.0:
                    layer.to(torch.bfloat16)
    return cast(Network, copied)
