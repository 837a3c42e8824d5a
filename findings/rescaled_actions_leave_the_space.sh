#!/usr/bin/env bash
# Gymnasium 1.4.0 (numpy 2.4.6).
#
# Behaviour: `RescaleAction(env, -1, 1)` computes in float32 and does not clip: its own bounds, -1 and 1, often come out
# one rounding error outside the environment's action space, so that `env.action_space.contains` is False for an action
# that the wrapped space contains. Bounds like -2 and 2, or 0 and 1, are exact, so Pendulum shows nothing.
# Guess: the ends of one space map to the ends of the other.
# Harm: squashed (tanh) policies and clipped Gaussians produce exactly -1 and 1 all the time. An environment that checks
# its actions (`assert self.action_space.contains(action)`, as many do, or a simulator that refuses out-of-range
# torques) fails after hours, when the policy first saturates; check_env and random actions never reach the ends.
# Remedy: `TransformAction(env, lambda action: numpy.clip(action, low, high), env.action_space)` inside. ClipAction does
# not fit there: it declares the space unbounded, which RescaleAction refuses.
#
# Seen (500 random boxes of three dimensions):
#   both ends: 386 of 1000 outside the space; the middle: 0 of 500
#   both ends, clipped inside: 0 of 1000
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check gymnasium==1.4.0 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" - <<'EOF'
import sys
from functools import partial

import gymnasium
import numpy as np
from gymnasium.wrappers import RescaleAction, TransformAction


class Arm(gymnasium.Env):
    """Tells in `info` whether the action that it got lies in its space."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))

    def __init__(self, low, high):
        self.action_space = gymnasium.spaces.Box(low, high)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        inside = self.action_space.contains(np.asarray(action, np.float32))
        return np.zeros(1, np.float32), 0.0, False, False, {"inside": inside}


def outside(actions, clip=False):
    """How many of these actions, rescaled, lie outside the space, over 500 spaces."""
    random, count = np.random.default_rng(0), 0
    for _ in range(500):
        low = random.normal(size=3).astype(np.float32)
        high = low + random.random(3).astype(np.float32)
        env = Arm(low, high)
        if clip:
            env = TransformAction(env, partial(np.clip, a_min=low, a_max=high), env.action_space)
        env = RescaleAction(env, np.float32(-1), np.float32(1))
        env.reset()
        for action in actions:
            action = np.full(3, action, np.float32)
            assert env.action_space.contains(action)
            count += not env.step(action)[4]["inside"]
    return count


ends, middle, clipped = outside((-1.0, 1.0)), outside((0.0,)), outside((-1.0, 1.0), clip=True)
print(f"both ends: {ends} of 1000 outside the space; the middle: {middle} of 500")
print(f"both ends, clipped inside: {clipped} of 1000")
if ends < 100:
    sys.exit("CHANGED: the ends of the rescaled space stay inside the environment's")
if middle or clipped:
    sys.exit("CHANGED: the middle, or a clipped action, lies outside")
EOF
