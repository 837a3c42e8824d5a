"""Ablations: each optimization against its alternative on this machine, in alternating rounds.

    python benchmarks/mechanisms.py [NAME ...]       all take about three minutes

Throughput of complete runs is noisy on shared machines; these pairs are small enough to be repeated within a second,
and each line shows medians of alternating rounds. The environment's pairs need ale-py and the bundled game.
"""

import contextlib
import multiprocessing
import multiprocessing.pool
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Discrete
from torch import nn

from kartrl.config import Config, Model, Optimizer, read
from kartrl.envs import make_group
from kartrl.envs.frames import joined_frames
from kartrl.envs.observation_spec import plain
from kartrl.envs.spec import ActionSpec
from kartrl.hardware.machine import keep_freed_memory
from kartrl.learning.optimizers import make_optimizer
from kartrl.metrics.stopwatch import AGENT_STAGES, Stopwatch
from kartrl.models import make_network

ROUNDS = 5
NATURE = Model(channels=(32, 64, 64), hidden_size=512, core="none")
Pair = tuple[str, Callable[[], float], str, Callable[[], float]]


def seconds(call: Callable[[], object], count: int) -> float:
    """Median seconds of a call."""
    call()
    times = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def update(section: Model, unrolls: int, part: int) -> Callable[[], None]:
    """Forward and backward pass of `unrolls` unrolls of 20 steps of 84 x 84 x 4, `part` unrolls at a time."""
    network = make_network(section, plain(84, 84, 4), ActionSpec.of(Discrete(6)))
    observation = torch.randint(0, 256, (21, unrolls, 84, 84, 4), dtype=torch.uint8)
    first, state = torch.zeros(21, unrolls, dtype=torch.bool), network.initial_state(unrolls)

    def run() -> None:
        for begin in range(0, unrolls, part):
            columns = slice(begin, begin + part)
            output, _ = network(observation[:, columns], first[:, columns], state[columns])
            (output.policy[:-1].sum() + output.value[:-1].sum()).backward()

    return run


def in_own_process(function: Callable[..., float], *arguments: object) -> float:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def update_seconds(keep: bool, part: int, precision: str = "fp32") -> float:
    torch.set_num_threads(1)
    if keep:
        keep_freed_memory()
    with multiprocessing.pool.ThreadPool(1) as thread:  # as in a trainer: other threads have separate heaps
        run = update(NATURE.model_copy(update={"precision": precision}), 32, part)
        return thread.apply(seconds, (run, 4)) / 640


def updating(*arguments: object) -> Callable[[], float]:
    return lambda: in_own_process(update_seconds, *arguments)


def allocator() -> Pair:
    return "glibc's defaults", updating(False, 32), "freed memory kept", updating(True, 32)


def parts() -> Pair:
    return "whole update", updating(True, 32), "160 steps at a time", updating(True, 8)


def precision() -> Pair:
    return "fp32", updating(True, 8), "bf16", updating(True, 8, "bf16")


def channels_last() -> Pair:
    """Three convolutions and their gradients on 160 images."""
    image = torch.rand(160, 4, 84, 84)

    def convolutions(layout: torch.memory_format) -> Callable[[], float]:
        layers = nn.Sequential(
            nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU()
        )
        layers.to(memory_format=layout)  # type: ignore[call-overload]
        x = image.contiguous(memory_format=layout)
        return lambda: seconds(lambda: layers(x).sum().backward(), 5) / 160

    return "channels first", convolutions(torch.contiguous_format), "channels last", convolutions(torch.channels_last)


def columns() -> Pair:
    """Forward and backward pass of the kart's network in bf16 on 128 images, seconds per image."""

    def passes(alone: bool) -> Callable[[], float]:
        network: Any = make_network(Model(precision="bf16"), plain(54, 54, 1), ActionSpec.of(Discrete(9)))
        if alone:
            network.trunk.encoder.body.convolutions[0].columns = 1
        images = torch.randint(0, 256, (128, 54, 54, 1), dtype=torch.uint8)
        first, state = torch.zeros(128, dtype=torch.bool), network.initial_state(128)
        return lambda: seconds(lambda: network.step(images, first, state)[1].sum().backward(), 20) / 128

    return "each column by itself", passes(True), "four columns as one", passes(False)


def fused() -> Pair:
    """An optimizer step of the Nature network."""

    def step(make: Callable[[list[nn.Parameter]], torch.optim.Optimizer]) -> Callable[[], float]:
        parameters = list(make_network(NATURE, plain(84, 84, 4), ActionSpec.of(Discrete(6))).parameters())
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        optimizer = make(parameters)
        return lambda: seconds(optimizer.step, 20)

    plain = step(lambda parameters: torch.optim.Adam(parameters, foreach=False))
    return "torch's Adam", plain, "fused", step(lambda parameters: make_optimizer(Optimizer(name="adam"), parameters))


