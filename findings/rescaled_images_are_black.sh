#!/usr/bin/env bash
# Gymnasium 1.4.0 (numpy 2.4.6).
#
# Behaviour: `RescaleObservation` keeps the type of the observations. Images of bytes that are rescaled to [0, 1], or to
# any range of fewer than 255 levels, are 0 everywhere: the factor, 1/255 or 127/255, is itself cast to a byte. Bounds
# of float32 change nothing; the vector's wrapper does the same; the new space, Box(0, 1, uint8), contains the black
# picture, and `check_env` passes.
# Guess: pictures from 0 to 1, in floats; or an error, as the bounds -1 and 1 are indeed refused.
# Harm: "scale the pixels to [0, 1]" is what papers say and what this wrapper is for. The policy learns from black
# pictures, with no warning: as well as one can without seeing, which on easy tasks is not nothing.
# Remedy: `DtypeObservation(env, np.float32)` first (then the bounds must be float32 too), or bytes up to the network.
#
# Seen (a picture with each of the 256 values):
#   RescaleObservation(env, 0, 1)                            uint8    1 different value, highest 0
#   RescaleObservation(env, float32(0), float32(1))          uint8    1 different value, highest 0
#   RescaleObservation(env, 0, 127)                          uint8    1 different value, highest 0
#   vector.RescaleObservation(envs, 0, 1)                    uint8    1 different value, highest 0
#   DtypeObservation(float32), then RescaleObservation       float32  256 different values, highest 1
#   check_env passes; the space contains the picture: True
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check gymnasium==1.4.0 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" -W ignore - <<'EOF'
import sys

import gymnasium
import numpy as np
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import SyncVectorEnv
from gymnasium.wrappers import DtypeObservation, RescaleObservation, vector

PICTURE = np.arange(256, dtype=np.uint8).reshape(16, 16)


class Picture(gymnasium.Env):
    """Shows each brightness once."""

    observation_space = gymnasium.spaces.Box(0, 255, PICTURE.shape, np.uint8)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return PICTURE.copy(), {}

    def step(self, action):
        return PICTURE.copy(), 0.0, False, False, {}


zero, one = np.float32(0), np.float32(1)
cases = {
    "RescaleObservation(env, 0, 1)": RescaleObservation(Picture(), 0, 1),
    "RescaleObservation(env, float32(0), float32(1))": RescaleObservation(Picture(), zero, one),
    "RescaleObservation(env, 0, 127)": RescaleObservation(Picture(), 0, 127),
    "vector.RescaleObservation(envs, 0, 1)": vector.RescaleObservation(SyncVectorEnv([Picture]), 0, 1),
    "DtypeObservation(float32), then RescaleObservation": RescaleObservation(
        DtypeObservation(Picture(), np.float32), zero, one
    ),
}
seen = {}
for name, env in cases.items():
    shown, _ = env.reset(seed=0)
    seen[name] = len(np.unique(shown)), float(shown.max())
    values = f"{seen[name][0]} different value{'s' * (seen[name][0] > 1)}"
    print(f"{name:56} {shown.dtype!s:8} {values}, highest {seen[name][1]:g}")
black = cases["RescaleObservation(env, 0, 1)"]
check_env(black)
print(f"check_env passes; the space contains the picture: {black.observation_space.contains(black.reset()[0])}")
*wrong, right = seen.values()
if set(wrong) != {(1, 0.0)}:
    sys.exit("CHANGED: images of bytes are rescaled, or refused")
if right != (256, 1.0):
    sys.exit("CHANGED: images of floats are rescaled to something else")
EOF
