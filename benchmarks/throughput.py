"""Training throughput beside the machine's ideal for the same work.

    python benchmarks/throughput.py [-c FILE] [--set section.key=value ...] [--seconds 90] [--warm 15] [--repeat 1]

First it measures, each alone on a quiet machine: one environment's step, the network's forward pass per observation
at the prediction batch size, and one update per step at the training batch size, each on one thread. The ideal is
cores / (t_env + t_infer + t_train) agent steps a second: every core busy with necessary work only. Then it trains
(`kartrl train` in a folder that is removed) and counts the agent steps of a window after a warm-up.
"""

import argparse
import csv
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np


def environment_seconds(config, seconds: float) -> float:
    """Median over windows of the wall time of one environment step with random actions, in this process."""
    from kartrl.envs import make_env

    env = make_env(config, config.circuits("train"), training=True)
    env.reset(seed=1)
    random = np.random.default_rng(1)
    windows = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        start = time.perf_counter()
        for action in random.integers(0, env.action_space.n, 100):
            _, _, terminated, truncated, _ = env.step(int(action))
            if terminated or truncated:
                env.reset()
        windows.append((time.perf_counter() - start) / 100)
    shape, actions = env.observation_space.shape, int(env.action_space.n)
    env.close()
    print(f"observation {shape}, {actions} actions")
    return statistics.median(windows)


def network_seconds(config, shape, dtype, actions: int) -> tuple[float, float]:
    """Median seconds per observation of the forward pass, and per step of an update, on one thread of the CPU."""
    import torch

    from kartrl.devices import choose_sizes
    from kartrl.models import make_model
    from kartrl.trainer_thread import Learner
    from kartrl.types import Counters, Unrolls

    torch.set_num_threads(1)
    model = make_model(config.model, shape, actions)
    size, length, batch = choose_sizes(config.system).prediction_batch_size, config.impala.unroll_length, config.system.training_batch_size
    random = np.random.default_rng(0)
    observation = random.integers(0, 255, (length + 1, batch, *shape)).astype(dtype)
    seen = torch.from_numpy(observation.reshape(-1, *shape)[:size])

    def forward():
        with torch.inference_mode():
            model.step(seen, torch.zeros(len(seen), dtype=torch.bool), model.initial_state(len(seen)))

    learner = Learner(config, model, torch.device("cpu"), Counters())
    zeros = np.zeros((length, batch), np.float32)
    unrolls = Unrolls(
        observation,
        np.zeros((length + 1, batch), bool),
        random.integers(0, actions, (length, batch)),
        zeros - float(np.log(actions)),
        zeros,
        zeros > 0,
        zeros == 0,
        np.zeros((length, batch), np.int64),
    )
    update = time_of(lambda: learner.update(unrolls, model.initial_state(batch)), 30)
    return time_of(forward, 300) / len(seen), update / (length * batch)


def time_of(function, count: int) -> float:
    """Median seconds of a call, after a warm-up."""
    for _ in range(5):
        function()
    times = []
    for _ in range(count):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def train_speed(options, seconds: float, warm: float) -> float:
    """Agent steps a second of `kartrl train`, over a window of `seconds` that begins `warm` seconds after the first update."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "kartrl", "train", *options, "--set", f"run.logs={folder}", "--set", "run.name=bench"]
        command += ["--set", f"run.minutes={(warm + seconds + 15) / 60}", "--set", "run.agent_steps=1000000000"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with (Path(folder) / "bench" / "scalars.csv").open() as file:
            points = sorted(
                {(float(row["seconds"]), int(row["agent_steps"])) for row in csv.DictReader(file) if row["tag"].startswith("speed/")}
            )
    first = next(second for second, steps in points if steps > 0)
    window = [(second, steps) for second, steps in points if first + warm <= second <= first + warm + seconds + 5]
    (begin, before), (end, after) = window[0], window[-1]
    return (after - before) / (end - begin)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-c", "--config", nargs="+", default=[])
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--seconds", type=float, default=90)
    parser.add_argument("--warm", type=float, default=15)
    parser.add_argument("--repeat", type=int, default=1)
    arguments = parser.parse_args()

    from kartrl.config import read
    from kartrl.envs import make_env

    config = read(arguments.config, arguments.set)
    with multiprocessing.get_context("spawn").Pool(1) as pool:  # an emulator of its own, and no torch beside it
        environment = pool.apply(environment_seconds, (config, 8.0))
    env = make_env(config, config.circuits("train"), training=True)
    shape, dtype, actions = env.observation_space.shape, env.observation_space.dtype, int(env.action_space.n)
    env.close()
    infer, train = network_seconds(config, shape, dtype, actions)
    cores = multiprocessing.cpu_count()
    ideal = cores / (environment + infer + train)
    print(f"environment {environment * 1e6:.0f} us, inference {infer * 1e6:.0f} us, training {train * 1e6:.0f} us a step")
    print(f"ideal on {cores} cores: {ideal:,.0f} agent steps/s", flush=True)
    options = [*(["-c", *arguments.config] if arguments.config else []), *(part for item in arguments.set for part in ("--set", item))]
    for _ in range(arguments.repeat):
        speed = train_speed(options, arguments.seconds, arguments.warm)
        frames = speed * config.environment.frame_skip
        print(f"training: {speed:,.0f} agent steps/s ({frames:,.0f} frames/s), {speed / ideal:.2f} of the ideal", flush=True)


if __name__ == "__main__":
    main()