def recurrence() -> Pair:
    """Forward and backward pass of 8 unrolls of 21 steps through an LSTM of 256 units, seconds per step (of 160)."""
    cell, layer, x = nn.LSTMCell(256, 256), nn.LSTM(256, 256), torch.rand(21, 8, 256)

    def stepwise() -> None:
        state = (torch.zeros(8, 256), torch.zeros(8, 256))
        outputs = []
        for step in x:
            state = cell(step, state)
            outputs.append(state[0])
        torch.stack(outputs).sum().backward()

    return (
        "cell by cell",
        lambda: seconds(stepwise, 10) / 160,
        "fused between episode ends",
        lambda: seconds(lambda: layer(x)[0].sum().backward(), 10) / 160,
    )


def small_batches() -> Pair:
    return (
        "4 observations per forward pass",
        lambda: forward_seconds(Model(), 4),
        "8 observations",
        lambda: forward_seconds(Model(), 8),
    )


def forward_seconds(section: Model, batch: int) -> float:
    """Median seconds per observation of a forward pass of the kart's network."""
    network = make_network(section, plain(54, 54, 1), ActionSpec.of(Discrete(9))).eval()
    arguments = (
        torch.zeros(batch, 54, 54, 1, dtype=torch.uint8),
        torch.zeros(batch, dtype=torch.bool),
        network.initial_state(batch),
    )
    with torch.inference_mode():
        return seconds(lambda: network.step(*arguments), 100) / batch


def interleave() -> Pair:
    stack = np.random.default_rng(0).integers(0, 255, (4, 84, 84, 1), np.uint8)
    return (
        "NumPy",
        lambda: seconds(lambda: np.ascontiguousarray(np.moveaxis(stack, 0, 2).reshape(84, 84, 4)), 200),
        "OpenCV's merge",
        lambda: seconds(lambda: joined_frames(stack), 200),
    )


def selection() -> Pair:
    """A minibatch of 256 of 1,024 single steps of 84 x 84 x 4."""
    steps, chosen = torch.zeros(1, 1024, 84, 84, 4, dtype=torch.uint8), torch.randperm(1024)[:256]
    return (
        "minibatch by indexing",
        lambda: seconds(lambda: steps[:, chosen], 20),
        "by index_select",
        lambda: seconds(lambda: steps.index_select(1, chosen), 20),
    )


def stepping(config: Config, size: int, pause: float) -> float:
    """CPU seconds per agent step with random actions, with a pause after each group step."""
    group = make_group(config, size)
    group.reset(1)
    random = np.random.default_rng(1)
    steps, used, end = 0, 0.0, time.monotonic() + 3
    while time.monotonic() < end:
        start = time.process_time()
        group.step(random.integers(0, 6, size))
        used += time.process_time() - start
        steps += size
        if pause:
            time.sleep(pause)
    group.close()
    return used / steps


def atari() -> Pair:
    config = read(overrides=["environment.id=ALE/Pong-v5", "environment.frame_skip=4", "environment.frame_stack=4"])
    return (
        "groups of one",
        lambda: in_own_process(stepping, config, 1, 0.0),
        "groups of eight",
        lambda: in_own_process(stepping, config, 8, 0.0),
    )


def waking() -> Pair:
    """Cost of sleeping between two steps of an emulator: cold caches and wake-ups."""
    return (
        "kart, sleeping between steps",
        lambda: in_own_process(stepping, read(), 1, 0.0015),
        "kart, without pauses",
        lambda: in_own_process(stepping, read(), 1, 0.0),
    )


def together() -> Pair:
    return (
        "one kart, sleeping between steps",
        lambda: in_own_process(stepping, read(), 1, 0.0015),
        "four in a process, sleeping between steps",
        lambda: in_own_process(stepping, read(), 4, 0.006),
    )


def unseen_map() -> Pair:
    """Eight karts with the whole screen drawn (one row of the map is observed), and with the road only."""
    return (
        "the kart with the map",
        lambda: in_own_process(stepping, read(overrides=["kart.crop_bottom=109"]), 8, 0.0),
        "without",
        lambda: in_own_process(stepping, read(), 8, 0.0),
    )


def stopwatch() -> Pair:
    watch = Stopwatch(AGENT_STAGES)
    many = range(1000)
    return (
        "lap of the stopwatch",
        lambda: seconds(lambda: [watch.lap("write") for _ in many], 20) / 1000,
        "nothing",
        lambda: seconds(lambda: [None for _ in many], 20) / 1000,
    )


ALL = (
    allocator,
    parts,
    precision,
    channels_last,
    columns,
    fused,
    recurrence,
    small_batches,
    interleave,
    selection,
    atari,
    waking,
    together,
    unseen_map,
    stopwatch,
)


def main() -> None:
    torch.set_num_threads(1)
    chosen = [pair for pair in ALL if not sys.argv[1:] or pair.__name__ in sys.argv[1:]]
    if not chosen:
        sys.exit(f"unknown mechanism; choose from {', '.join(pair.__name__ for pair in ALL)}")
    for pair in chosen:
        before, slow, after, fast = pair()
        with contextlib.suppress(ModuleNotFoundError):
            rounds = [(slow(), fast()) for _ in range(ROUNDS)]
            first, second = (statistics.median(column) * 1e6 for column in zip(*rounds, strict=True))
            ratio = statistics.median(one / other for one, other in rounds)
            print(
                f"{pair.__name__:14} {before}: {first:.1f} us, {after}: {second:.1f} us; {ratio:.2f} times", flush=True
            )


if __name__ == "__main__":
    main()
