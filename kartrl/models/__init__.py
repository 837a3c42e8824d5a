"""Networks: encoders, cores, distributions, and the actor-critic built from them."""

import copy
from typing import Any

import torch
from torch import Tensor

from kartrl.config import Model
from kartrl.envs.observation_spec import ObservationSpec
from kartrl.envs.spec import ActionSpec
from kartrl.models.actor_critic import VALUE, ActorCritic, Output
from kartrl.models.distributions import Distribution, make_distribution
from kartrl.trajectory import Trajectory

__all__ = [
    "VALUE",
    "ActorCritic",
    "Distribution",
    "Output",
    "for_inference",
    "make_distribution",
    "make_network",
    "run",
]


def make_network(
    section: Model, observation: ObservationSpec, action: ActionSpec, heads: frozenset[str] = VALUE
) -> ActorCritic:
    """Make the network for these observations and actions."""
    return ActorCritic(section, observation, action, heads)


def run(network: ActorCritic, trajectory: Trajectory[Tensor], ahead: bool = True) -> Output:
    """The output [T + 1, B, ...] for unrolls; [1, B, ...] for single steps without the observation that follows.

    Args:
        ahead: else that of the last observation may be missing.

    Where the environment says which actions are legal, the policy is restricted to them as it was when it acted: its
    parameters then say which these were.
    """
    observation, first, state = trajectory.observation, trajectory.first, trajectory.initial_state
    acted = trajectory.decision[..., -network.parameter_size :] if network.masked else None
    length = len(trajectory.reward)
    if length > 1 and not ahead and not network.state_size:
        seen, begun = observation[:length].flatten(0, 1), first[:length].flatten()
        policy, value, _ = network.step(seen, begun, state, None if acted is None else acted.flatten(0, 1))
        return Output(policy.unflatten(0, (length, -1)), value.unflatten(0, (length, -1)))
    if len(observation) > 1:
        return network(observation, first, state, acted)[0]
    policy, value, _ = network.step(observation[0], first[0], state, None if acted is None else acted[0])
    return Output(policy[None], value[None])


def for_inference(network: ActorCritic) -> ActorCritic:
    """A copy for inference only: in bfloat16, if the network computes in it, and equal to it bit for bit.

    Layers that scale their weights stay in float32: they are rounded after that, as in the network itself.
    """
    with torch.no_grad():  # otherwise the copied parameters would not be leaf tensors, and casting them would warn
        copied = copy.deepcopy(network).eval()
    encoders: list[Any] = [*copied.modules()]
    for encoder in encoders:
        if getattr(encoder, "bf16", False):
            for layer in (*encoder.body.modules(), *encoder.linear.modules()):  # not the normaliser
                if not [*layer.children()] and getattr(layer, "scale", 1.0) == 1.0:
                    layer.to(torch.bfloat16)
    return copied
