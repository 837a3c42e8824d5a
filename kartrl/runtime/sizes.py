"""Numbers of processes and sizes of batches that suit the machine, from a moment of measuring at the start.

What was measured to find these rules is in docs/performance.md.
"""

import math
import time
from typing import NamedTuple

import numpy as np
import torch

from kartrl.config import Config
from kartrl.envs.spec import EnvSpec
from kartrl.errors import UserError
from kartrl.models import make_model
from kartrl.runtime.devices import choose_device
from kartrl.runtime.machine import cores, free_memory

GROUP_SECONDS = 4e-3  # that a group should be stepped for, so that messages and batches of one cost little beside it
LARGEST_GROUP = 8  # so that an update of 8 unrolls remains possible
AGENTS_PER_CORE = 6  # where an agent has one environment: while most wait for a batch to fill, some must be running
STEP_BYTES = 32  # of the shared slab for each step of an unroll, beside the observation
AGENT_BYTES = 80e6  # of memory that an agent process takes, with its emulator
NEARLY = 1.1  # a forward pass whose cost for an observation is within this factor of the least is large enough


class Sizes(NamedTuple):
    """The numbers of [system], with a choice for this machine wherever it says auto."""

    agents: int
    min_agents: int  # that must be healthy
    groups_per_agent: int  # stepped in turn: one while the others wait for their actions
    group_size: int  # G, environments stepped together
    predictors: int
    trainers: int
    prediction_groups: int  # in one forward pass at most
    min_groups: int  # for which a predictor waits a moment
    training_blocks: int  # in one update, of G unrolls each
    ring: int  # blocks for each group
    torch_threads: int

    def __str__(self) -> str:
        size = self.group_size
        return (
            f"{self.agents} agents x {self.groups_per_agent * size} environments, stepped in groups of {size}; "
            f"{self.prediction_groups * size} observations in a forward pass at most (waits for {self.min_groups * size}); "
            f"{self.training_blocks * size} unrolls in an update; "
            f"{self.predictors} predictor, {self.trainers} trainer and {self.torch_threads} torch threads"
        )


def choose_sizes(config: Config, spec: EnvSpec) -> Sizes:
    """Numbers for this machine and this environment.

    Raises:
        UserError: numbers that do not go together.
    """
    system, number = config.system, cores()
    on_cpu = choose_device(system.device).type == "cpu"
    envs = _or(system.envs_per_agent, 2 * _group_size(spec.step_seconds))
    groups_per_agent = 2 if envs % 2 == 0 else 1
    size = envs // groups_per_agent
    memory = max(1, int(free_memory() / 2 / AGENT_BYTES))
    agents = _or(system.agents, min(memory, AGENTS_PER_CORE * number if envs == 1 else number))
    batch = _or(system.training_batch_size, -(-8 // size) * size)
    if batch % size:
        raise UserError(
            f"[system] training_batch_size: {size} environments are stepped together, so that it must be a multiple of {size} (got {batch})"
        )
    groups = agents * groups_per_agent
    limit = min(groups, max(1, _or(system.prediction_batch_size, groups * size) // size))
    return Sizes(
        agents=agents,
        min_agents=min(agents, _or(system.min_agents, (agents + 1) // 2)),
        groups_per_agent=groups_per_agent,
        group_size=size,
        predictors=system.predictors,
        trainers=_or(system.trainers, 1 if on_cpu else 2),
        prediction_groups=limit,
        min_groups=min(limit, _min_groups(config, spec, groups, size, number, on_cpu)),
        training_blocks=batch // size,
        ring=1 + -(-(batch // size) // groups),  # one is being filled while the others make up a batch
        torch_threads=_or(system.torch_threads, max(1, number // 4) if on_cpu else 1),
    )


def _group_size(step_seconds: float) -> int:
    size = 1
    while size < LARGEST_GROUP and size * step_seconds < GROUP_SECONDS:
        size *= 2
    return size


def _min_groups(config: Config, spec: EnvSpec, groups: int, size: int, number: int, on_cpu: bool) -> int:
    """For how many groups a predictor should wait: as many as make a forward pass cheap, while enough others are being stepped."""
    if config.system.min_prediction_batch_size != "auto":
        return max(1, config.system.min_prediction_batch_size // size)
    half = (groups + 1) // 2
    most = groups - 2 * number
    if not on_cpu or most <= half:  # on a GPU, the forward pass takes no core from the agents
        return half
    seconds = forward_seconds(config, spec, [size * count for count in range(1, most + 1)])
    least = min(seconds.values())
    cheap = next(batch for batch, each in seconds.items() if each <= NEARLY * least)
    return max(half, cheap // size)


def forward_seconds(config: Config, spec: EnvSpec, batches: list[int]) -> dict[int, float]:
    """Seconds for each observation of a forward pass on this CPU, by the size of the batch; takes about half a second."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        model = make_model(config.model, spec.observation_shape, spec.action.size).eval()
        result = {}
        with torch.inference_mode():
            for batch in batches:
                observation = torch.zeros(batch, *spec.observation_shape, dtype=getattr(torch, spec.observation_dtype))
                arguments = (observation, torch.zeros(batch, dtype=torch.bool), model.initial_state(batch))
                times = []
                for _ in range(6):
                    start = time.perf_counter()
                    model.step(*arguments)
                    times.append(time.perf_counter() - start)
                result[batch] = min(times) / batch
        return result
    finally:
        torch.set_num_threads(threads)


def slab_bytes(config: Config, spec: EnvSpec, sizes: Sizes) -> int:
    """Size of the shared slab that `Slots` will make, about."""
    blocks = sizes.agents * sizes.groups_per_agent * sizes.ring
    step = math.prod(spec.observation_shape) * np.dtype(spec.observation_dtype).itemsize + STEP_BYTES
    return blocks * sizes.group_size * (config.impala.unroll_length + 1) * step


def _or(number: int | str, choice: int) -> int:
    return number if isinstance(number, int) else choice
