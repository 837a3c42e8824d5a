"""Values for `auto`: numbers of processes and batch sizes for the machine, from a short measurement at the start.

The measurements behind these rules are in docs/performance.md.
"""

import itertools
import math
import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import cast

import torch

from kartrl.acting.sizes import Sizes, check_memory
from kartrl.algorithms import ALGORITHMS, heads_of
from kartrl.config import Config
from kartrl.config.algorithms import A3C
from kartrl.config.chosen import unchosen
from kartrl.envs.spec import EnvSpec
from kartrl.errors import UserError
from kartrl.hardware.devices import learner_device, one_thread
from kartrl.hardware.machine import cores, free_memory
from kartrl.models import make_network
from kartrl.sizing.compatibility import (
    check_actions,
    check_envs,
    check_hogwild,
    check_learners,
    check_own_network,
    check_replays,
    check_shuffle,
    check_updates,
    is_hogwild,
)
from kartrl.sizing.memory import AGENT_BYTES, NETWORK_BYTES, WORKER_BYTES, replay_shape

GROUP_SECONDS = 4e-3  # target duration of a group's step, so that messages and batches of one are cheap in comparison
LARGEST_GROUP = 4  # with predictors, whose messages and forward passes smaller groups multiply
ENVS_OF_A_GPU = 64  # beyond which groups are smaller: its learner keeps up with as few, and learning takes fewer steps
AGENTS_PER_CORE = 6  # for agents with one environment: while most wait for a batch to fill, some must be running
MOST_AGENTS = 1024  # as in [system] agents
SEVERAL, LEAST_LAG = 4, 10  # a lag of this many times the expected one is too old, but at least this many updates
UNROLL, SHORTEST_UNROLL = 32, 8  # steps
LEAST_UPDATE_STEPS = 512  # below which unrolls are longer, for algorithms that may have longer ones
UPDATE_STEPS = 1024  # beyond which unrolls are shortened: acting changes only with an update
NEARLY = 1.1  # a batch whose cost per observation is within this factor of the lowest is large enough


