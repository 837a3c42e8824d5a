"""The memory that a run and its replays take."""

import importlib.util
from typing import cast

import torch

from kartrl.acting.sizes import Sizes, slab_shape
from kartrl.algorithms import heads_of
from kartrl.config import Config
from kartrl.envs.spec import EnvSpec
from kartrl.errors import UserError
from kartrl.hardware.machine import free_memory
from kartrl.models import ActorCritic
from kartrl.replay import MemoryShape
from kartrl.sizing.compatibility import is_hogwild
from kartrl.trajectory import decision_size

AGENT_BYTES = 80e6  # memory of an agent process, with its emulator
NETWORK_BYTES = 60e6  # more for one that runs the network itself, of which it shares most with the fork server
WORKER_BYTES = 400e6  # memory of a Hogwild worker, which loads torch
LEARNER_BYTES = 1e9  # memory of a learner with its evaluator and logger: 0.7 to 0.8 GB with all agents in most runs


def replay_shape(config: Config, spec: EnvSpec, sizes: Sizes, started: bool = False) -> MemoryShape | None:
    """The shape of the replay memory; None if the configuration names no replays.

    Args:
        started: the run's processes have been started, so this was called before, and there was room.

    Raises:
        UserError: a replay cannot hold an unroll, or the network or the replays take more memory than is free.
    """
    if not started:
        _check_network(config, spec)
    length, section = sizes.unroll_length, config.replay
    if not config.replays:
        return None
    if section.compression == "lz4" and importlib.util.find_spec("lz4") is None:
        raise UserError("[replay] compression: lz4 is not installed; try: pip install 'kartrl[replay]'")
    capacities = [each.capacity for each in config.replays]
    if min(capacities) < length:
        raise UserError(
            f"[replay] capacities: must be at least algorithm.unroll_length, which is {length} (got {min(capacities)})"
        )
    with torch.device("meta"):  # shapes without memory
        network = ActorCritic(config.model, spec.observation, spec.action, heads_of(config))
    stack, images = config.environment.frames, spec.observation.images
    scattered = sum(each.capacity // length for each in config.replays if each.scattered)
    newest = max((each.capacity // length for each in config.replays if not each.scattered), default=0)
    fresh = sizes.training_blocks * sizes.group_size  # in addition to those held, until older ones are removed
    embedded = sum(each.capacity // length * length for each in config.replays if each.method == "elite")
    shape = MemoryShape(
        unrolls=newest + scattered + fresh,
        unroll_length=length,
        observation=spec.observation,
        stack=stack if images and all(image.shape[2] % stack == 0 for image in images) else 1,
        decision_size=decision_size(spec.action.columns, network.distribution.parameter_size),
        state_size=network.state_size,
        scattered=scattered + fresh,
        compression=section.compression,
        features=embedded * cast(int, network.trunk.encoder.features),
    )
    free, own = free_memory(), 0 if started else run_bytes(config, spec, sizes)
    room = free - own
    limit = min(room, int(section.gigabytes * 1e9)) if section.gigabytes else room
    compressed = section.compression != "none"
    least = shape.fixed_bytes + shape.unroll_bytes  # what compressed frames take is not known
    needed = least if compressed else shape.size()
    if needed > limit and not started:
        what = f"the features of {embedded:,} steps" if compressed and embedded else f"{sum(capacities):,} steps"
        short = f"replay.gigabytes is {section.gigabytes:g}"
        if limit == room:
            short = f"{_text(free)} are free, of which the run itself needs {_text(own)}"
        raise UserError(
            f"[replay] capacities: {what} would take {'at least ' * compressed}{_text(needed)} of memory, and {short}; "
            f"lower it"
        )
    return shape._replace(limit=max(limit, least)) if compressed else shape


def _check_network(config: Config, spec: EnvSpec) -> None:
    """Refuse a network whose weights and gradients do not fit."""
    with torch.device("meta"):  # shapes without memory
        network = ActorCritic(config.model, spec.observation, spec.action, heads_of(config))
    weights = sum(parameter.numel() for parameter in network.parameters())
    if (needed := 2 * 4 * weights) > (free := free_memory()):
        raise UserError(
            f"[model]: {weights:,} weights with their gradients would take {_text(needed)} of memory, and "
            f"{_text(free)} are free; lower model.hidden_size or model.channels"
        )


def run_bytes(config: Config, spec: EnvSpec, sizes: Sizes) -> int:
    """Memory that a run takes besides what this process has now and its replays, in bytes; an estimate."""
    each = WORKER_BYTES if is_hogwild(config) else AGENT_BYTES + NETWORK_BYTES * (sizes.predictors == 0)
    return int(config.system.learners * (LEARNER_BYTES + sizes.agents * each + slab_shape(config, spec, sizes).size()))


def _text(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 5e7 else f"{size / 1e6:,.1f} MB"
