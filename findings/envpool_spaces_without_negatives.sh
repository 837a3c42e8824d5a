#!/usr/bin/env bash
# EnvPool 1.2.5 (gymnasium 1.4.0, numpy 2.4.6).
#
# Behaviour: unbounded observations of EnvPool's Box2D, dm_control and chess environments (60 of its 1,651 ids) are
# declared as a Box from 1.1754944e-38, the smallest POSITIVE float32, to 3.4028235e+38. Every negative number, so
# nearly every observation, lies outside. Gymnasium's LunarLander and BipedalWalker have finite bounds; EnvPool's
# HalfCheetah has -inf to inf.
# Guess: -inf to inf, or the original's bounds; at worst the most negative float32.
# Harm: whatever trusts the space goes wrong without an error: clipping to it turns half of the inputs into 0, scaling
# by its bounds into one constant, a test for "unbounded" by `isinf` says no and chooses scaling, and a check that
# observations lie in their space refuses a working environment.
# Remedy: replace the space by Box(-inf, inf) of its shape where `low` is a tiny positive number.
#
# Seen (1,000 steps of random actions in 8 environments):
#   LunarLander-v3    low 1.1754944e-38; observations inside 0.000; numbers that clipping to the space changes 0.625
#   BipedalWalker-v3  low 1.1754944e-38; observations inside 0.000; numbers that clipping to the space changes 0.269
#   CartPole-v1       low -4.8000002e+00; observations inside 1.000; numbers that clipping to the space changes 0.000
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check envpool==1.2.5 gymnasium==1.4.0 numpy==2.4.6
cd "$work"
TMPDIR=$work MPLCONFIGDIR=$work "$work/venv/bin/python" - <<'EOF'
import sys

import envpool
import numpy as np

ENVS, STEPS = 8, 1000


def look(name):
    """Share of observations in their space, and of their numbers that clipping to it changes."""
    envs = envpool.make(name, "gymnasium", num_envs=ENVS, seed=0)
    box, space = envs.observation_space, envs.action_space
    space.seed(1)
    observations, _ = envs.reset()
    inside, changed = [], []
    for _ in range(STEPS):
        observations = envs.step(np.array([space.sample() for _ in range(ENVS)]))[0]
        inside += [box.contains(row) for row in observations]
        changed.append(np.mean(np.clip(observations, box.low, box.high) != observations))
    low, share = float(box.low.flat[0]), float(np.mean(inside))
    print(
        f"{name:18}low {low:.7e}; observations inside {share:.3f};"
        f" numbers that clipping to the space changes {np.mean(changed):.3f}"
    )
    return low, share


for name in ("LunarLander-v3", "BipedalWalker-v3"):
    low, share = look(name)
    if low <= 0 or share > 0.05:
        sys.exit(f"CHANGED: the space of {name} has room for negative numbers")
low, share = look("CartPole-v1")
if share < 0.95:
    sys.exit("CHANGED: CartPole's observations lie outside their space too")
EOF