def choose_sizes(config: Config, spec: EnvSpec, cpus: int | None = None) -> Sizes:
    """Choose the sizes for this machine and environment, but for those that the configuration has, see `chosen`.

    Args:
        cpus: cores of a node of agents, which has no replay; None: not a node, all cores of the machine.

    Raises:
        UserError: numbers are incompatible, or need more memory than is free.
    """
    check_actions(config, spec.action)
    check_envs(config, spec)
    if is_hogwild(config):
        return _hogwild_sizes(config, spec)
    system, fixed, asked = config.system, config.run.reproducible, unchosen(config)
    learners = system.learners
    number = max(1, (cpus or cores()) // learners)
    algorithm = ALGORITHMS[config.algorithm.name]
    synchronous = algorithm.synchronous
    check_updates(asked)
    check_shuffle(config)
    check_learners(config)
    check_replays(config)
    on_cpu = learner_device(system).type == "cpu"
    likely = learners * _or(system.agents, number)  # agents, if each has several environments
    largest = LARGEST_GROUP if on_cpu else max(1, min(LARGEST_GROUP, ENVS_OF_A_GPU // (2 * likely)))
    may_act_alone, longest = on_cpu and cpus is None, UNROLL
    if may_act_alone and config.allows_own_networks:
        largest, longest = algorithm.group_size, algorithm.longest_unroll
    group = _group_size(0.0 if fixed else spec.step_seconds, largest)
    envs = _or(system.envs_per_agent, min(2 * group, spec.most_envs or 2 * group))
    observation = spec.observation.nbytes
    # a block of each environment is filled while another one is learned from
    each = AGENT_BYTES + 2 * envs * _or(config.algorithm.unroll_length, longest) * observation
    memory = free_memory() / 2 / learners
    agents = _or(system.agents, min(max(1, int(memory / each)), AGENTS_PER_CORE * number if envs == 1 else number))
    # On a single core an agent and its predictor take turns anyway: halves would only double the forward passes.
    agents, groups_per_agent, size = choose_groups(config, agents, group, number == 1 and on_cpu, spec.most_envs)
    envs, groups = groups_per_agent * size, agents * groups_per_agent
    share = groups if synchronous else max(1, round(groups * algorithm.batch_share))
    length = _unroll_length(config, longest, learners * share * size)
    check_memory(learners * agents * envs * length * observation, learners * agents, envs)  # before allocating any
    queue, fewest = fresh_share(config), fresh_unrolls(config, size) // size
    blocks = max(1, round(share / fewest)) * fewest
    if system.training_batch_size != "auto":
        blocks = fewest
    elif fixed:  # all groups make up a whole number of batches
        blocks = max(count for count in range(fewest, max(share, fewest) + 1, fewest) if groups % count == 0)
    room = agents * (each + NETWORK_BYTES) <= memory
    predictors = _predictors(config, envs, room, may_act_alone)
    # In a fixed order, all groups that belong together are answered at once; an agent answers all of its own.
    most = groups_per_agent if predictors == 0 else groups
    limit = most if fixed else min(most, max(1, _or(system.prediction_batch_size, groups * size) // size))
    waited = (groups + 1) // 2 if fixed else groups
    if predictors and not fixed:
        waited = _min_groups(config, spec, groups, size, number, on_cpu, synchronous)
    # A synchronous update runs while the agents wait, so it may use their cores.
    threads = number if synchronous else max(1, number // 4)
    threads = _or(system.torch_threads, threads if on_cpu else 1)
    # The clock decides when, and the cores of another learner's agents would be taken.
    grows = asked.system.torch_threads == "auto" and on_cpu and not fixed and learners == 1
    min_agents = min(agents, _or(system.min_agents, (agents + 1) // 2))
    sizes = Sizes(
        agents=agents,
        min_agents=min_agents,
        groups_per_agent=groups_per_agent,
        group_size=size,
        predictors=predictors,
        trainers=_or(
            system.trainers, 1 if synchronous or fixed or (on_cpu and not config.replays) else 2
        ),  # the second assembles a batch during the first one's update
        prediction_groups=limit,
        min_groups=min(limit, waited),
        training_blocks=blocks,
        replayed=int(blocks * size * (1 - queue) / queue),
        unroll_length=length,
        max_lag=_or(system.max_policy_lag, stale_after(groups / blocks * updates_per_batch(config))),
        ring=1 if synchronous else ring_length(blocks, groups, min_agents * groups_per_agent),
        torch_threads=threads,
        most_threads=max(number, threads) if grows else threads,
    )
    if cpus is None:
        replay_shape(config, spec, sizes)  # raises if there is no room for it
    return sizes


def choose_groups(config: Config, agents: int, group: int, together: bool, most_envs: int = 0) -> tuple[int, int, int]:
    """Numbers of agents, of groups of each, and of environments in a group.

    Batches must consist of whole groups and, with run.reproducible, all environments of whole batches; where a
    synchronous algorithm's batch was chosen before, of one unroll of each. Numbers that are given are kept. The others
    come as near as possible to the choices below, which depend on the machine and on a measurement: these never decide
    whether a configuration is valid.

    Args:
        agents: choice, or the given number.
        group: choice for the environments in a group.
        together: choose one group of an agent's environments if possible, instead of two.
        most_envs: see `EnvSpec`.

    Raises:
        UserError: the given numbers are incompatible.
    """
    system, fixed = config.system, config.run.reproducible
    fresh = fresh_unrolls(config, 1)
    near = [2 * size for size in range(group, 0, -1) if group % size == 0]
    far = [2 * size for size in range(1, fresh + 1) if fresh % size == 0]
    if most_envs:
        near, far = ([envs for envs in choices if envs <= most_envs] for choices in (near, far))
        near = near or [most_envs]
    if system.envs_per_agent != "auto":
        near, far = [system.envs_per_agent], []
    fewer, more = range(agents, 0, -1), range(agents + 1, MOST_AGENTS + 1)
    whole = ALGORITHMS[config.algorithm.name].synchronous and system.training_batch_size != "auto"
    if system.agents != "auto" or not (fixed or whole):
        fewer, more = range(agents, agents - 1, -1), range(0)
    choices = itertools.product(fewer, near), itertools.product([agents], far), itertools.product(more, near)
    for number, envs in itertools.chain(*choices):
        for groups in [1] * (together or envs % 2) + [2] * (envs % 2 == 0):
            size = envs // groups
            fresh = fresh_unrolls(config, size)
            fits = number * envs == fresh if whole else not fixed or number * envs % fresh == 0
            if fresh % size == 0 and fits:
                return number, groups, size
    if fresh % size:
        shares = " and [replay] shares must give whole unrolls" if config.replays else ""
        raise UserError(
            f"[system] training_batch_size: {size} environments are stepped together{shares}, "
            f"so it must be a multiple of {_whole_unrolls(config, size)} (got {system.training_batch_size})"
        )
    kind = " fresh ones" * (fresh_share(config) < 1)
    raise UserError(
        f"[system] training_batch_size: with run.reproducible, all {agents * envs} environments must make up a whole "
        f"number of batches (got {fresh}{kind}); leave system.envs_per_agent at auto"
    )


def fresh_share(config: Config) -> Fraction:
    """The share of fresh unrolls in a batch, from which some algorithms replay in batches of their own."""
    mixed = () if config.own.alternates else config.replays
    return Fraction(1) - sum(each.share for each in mixed)


def fresh_unrolls(config: Config, size: int) -> int:
    """Fresh unrolls in a batch: in the given one, or in the smallest of whole unrolls and whole groups of `size`.

    Raises:
        UserError: the shares of the given one are not whole unrolls.
    """
    given, whole = config.system.training_batch_size, _whole_unrolls(config, 1)
    if given == "auto":
        return int(_whole_unrolls(config, size) * fresh_share(config))
    if given % whole:
        raise UserError(
            f"[system] training_batch_size: [replay] shares must give whole unrolls, so it must be a multiple of "
            f"{whole} (got {given})"
        )
    return int(given * fresh_share(config))


def _whole_unrolls(config: Config, size: int) -> int:
    """The smallest batch whose shares are whole unrolls, and whose fresh share is whole groups of `size`."""
    shares = [each.share for each in config.replays]
    return math.lcm(*(share.denominator for share in shares), (fresh_share(config) / size).denominator)


def stale_after(lag: float) -> int:
    """Number of updates after which an unroll is too old, given the policy lag that the sizes lead to."""
    return max(LEAST_LAG, round(SEVERAL * lag))


def updates_per_batch(config: Config) -> float:
    """Mean number of updates per batch of fresh unrolls: some algorithms make others from replayed ones alone."""
    return 1 + config.own.replayed_updates if config.replays else 1


def _hogwild_sizes(config: Config, spec: EnvSpec) -> Sizes:
    """Sizes of a Hogwild run: workers, one per core, replace agents, predictors and trainers."""
    system, section = config.system, cast(A3C, config.own)
    check_hogwild(unchosen(config))
    check_replays(config)
    length = _or(config.algorithm.unroll_length, UNROLL)
    lengths = (length,) if section.unroll_lengths == "auto" else section.unroll_lengths
    memory, envs = max(1, int(free_memory() / 2 / WORKER_BYTES)), _or(system.envs_per_agent, 1)
    workers = _or(system.agents, min(memory, cores()))
    observation = spec.observation.nbytes
    check_memory(workers * envs * max(lengths) * observation, workers, envs)
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
        unroll_length=length,
        max_lag=0,
        ring=1,
        torch_threads=_or(system.torch_threads, 1),
        most_threads=_or(system.torch_threads, 1),
    )


def _unroll_length(config: Config, longest: int, unrolls: int) -> int:
    """Steps per unroll, given the unrolls of an update; a recurrent core needs some to learn what to remember."""
    if config.model.core != "none":
        return _or(config.algorithm.unroll_length, UNROLL)
    length = max(shortened_unroll(UNROLL, unrolls), min(longest, LEAST_UPDATE_STEPS // unrolls))
    return _or(config.algorithm.unroll_length, min([length, *(each.capacity for each in config.replays)]))


def shortened_unroll(length: int, unrolls: int) -> int:
    """At most `length` steps per unroll: fewer if an update of so many unrolls had more than `UPDATE_STEPS` steps."""
    return min(length, max(SHORTEST_UNROLL, UPDATE_STEPS // unrolls))


def _group_size(step_seconds: float, largest: int) -> int:
    size = 1
    while 2 * size <= largest and size * step_seconds < GROUP_SECONDS:
        size *= 2
    return size


def _predictors(config: Config, envs: int, room: bool, may_act_alone: bool) -> int:
    """Predictor threads; 0: each agent runs the network itself.

    Args:
        envs: per agent.
        room: whether there is memory for a network in each agent.
        may_act_alone: whether agents can.
    """
    system = config.system
    if system.predictors == 0:
        check_own_network(config, may_act_alone)
    return _or(system.predictors, 0 if may_act_alone and envs > 1 and room and config.allows_own_networks else 1)


def _min_groups(
    config: Config, spec: EnvSpec, groups: int, size: int, number: int, on_cpu: bool, synchronous: bool
) -> int:
    """Groups a predictor should wait for: enough for a cheap forward pass, while enough others are being stepped."""
    if config.system.min_prediction_batch_size != "auto":
        return max(1, config.system.min_prediction_batch_size // size)
    if synchronous:  # agents that wait for each other anyway gain nothing from waiting for more of them
        return 1
    if not on_cpu:  # the forward pass takes no core from the agents
        number = groups
    return cheap_groups(
        groups, number, lambda counts: list(forward_seconds(config, spec, [size * each for each in counts]).values())
    )


def cheap_groups(groups: int, number: int, seconds: Callable[[Sequence[int]], Sequence[float]]) -> int:
    """Groups that make a forward pass cheap: half of them, or more if enough others keep `number` cores busy.

    Args:
        groups: groups of all agents.
        number: cores.
        seconds: of forward passes of these numbers of groups, per observation; called only if it matters.
    """
    half = (groups + 1) // 2
    most = groups - 2 * number
    if most <= half:
        return half
    each = seconds(range(1, most + 1))
    enough = NEARLY * min(each)
    return max(half, next(count for count, value in enumerate(each, 1) if value <= enough))


def ring_length(blocks: int, groups: int, fewest: int) -> int:
    """Blocks per group; with only one, agents would wait for the update.

    Args:
        blocks: in one update.
        groups: groups of all agents: while one block of each is being filled, the others suffice for an update.
        fewest: groups of the fewest agents that training continues with, whose blocks must suffice for an update.
    """
    return max(1 + -(-blocks // groups), -(-blocks // fewest))


def forward_seconds(config: Config, spec: EnvSpec, batches: list[int]) -> dict[int, float]:
    """Seconds per observation of a forward pass on this CPU, by batch size; takes about half a second."""
    result = {}
    with one_thread(), torch.inference_mode():
        network = make_network(config.model, spec.observation, spec.action, heads_of(config)).eval()
        for batch in batches:
            observation = torch.zeros(batch, *spec.observation.shape, dtype=getattr(torch, spec.observation.dtype))
            arguments = (observation, torch.zeros(batch, dtype=torch.bool), network.initial_state(batch))
            times = []
            for _ in range(6):
                start = time.perf_counter()
                network.step(*arguments)
                times.append(time.perf_counter() - start)
            result[batch] = min(times) / batch
    return result


def _or(number: int | str, choice: int) -> int:
    return int(number) if isinstance(number, int) else choice
