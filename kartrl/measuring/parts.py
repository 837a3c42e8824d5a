"""Measures the stages of an agent step separately, on all cores at once, since these share caches and memory."""

import multiprocessing
import statistics
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np
import torch

from kartrl.acting.messages import Requests
from kartrl.acting.own_predictor import OwnPolicy, RecordedPolicy
from kartrl.acting.predictor import group_states, make_policy
from kartrl.acting.published_weights import PublishedWeights
from kartrl.acting.recorded_work import capture_for
from kartrl.acting.recording import own_network
from kartrl.acting.sizes import Sizes, slab_shape
from kartrl.acting.slab import Slab
from kartrl.algorithms import heads_of
from kartrl.config import Config
from kartrl.envs import make_group
from kartrl.envs.spec import EnvSpec
from kartrl.errors import UserError
from kartrl.hardware.devices import learner_device
from kartrl.hardware.machine import cores, keep_freed_memory
from kartrl.learning.counters import Counters
from kartrl.learning.learner import make_learner
from kartrl.learning.schedules import Progress
from kartrl.measuring.round_trips import round_trips
from kartrl.metrics.stopwatch import TRAINER_STAGES, Stopwatch
from kartrl.models import make_distribution, make_network
from kartrl.sizing.compatibility import is_hogwild
from kartrl.training.trainer import Trainer
from kartrl.trajectory import Trajectory

CONTEXT = multiprocessing.get_context("spawn")
PART_SECONDS = 4.0  # maximum for each part
Part = Callable[
    [Config, EnvSpec, Sizes, int, float], Any
]  # measures one part, for some seconds; run by a process on each core


class Parts(NamedTuple):
    """Seconds per agent step on one core (or the GPU), and the rate of messages."""

    environment: float
    infer: float  # at the prediction batch size
    infer_by_size: dict[int, float]  # batch size -> seconds per observation
    train: float  # a whole update, per step in it
    round_trips: float  # requests answered per second, without environments and network

    def ideal(self, number_of_cores: int, on_gpu: bool, replayed: float) -> float:
        """Agent steps per second if the cores, or the cores and the GPU, did nothing but these parts.

        Args:
            replayed: replayed steps per fresh one.
        """
        train = (1 + replayed) * self.train
        if on_gpu:
            return min(number_of_cores / self.environment, 1 / (self.infer + train))
        return number_of_cores / (self.environment + self.infer + train)


def _environment(config: Config, spec: EnvSpec, sizes: Sizes, seed: int, seconds: float) -> float:
    group = make_group(config, sizes.group_size)
    try:
        group.reset(seed)
        random = np.random.default_rng(seed)
        steps, start = 0, time.perf_counter()
        while (spent := time.perf_counter() - start) < seconds:
            group.step(spec.action.sample(random, group.restriction))
            steps += sizes.group_size
        return spent / steps
    finally:
        group.close()


