"""A run's numbers of processes, environments and batches, and the slab that they need."""

from typing import NamedTuple

import torch

from kartrl.acting.slab import SlabShape
from kartrl.algorithms import heads_of
from kartrl.config import Config
from kartrl.envs.spec import EnvSpec
from kartrl.errors import UserError
from kartrl.hardware.machine import free_memory
from kartrl.models import ActorCritic
from kartrl.trajectory import decision_size


class Sizes(NamedTuple):
    """The numbers of [system] for each learner, with `auto` replaced by a choice for this machine."""

    agents: int
    min_agents: int  # that must be healthy
    groups_per_agent: int  # stepped in turn: one while the others wait for their actions
    group_size: int  # G, environments stepped together
    predictors: int  # 0: each agent runs the network itself
    trainers: int
    prediction_groups: int  # maximum in one forward pass
    min_groups: int  # that a predictor briefly waits for
    training_blocks: int  # in one update, of G fresh unrolls each
    replayed: int  # replayed unrolls added to them in one update
    unroll_length: int  # T, steps
    max_lag: int  # updates; unrolls that began with older weights are dropped
    ring: int  # blocks per group
    torch_threads: int  # of PyTorch's operations, and of an update at the start
    most_threads: int  # of an update, while updates are the bottleneck

    @property
    def update_steps(self) -> int:
        """Agent steps of all environments after which there is a batch for an update, if all are equally fast."""
        groups = self.agents * self.groups_per_agent
        return -(-self.training_blocks // groups) * groups * self.group_size * self.unroll_length

    def rounds(self, updates: int) -> int:
        """Number of whole rounds, in which every group fills one block, in so many updates of a reproducible run."""
        return updates * self.training_blocks // (self.agents * self.groups_per_agent)


def check_memory(need: int, agents: int, envs: int) -> None:
    """Refuse more environments than this machine has memory for; `need` is in bytes."""
    if need > (free := free_memory()):
        raise UserError(
            f"the unrolls of {agents} agents with {envs} environments would take {need / 1e9:,.1f} GB of memory, but "
            f"{free / 1e9:,.1f} GB are free; lower system.agents, system.envs_per_agent or algorithm.unroll_length"
        )


def slab_shape(config: Config, spec: EnvSpec, sizes: Sizes) -> SlabShape:
    """The shape of the slab of a run with these sizes.

    Raises:
        UserError: it takes more memory than is free.
    """
    with torch.device("meta"):  # shapes without memory
        network = ActorCritic(config.model, spec.observation, spec.action, heads_of(config))
    shape = SlabShape(
        num_agents=sizes.agents,
        groups_per_agent=sizes.groups_per_agent,
        group_size=sizes.group_size,
        ring=sizes.ring,
        unroll_length=sizes.unroll_length,
        observation_shape=spec.observation.shape,
        observation_dtype=spec.observation.dtype,
        decision_size=decision_size(spec.action.columns, network.distribution.parameter_size),
        state_size=network.state_size,
        restriction_size=spec.action.parameter_size if spec.action.masked else 0,
    )
    check_memory(shape.size(), sizes.agents, sizes.groups_per_agent * sizes.group_size)
    return shape
