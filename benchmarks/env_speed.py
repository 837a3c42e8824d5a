"""Agent steps per second of one environment in one process, random actions, nothing else running in it.

    python benchmarks/env_speed.py [-c FILE ...] [--set SECTION.KEY=VALUE ...] [--seconds 5]

Without -c or --set: the kart as in the defaults, then Pong as in configs/pong.cfg.
"""

import argparse
import time
from pathlib import Path

from kartrl.config import Config, read
from kartrl.envs import make_env

PONG = Path(__file__).parents[1] / "configs" / "pong.cfg"


def measure(config: Config, seconds: float) -> None:
    env = make_env(config)
    env.reset(seed=1)
    env.action_space.seed(1)
    steps = episodes = 0
    start, cpu = time.perf_counter(), time.process_time()
    while (spent := time.perf_counter() - start) < seconds:
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        steps += 1
        if terminated or truncated:
            episodes += 1
            env.reset()
    cpu = time.process_time() - cpu
    env.close()
    rate = f"{steps / spent:,.0f} agent steps/s, {spent / steps * 1e6:,.0f} us each"
    print(f"{config.environment.id}: {rate}, {cpu / steps * 1e6:,.0f} us of them on the processor; {episodes} resets among them")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-c", "--config", nargs="+", default=[], metavar="FILE")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    if options.config or options.set:
        measure(read(options.config, options.set), options.seconds)
    else:
        for files in ([], [PONG]):
            measure(read(files), options.seconds)


if __name__ == "__main__":
    main()
