"""Numbers of processes and sizes of batches that suit the machine, from a moment of measuring at the start.

What was measured to find these rules is in docs/performance.md.
"""

import importlib.util
import math
import time
from fractions import Fraction
from typing import NamedTuple, cast

import numpy as np
import torch

from kartrl.algorithms import ALGORITHMS, heads_of
from kartrl.config import Config, System
from kartrl.envs.spec import EnvSpec
from kartrl.errors import UserError
from kartrl.learning.optimizers import FROM_ZERO
from kartrl.models import ActorCritic, make_network
from kartrl.replay import MemoryShape
from kartrl.runtime.devices import choose_device, learner_device, predictor_device
from kartrl.runtime.machine import cores, free_memory
from kartrl.runtime.slab import SlabShape
from kartrl.trajectory import decision_size

GROUP_SECONDS = 4e-3  # that a group should be stepped for, so that messages and batches of one cost little beside it
LARGEST_GROUP = 4  # more environments would each be seen less often between two updates, and learning take more steps
AGENTS_PER_CORE = 6  # where an agent has one environment: while most wait for a batch to fill, some must be running
WORKER_BYTES = 400e6  # of a Hogwild worker, which loads torch
AGENT_BYTES = 80e6  # of memory that an agent process takes, with its emulator
SEVERAL = 4  # times the policy lag that the sizes lead to is too old
NEARLY = 1.1  # a forward pass whose cost for an observation is within this factor of the least is large enough

_OF_CENTRAL = (  # keys of [system] that say nothing to Hogwild workers
    "predictors",
    "trainers",
    "prediction_batch_size",
    "min_prediction_batch_size",
    "training_batch_size",
    "controller",
    "max_policy_lag",
    "learners",
    "devices",
    "predictor_devices",
)


class Sizes(NamedTuple):
    """The numbers of [system], with a choice for this machine wherever it says auto; those of each learner."""

    agents: int
    min_agents: int  # that must be healthy
    groups_per_agent: int  # stepped in turn: one while the others wait for their actions
    group_size: int  # G, environments stepped together
    predictors: int
    trainers: int
    prediction_groups: int  # in one forward pass at most
    min_groups: int  # for which a predictor waits a moment
    training_blocks: int  # in one update, of G fresh unrolls each
    replayed: int  # unrolls in one update beside them
    max_lag: int  # updates; unrolls that began with older weights are dropped
    ring: int  # blocks for each group
    torch_threads: int

    def __str__(self) -> str:
        size = self.group_size
        if not self.predictors:
            return f"{self.agents} Hogwild workers x {size} environments; {size} unrolls in an update of one of them"
        beside = f" and {self.replayed} replayed ones" if self.replayed else ""
        return (
            f"{self.agents} agents x {self.groups_per_agent * size} environments, stepped in groups of {size}; "
            f"{self.prediction_groups * size} observations in a forward pass at most "
            f"(waits for {self.min_groups * size}); "
            f"{self.training_blocks * size} unrolls in an update{beside}; "
            f"{self.predictors} predictor, {self.trainers} trainer and {self.torch_threads} torch threads"
        )


