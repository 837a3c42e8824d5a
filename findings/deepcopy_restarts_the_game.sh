#!/usr/bin/env bash
# Gymnasium 1.4.0, ale-py 0.12.1 (numpy 2.4.6).
#
# Behaviour: `copy.deepcopy(env)` of an Atari environment is not a copy of the game: environments with Gymnasium's
# EzPickle are copied by calling their constructor again. The result is a game at power-on whose wrappers are copied as
# they are, so the one that forbids a step before `reset` lets it pass, and a TimeLimit counts on. CartPole, without
# EzPickle, is copied exactly. (LunarLander's copy raises at its first step.)
# Guess: a copy continues as the original does, or raises where the emulator cannot be copied.
# Harm: tree search, rollouts from a state and "try this action first" on deep copies evaluate the opening of the game
# whatever the state, with no error: CartPole passes the test of the planner, Atari returns plausible rewards.
# Remedy: `env.unwrapped.clone_state(include_rng=True)` and `restore_state`, and wrappers' counters by hand.
#
# Seen (after 100 steps; one further step with the original and with the copy):
#   CartPole-v1      equal observations: True
#   ALE/Breakout-v5  equal observations: False; frame number 404 in the original, 4 in the copy
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check gymnasium==1.4.0 ale-py==0.12.1 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" - <<'EOF'
import copy
import sys

import ale_py
import gymnasium
import numpy as np

gymnasium.register_envs(ale_py)


def step_both(name, actions, **options):
    """Whether a step shows the same in an environment after those actions and in its deep copy; and the two infos."""
    env = gymnasium.make(name, **options)
    env.reset(seed=0)
    for action in actions:
        env.step(action)
    other = copy.deepcopy(env)
    mine, copied = env.step(1), other.step(1)
    return np.array_equal(mine[0], copied[0]), mine[4], copied[4]


equal, _, _ = step_both("CartPole-v1", [0, 1, 0, 1])
print("CartPole-v1     equal observations:", equal)
if not equal:
    sys.exit("CHANGED: a deep copy of CartPole no longer continues as the original does")
equal, mine, copied = step_both("ALE/Breakout-v5", [1, 2, 3, 0] * 25, repeat_action_probability=0.0)
frames = mine["frame_number"], copied["frame_number"]
print(f"ALE/Breakout-v5 equal observations: {equal}; frame number {frames[0]} in the original, {frames[1]} in the copy")
if equal or frames != (404, 4):
    sys.exit("CHANGED: a deep copy of an Atari environment is no longer a game at power-on")
EOF