def _infer(config: Config, spec: EnvSpec, sizes: Sizes, seed: int, seconds: float) -> dict[int, float]:
    """Seconds per observation of a forward pass for acting, by batch size."""
    torch.set_num_threads(1)
    keep_freed_memory()
    largest = sizes.prediction_groups
    slab = Slab(CONTEXT, slab_shape(config, spec, sizes)._replace(num_agents=largest, groups_per_agent=1, ring=1))
    device = learner_device(config.system)
    network = make_network(config.model, spec.observation, spec.action, heads_of(config)).to(device).eval()
    alone = not sizes.predictors and not is_hogwild(config)
    own = own_network(config, spec, sizes, PublishedWeights(network)) if alone else None
    states, distribution = group_states(slab, network), make_distribution(spec.action)
    policy: OwnPolicy = make_policy(network, distribution, states, seed, slab, largest)
    if own is not None and own.programs is not None:
        policy = RecordedPolicy(own.programs, slab, seed)
        own.weights.fetch(policy.load, None)
    by_size = {}
    for groups in sorted({1, max(1, largest // 4), max(1, largest // 2), largest}):
        group, after_first = np.arange(groups), np.ones(groups, np.int64)
        requests = Requests(group, group, after_first, group, slab.observation[group, 0], slab.first[group, 0])
        size = groups * sizes.group_size
        by_size[size] = _median(lambda requests=requests: policy.act(requests), seconds / 4) / size  # type: ignore[misc]
    return by_size


def _train(config: Config, spec: EnvSpec, sizes: Sizes, seed: int, seconds: float) -> float:
    torch.set_num_threads(1)
    keep_freed_memory()
    device = learner_device(config.system)
    network = make_network(config.model, spec.observation, spec.action, heads_of(config)).to(device)
    learner = make_learner(config, network, spec.action, capture=capture_for(network))
    trainer = Trainer(learner, config.optimizer, Progress(config.run, Counters()), Counters())
    length, batch = sizes.unroll_length, sizes.training_blocks * sizes.group_size + sizes.replayed
    off = torch.zeros(length + 1, batch, dtype=torch.bool, device=device)
    zeros = torch.zeros(length, batch, device=device)
    observation = torch.zeros(
        length + 1, batch, *spec.observation.shape, dtype=getattr(torch, spec.observation.dtype), device=device
    )
    with torch.inference_mode():
        state = network.initial_state(batch)
        noise = make_distribution(spec.action, config.model.squash_actions).noise(
            batch, device, torch.Generator(device).manual_seed(seed)
        )
        decision = network.act(observation[0], off[0], state, noise, False)[0].expand(length, -1, -1)
    trajectory = Trajectory(
        observation, off, state, decision, zeros, off[1:], ~off[1:], zeros.long(), ~off[0], zeros[0] + 1, off[0].long()
    )
    trajectory = Trajectory(*(tensor.clone() for tensor in trajectory))  # normal tensors, not inference tensors
    stopwatch, batch_on_cpu = Stopwatch(TRAINER_STAGES), Trajectory(*(tensor.cpu().numpy() for tensor in trajectory))

    def update() -> None:
        trainer.update(trajectory, batch_on_cpu, stopwatch)
        if device.type == "cuda":
            torch.cuda.synchronize()

    return _median(update, seconds) / (length * batch)


def _median(call: Callable[[], object], seconds: float) -> float:
    """Median seconds of a call, after a warm-up."""
    for _ in range(4):
        call()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _worker(
    parts: Sequence[Part],
    config: Config,
    spec: EnvSpec,
    sizes: Sizes,
    seed: int,
    seconds: float,
    ready: Any,
    result: Connection,
) -> None:
    """Main function of a measuring process: runs each part when all processes are ready for it."""
    for measure in parts:
        ready.wait(60)
        result.send(measure(config, spec, sizes, seed, seconds))


PARTS: tuple[Part, ...] = (_environment, _infer, _train)


def replayed_steps(config: Config, sizes: Sizes) -> float:
    """Mean number of replayed steps per fresh one."""
    if config.own.alternates:
        return config.own.replayed_updates if config.replays else 0.0
    return sizes.replayed / (sizes.training_blocks * sizes.group_size)


def measure_parts(config: Config, spec: EnvSpec, sizes: Sizes, seconds: float) -> Parts:
    """Measure all parts, for `seconds` each, on all cores at once; the GPU's parts in a single process."""
    on_gpu = learner_device(config.system).type == "cuda"
    number = cores()
    results = []
    for parts, copies in ((PARTS[:1], number), (PARTS[1:], 1)) if on_gpu else ((PARTS, number),):
        barrier = CONTEXT.Barrier(copies)
        pipes = [CONTEXT.Pipe(duplex=False) for _ in range(copies)]
        workers = [
            CONTEXT.Process(
                target=_worker, args=(parts, config, spec, sizes, seed, seconds, barrier, pipe), daemon=True
            )
            for seed, (_, pipe) in enumerate(pipes, 1)
        ]
        for worker, (_, pipe) in zip(workers, pipes, strict=True):
            worker.start()
            pipe.close()
        try:
            results += [[reader.recv() for reader, _ in pipes] for _ in parts]
        except EOFError:
            raise UserError("a measuring process ended early; its own message is above") from None
        finally:
            for worker in workers:
                worker.join(5)
                worker.kill()
    environments, infers, trains = results
    by_size = {size: statistics.fmean(infer[size] for infer in infers) for size in infers[0]}
    return Parts(
        environment=statistics.harmonic_mean(environments),  # rates add up
        infer=by_size[max(by_size)],
        infer_by_size=by_size,
        train=statistics.fmean(trains),
        round_trips=round_trips(CONTEXT, sizes, seconds / 2),
    )