def choose_sizes(config: Config, spec: EnvSpec) -> Sizes:
    """Numbers for this machine and this environment.

    Raises:
        UserError: numbers that do not go together, or for which there is not enough memory.
    """
    if is_hogwild(config):
        return _hogwild_sizes(config, spec)
    system, fixed = config.system, config.run.reproducible
    learners = system.learners
    number = max(1, cores() // learners)
    algorithm = ALGORITHMS[config.algorithm.name]
    synchronous = algorithm.synchronous
    _check(config, synchronous)
    _check_learners(config)
    _check_actions(config, spec)
    _check_replays(config)
    mixed = bool(config.replays) and config.algorithm.name != "acer"
    queue = Fraction(1) - (sum(each.share for each in config.replays) if mixed else 0)  # fresh part of a batch
    ratio = config.acer.replay_ratio if config.replays and not mixed else 0.0
    on_cpu = learner_device(system).type == "cpu"
    envs = _or(system.envs_per_agent, 2 * _group_size(0.0 if fixed else spec.step_seconds))
    groups_per_agent = 2 if envs % 2 == 0 else 1
    size = envs // groups_per_agent
    memory = max(1, int(free_memory() / 2 / AGENT_BYTES / learners))
    agents = _or(system.agents, min(memory, AGENTS_PER_CORE * number if envs == 1 else number))
    observation = math.prod(spec.observation_shape) * np.dtype(spec.observation_dtype).itemsize
    need = learners * agents * envs * config.algorithm.unroll_length * observation
    _check_memory(need, learners * agents, envs)  # before any is taken
    groups = agents * groups_per_agent
    share = groups if synchronous else max(1, round(groups * algorithm.batch_share))
    whole = _whole_unrolls(config, queue, size)  # what a batch must be a multiple of
    batch = _or(system.training_batch_size, max(1, round(share * size / queue / whole)) * whole)
    if batch % whole:
        shares = " and the shares of [replay] give whole unrolls" if config.replays else ""
        raise UserError(
            f"[system] training_batch_size: {size} environments are stepped together{shares}, "
            f"so that it must be a multiple of {whole} (got {batch})"
        )
    blocks = int(batch * queue) // size
    if fixed and groups % blocks:
        raise UserError(
            f"[system] training_batch_size: with run.reproducible, all {groups * size} environments "
            f"must make up a whole number of batches (got {blocks * size}{' fresh ones' * mixed})"
        )
    # In a fixed order, all that belong together are answered at once.
    limit = groups if fixed else min(groups, max(1, _or(system.prediction_batch_size, groups * size) // size))
    # A synchronous update runs while the agents wait, so it may have their cores.
    threads = number if synchronous else max(1, number // 4)
    min_agents = min(agents, _or(system.min_agents, (agents + 1) // 2))
    sizes = Sizes(
        agents=agents,
        min_agents=min_agents,
        groups_per_agent=groups_per_agent,
        group_size=size,
        predictors=system.predictors,
        trainers=_or(
            system.trainers, 1 if synchronous or fixed or (on_cpu and not config.replays) else 2
        ),  # the second assembles a batch beside the first one's update
        prediction_groups=limit,
        min_groups=min(
            limit, (groups + 1) // 2 if fixed else _min_groups(config, spec, groups, size, number, on_cpu, synchronous)
        ),
        training_blocks=blocks,
        replayed=int(batch * (1 - queue)),
        max_lag=_or(system.max_policy_lag, max(10, round(SEVERAL * groups / blocks * (1 + ratio)))),
        ring=1 if synchronous else _ring(blocks, groups, min_agents * groups_per_agent),
        torch_threads=_or(system.torch_threads, threads if on_cpu else 1),
    )
    replay_shape(config, spec, sizes)  # is there room for it?
    return sizes


def is_hogwild(config: Config) -> bool:
    """Whether workers act and learn by themselves, rather than agents, predictors and trainers together."""
    return config.algorithm.name == "a3c" and config.a3c.hogwild


def _hogwild_sizes(config: Config, spec: EnvSpec) -> Sizes:
    """Workers, which take the agents' place, one for each core; nothing else is there."""
    system, section = config.system, config.a3c
    if config.run.reproducible:
        raise UserError("[a3c] hogwild: updates without locks come in no fixed order; set run.reproducible=false")
    if config.model.normalise_returns:
        raise UserError("[model] normalise_returns: not with a3c.hogwild; set it to false")
    for key in _OF_CENTRAL:
        if getattr(system, key) != System.model_fields[key].default:
            raise UserError(f"[system] {key}: Hogwild workers have no use for it; leave it at its default")
    if section.share_statistics and config.optimizer.name not in FROM_ZERO:
        raise UserError(
            f"[a3c] share_statistics: not with optimizer.name = {config.optimizer.name}; set it to false, or take "
            f"{', '.join(sorted(FROM_ZERO))}"
        )
    for device in section.devices:
        choose_device(system.device if device == "auto" else device)
    lengths = (config.algorithm.unroll_length,) if section.unroll_lengths == "auto" else section.unroll_lengths
    memory, envs = max(1, int(free_memory() / 2 / WORKER_BYTES)), _or(system.envs_per_agent, 1)
    workers = _or(system.agents, min(memory, cores()))
    observation = math.prod(spec.observation_shape) * np.dtype(spec.observation_dtype).itemsize
    _check_memory(workers * envs * max(lengths) * observation, workers, envs)
    return Sizes(
        agents=workers,
        min_agents=min(workers, _or(system.min_agents, (workers + 1) // 2)),
        groups_per_agent=1,
        group_size=envs,
        predictors=0,
        trainers=0,
        prediction_groups=1,
        min_groups=1,
        training_blocks=1,
        replayed=0,
        max_lag=0,
        ring=1,
        torch_threads=_or(system.torch_threads, 1),
    )


def _check(config: Config, synchronous: bool) -> None:
    """Refuse numbers that an order of updates rules out."""
    system = config.system
    reason = f"algorithm.name = {config.algorithm.name}" if synchronous else "run.reproducible"
    if synchronous and system.training_batch_size != "auto":
        raise UserError(
            f"[system] training_batch_size: {reason} takes one unroll of every environment; leave it at auto, "
            "and choose algorithm.unroll_length, system.agents and system.envs_per_agent"
        )
    if synchronous or config.run.reproducible:
        if system.trainers not in ("auto", 1):
            raise UserError(f"[system] trainers: {reason} needs one trainer (got {system.trainers})")
        if system.controller:
            raise UserError(f"[system] controller: does not go with {reason}")
    if config.run.reproducible:
        if system.predictors != 1:
            raise UserError(f"[system] predictors: run.reproducible needs one predictor (got {system.predictors})")
        if config.run.minutes:
            raise UserError("[run] minutes: run.reproducible needs a limit in run.agent_steps alone; set run.minutes=0")
        if config.evaluation.minutes:
            raise UserError(
                "[evaluation] minutes: an evaluation by the clock is not reproducible; set evaluation.minutes=0, "
                "and run `kartrl evaluate` afterwards"
            )


def _check_learners(config: Config) -> None:
    """Refuse what several learners cannot do together, and devices that are not there."""
    system = config.system
    devices = [learner_device(system, rank) for rank in range(system.learners)]
    for rank in range(system.learners):
        predictor_device(system, rank)
    if system.learners == 1:
        return
    several = f"[system] learners = {system.learners}:"
    if config.replays:
        raise UserError(f"{several} not with replays, as each would have its own; set replay.methods to none")
    if config.run.reproducible:
        raise UserError(f"{several} not with run.reproducible; set it to 1")
    if system.controller:
        raise UserError(f"{several} not with system.controller; set that to false")
    if len({device.type for device in devices}) > 1 or devices[0].type not in ("cpu", "cuda"):
        raise UserError(f"{several} all on the CPU or each on a GPU, not on {', '.join(map(str, devices))}")
    if devices[0].type == "cuda" and len(set(devices)) < len(devices):
        raise UserError(f"{several} each needs a GPU of its own; these would be {', '.join(map(str, devices))}")


def _check_actions(config: Config, spec: EnvSpec) -> None:
    """Refuse actions that the algorithm cannot choose."""
    name, kind = config.algorithm.name, spec.action.kind
    if kind not in ALGORITHMS[name].actions:
        others = ", ".join(sorted(other for other, algorithm in ALGORITHMS.items() if kind in algorithm.actions))
        raise UserError(
            f"[algorithm] name: {name} chooses {' and '.join(sorted(ALGORITHMS[name].actions))} actions, and "
            f"{config.environment.id} has {spec.action.title}; of these learn {others}"
        )


def _check_memory(need: int, agents: int, envs: int) -> None:
    """Refuse more environments than this machine has memory for; `need` in bytes."""
    if need > (free := free_memory()):
        raise UserError(
            f"the unrolls of {agents} agents with {envs} environments would take {need / 1e9:,.1f} GB of memory, and "
            f"{free / 1e9:,.1f} GB are free; lower system.agents, system.envs_per_agent or algorithm.unroll_length"
        )


def _group_size(step_seconds: float) -> int:
    size = 1
    while size < LARGEST_GROUP and size * step_seconds < GROUP_SECONDS:
        size *= 2
    return size


def _min_groups(
    config: Config, spec: EnvSpec, groups: int, size: int, number: int, on_cpu: bool, synchronous: bool
) -> int:
    """Groups a predictor should wait for: enough for a cheap forward pass, while enough others are being stepped."""
    if config.system.min_prediction_batch_size != "auto":
        return max(1, config.system.min_prediction_batch_size // size)
    if synchronous:  # agents that wait for each other gain nothing from waiting for more of them
        return 1
    half = (groups + 1) // 2
    most = groups - 2 * number
    if not on_cpu or most <= half:  # on a GPU, the forward pass takes no core from the agents
        return half
    seconds = forward_seconds(config, spec, [size * count for count in range(1, most + 1)])
    least = min(seconds.values())
    cheap = next(batch for batch, each in seconds.items() if each <= NEARLY * least)
    return max(half, cheap // size)


def _ring(blocks: int, groups: int, fewest: int) -> int:
    """Blocks for each group; with one alone, agents would wait for the update.

    Args:
        blocks: in one update.
        groups: of all agents: while one block of each is being filled, their others make up an update.
        fewest: groups of the fewest agents that training goes on with, whose blocks must make up an update too.
    """
    return max(1 + -(-blocks // groups), -(-blocks // fewest))


def forward_seconds(config: Config, spec: EnvSpec, batches: list[int]) -> dict[int, float]:
    """Seconds per observation of a forward pass on this CPU, by batch size; takes about half a second."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        network = make_network(config.model, spec.observation_shape, spec.action, heads_of(config)).eval()
        result = {}
        with torch.inference_mode():
            for batch in batches:
                observation = torch.zeros(batch, *spec.observation_shape, dtype=getattr(torch, spec.observation_dtype))
                arguments = (observation, torch.zeros(batch, dtype=torch.bool), network.initial_state(batch))
                times = []
                for _ in range(6):
                    start = time.perf_counter()
                    network.step(*arguments)
                    times.append(time.perf_counter() - start)
                result[batch] = min(times) / batch
        return result
    finally:
        torch.set_num_threads(threads)


def slab_shape(config: Config, spec: EnvSpec, sizes: Sizes) -> SlabShape:
    """The slab of a run with these sizes.

    Raises:
        UserError: it takes more memory than there is.
    """
    with torch.device("meta"):  # shapes without memory
        network = ActorCritic(config.model, spec.observation_shape, spec.action, heads_of(config))
    shape = SlabShape(
        num_agents=sizes.agents,
        groups_per_agent=sizes.groups_per_agent,
        group_size=sizes.group_size,
        ring=sizes.ring,
        unroll_length=config.algorithm.unroll_length,
        observation_shape=spec.observation_shape,
        observation_dtype=spec.observation_dtype,
        decision_size=decision_size(spec.action.columns, network.distribution.parameter_size),
        state_size=network.state_size,
    )
    _check_memory(shape.size(), sizes.agents, sizes.groups_per_agent * sizes.group_size)
    return shape


def replay_shape(config: Config, spec: EnvSpec, sizes: Sizes) -> MemoryShape | None:
    """The memory of the replays, where the configuration names any.

    Raises:
        UserError: a replay cannot hold an unroll, or they take more memory than there is.
    """
    length, section = config.algorithm.unroll_length, config.replay
    if not config.replays:
        return None
    if section.compression == "lz4" and importlib.util.find_spec("lz4") is None:
        raise UserError("[replay] compression: lz4 is not installed; try: pip install kartrl[replay]")
    capacities = [each.capacity for each in config.replays]
    if min(capacities) < length:
        raise UserError(
            f"[replay] capacities: must be at least algorithm.unroll_length, which is {length} (got {min(capacities)})"
        )
    with torch.device("meta"):  # shapes without memory
        network = ActorCritic(config.model, spec.observation_shape, spec.action, heads_of(config))
    stack = config.environment.frame_stack
    scattered = sum(each.capacity // length for each in config.replays if each.scattered)
    newest = max((each.capacity // length for each in config.replays if not each.scattered), default=0)
    fresh = sizes.training_blocks * sizes.group_size  # beside what is held, until older ones go
    embedded = sum(each.capacity // length * length for each in config.replays if each.method == "elite")
    shape = MemoryShape(
        unrolls=newest + scattered + fresh,
        unroll_length=length,
        observation_shape=spec.observation_shape,
        observation_dtype=spec.observation_dtype,
        stack=stack if len(spec.observation_shape) == 3 and spec.observation_shape[2] % stack == 0 else 1,
        decision_size=decision_size(spec.action.columns, network.distribution.parameter_size),
        state_size=network.state_size,
        scattered=scattered + fresh,
        compression=section.compression,
        features=embedded * cast(int, network.trunk.encoder.features),
    )
    free = free_memory()
    limit = min(free, int(section.gigabytes * 1e9)) if section.gigabytes else free
    if section.compression != "none":
        return shape._replace(limit=limit)
    if shape.size() > limit:
        short = f"{free / 1e9:,.1f} GB are free" if limit == free else f"replay.gigabytes is {section.gigabytes:g}"
        raise UserError(
            f"[replay] capacities: {sum(capacities):,} steps would take {shape.size() / 1e9:,.1f} GB of memory, and "
            f"{short}; lower it"
        )
    return shape


def _check_replays(config: Config) -> None:
    """Refuse replays that the algorithm cannot learn from."""
    name, methods = config.algorithm.name, config.replay.methods
    if config.laser.threshold and not ALGORITHMS[name].has_vtrace:
        others = ", ".join(sorted(other for other, algorithm in ALGORITHMS.items() if algorithm.has_vtrace))
        raise UserError(f"[laser] threshold: {name} has no V-trace whose steps could be masked; {others} have")
    if config.clear.clones and not config.replays:
        raise UserError(
            "[clear] clones what is replayed, and nothing is; name replays in replay.methods, or set it to 0"
        )
    if methods in (("auto",), ("none",)):
        return
    if not ALGORITHMS[name].replays:
        others = ", ".join(sorted(other for other, algorithm in ALGORITHMS.items() if algorithm.replays))
        raise UserError(f"[replay] methods: {name} learns from fresh unrolls alone; from replays learn {others}")
    if name == "acer" and "queue" in methods:
        raise UserError("[replay] methods: acer learns from fresh batches by themselves; leave out queue")
    if name != "acer" and "queue" not in methods:
        raise UserError(f"[replay] methods: {name} needs fresh unrolls in each batch; name queue too")


def _whole_unrolls(config: Config, queue: Fraction, size: int) -> int:
    """The smallest batch whose shares are whole unrolls, the fresh ones' blocks of `size`."""
    shares = [each.share for each in config.replays]
    return math.lcm(*(share.denominator for share in shares), (queue / size).denominator)


def _or(number: int | str, choice: int) -> int:
    return number if isinstance(number, int) else choice
