"""Time of a frame of Airstriker alone: kartrl's environment, and stable-retro's with Gymnasium's wrappers.

    python benchmarks/retro_envs.py [--pairs 100]

Both take random actions, hold them for 4 frames, and give 84 x 84 grey frames, the newest 4. They are stepped
alternately in one process, and measured by its CPU time, so that what else the machine does matters little; the median
of the pairs' ratios is printed last.
"""

import argparse
import sys
import time
from pathlib import Path
from statistics import median

import cv2
import gymnasium
import numpy as np

FRAME_SKIP, STEPS = 4, 12  # steps of a measurement
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


def microseconds(env: gymnasium.Env, random: np.random.Generator) -> float:
    """CPU time per frame, resets included."""
    begun = time.process_time()
    for _ in range(STEPS):
        _, _, terminated, truncated, _ = env.step(int(random.integers(6)))
        if terminated or truncated:
            env.reset()
    return 1e6 * (time.process_time() - begun) / (FRAME_SKIP * STEPS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=100)
    options = parser.parse_args()
    envs, random = (make_ours(), make_theirs()), np.random.default_rng(0)
    cv2.setNumThreads(0)
    for env in envs:
        env.reset(seed=0)
    pairs = [tuple(microseconds(env, random) for env in envs) for _ in range(options.pairs)]
    ours, theirs = (median(times) for times in zip(*pairs, strict=True))
    print(f"kartrl {ours:.0f} us/frame, stable-retro {theirs:.0f}: {median(them / us for us, them in pairs):.2f} times")


if __name__ == "__main__":
    main()
