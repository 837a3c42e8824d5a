#!/usr/bin/env bash
# MiniGrid 3.2.0 (Gymnasium 1.4.0, numpy 2.4.6).
#
# Behaviour: observations of symbols are declared as pixels: Box(0, 255, uint8), both for the cells (numbers of kinds,
# colours and states, 0 to 10) and for their one-hot codes, which are 0 or 1.
# Guess: bounds of what is in there, 0 to 10 and 0 to 1, as for Discrete parts and Gymnasium's own symbols.
# Harm: scaled by its bounds, as is right for pixels and for bytes of memory, a one-hot code is 0 or 0.004: what a cell
# is hardly reaches the network, with no warning. On MiniGrid-MemoryS7 an LSTM learned to walk within 100 k steps, and
# in 450 to 600 k not which way (three runs); with each number divided by its running deviation it began to within 60 to
# 280 k (seven runs; an eighth was stopped at 220 k).
# Remedy: normalise by running statistics (in kartrl model.normalise_observations), or divide by what is seen.
#
# Seen (largest number of 1,000 random steps; after DtypeObservation(float32) and RescaleObservation to [0, 1]):
#   cells (as made)                   declared 0 to 255, seen 0 to 6, scaled at most 0.0235
#   OneHotPartialObsWrapper           declared 0 to 255, seen 0 to 1, scaled at most 0.0039
#   FullyObsWrapper                   declared 0 to 255, seen 0 to 10, scaled at most 0.0392
#   RGBImgPartialObsWrapper (pixels)  declared 0 to 255, seen 0 to 255, scaled at most 1.0000
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check minigrid==3.2.0 gymnasium==1.4.0 numpy==2.4.6
cd "$work"
PYGAME_HIDE_SUPPORT_PROMPT=1 "$work/venv/bin/python" -W ignore - <<'EOF'
import sys

import gymnasium
import minigrid  # noqa: F401  # registers its environments
import numpy as np
from gymnasium.wrappers import DtypeObservation, RescaleObservation
from minigrid.wrappers import FullyObsWrapper, ImgObsWrapper, OneHotPartialObsWrapper, RGBImgPartialObsWrapper

CASES = {
    "cells (as made)": (lambda env: env, 6),
    "OneHotPartialObsWrapper": (OneHotPartialObsWrapper, 1),
    "FullyObsWrapper": (FullyObsWrapper, 10),
    "RGBImgPartialObsWrapper (pixels)": (RGBImgPartialObsWrapper, 255),
}
changed = []
for name, (wrapper, expected) in CASES.items():
    env = ImgObsWrapper(wrapper(gymnasium.make("MiniGrid-MemoryS7-v0")))
    space = env.observation_space
    scaled = RescaleObservation(DtypeObservation(env, np.float32), np.float32(0), np.float32(1))
    env.action_space.seed(0)
    seen, _ = scaled.reset(seed=0)
    most_scaled = float(seen.max())
    for _ in range(1000):
        seen, _, terminated, truncated, _ = scaled.step(env.action_space.sample())
        most_scaled = max(most_scaled, float(seen.max()))
        if terminated or truncated:
            scaled.reset()
    most = round(255 * most_scaled)
    low, high = space.low.min(), space.high.max()
    print(f"{name:33} declared {low} to {high}, seen 0 to {most}, scaled at most {most_scaled:.4f}")
    if (low, high, most) != (0, 255, expected):
        changed.append(name)
if changed:
    sys.exit(f"CHANGED: other bounds, or other numbers: {', '.join(changed)}")
EOF
