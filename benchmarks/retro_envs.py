"""Frames per second of Airstriker alone: kartrl's environment, and stable-retro's with Gymnasium's wrappers.

    python benchmarks/retro_envs.py [--pairs 5] [--seconds 10]

Both take the same random actions, hold them for 4 frames, and give 84 x 84 grey frames, the newest 4. Each is measured
in a process of its own, alternately; the median of the pairs' ratios is printed last.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import gymnasium
import numpy as np

FRAME_SKIP = 4
sys.path.insert(0, str(Path(__file__).parent / "peers"))


def make_ours() -> gymnasium.Env:
    from kartrl.config import View
    from kartrl.retro.env import RetroEnv
    from kartrl.retro.library import find_game
    from kartrl.retro.settings import Retro

    section = Retro(actions=("none", "left", "right", "B", "left+B", "right+B"))
    return RetroEnv(find_game("Airstriker-Genesis-v0"), section, View(FRAME_SKIP, 4, 84, 84, True), ("Level1",))


def make_theirs() -> gymnasium.Env:
    from sb3_airstriker import make_airstriker

    return gymnasium.wrappers.FrameStackObservation(make_airstriker(), 4)


SIDES: dict[str, Callable[[], gymnasium.Env]] = {"kartrl": make_ours, "stable-retro": make_theirs}


def frames_per_second(env: gymnasium.Env, seconds: float) -> float:
    """Of random actions, resets included."""
    random = np.random.default_rng(0)
    env.reset(seed=0)
    begun, steps = time.perf_counter(), 0
    while time.perf_counter() < begun + seconds:
        _, _, terminated, truncated, _ = env.step(int(random.integers(6)))
        steps += 1
        if terminated or truncated:
            env.reset()
    return FRAME_SKIP * steps / (time.perf_counter() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement (default 10)")
    parser.add_argument("--side", choices=SIDES, help="measure one of them, once")
    options = parser.parse_args()
    if options.side:
        print(frames_per_second(SIDES[options.side](), options.seconds))
        return
    ratios = []
    for _ in range(options.pairs):
        command = [sys.executable, __file__, "--seconds", str(options.seconds), "--side"]
        ours, theirs = (float(subprocess.check_output([*command, side], text=True).split()[-1]) for side in SIDES)
        ratios.append(ours / theirs)
        print(f"kartrl {ours:,.0f} frames/s, stable-retro {theirs:,.0f}: {ratios[-1]:.2f}", flush=True)
    print(f"median {median(ratios):.2f}")


if __name__ == "__main__":
    main()
