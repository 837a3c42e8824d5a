#!/usr/bin/env bash
# Gymnasium 1.4.0, ale-py 0.12.1 (numpy 2.4.6).
#
# Behaviour: `gymnasium.make_vec("ALE/...-v5", n)` and n times `gymnasium.make("ALE/...-v5")` are different tasks under
# one id. make_vec finds the game's own vector environment, which returns rewards clipped to -1, 0 and 1 (as int32),
# stacks of four grey 84 x 84 frames, and begins with FIRE and up to 30 no-ops. With `vectorization_mode="sync"` the
# same call returns the score and 210 x 160 x 3 frames.
# Guess: make_vec is make, n times, faster; if anything differs, the shape of observations tells.
# Harm: observations differ visibly, rewards do not: returns that RecordEpisodeStatistics reports count rewards, not
# points (1 for each pill, ghost and cherry of Ms. Pac-Man), stand next to published scores, and are compared with an
# evaluation made with `make`. Which it is depends on whether a package registers a vector environment, and that can
# change.
# Remedy: name `vectorization_mode`, and pass `reward_clipping=False`; clip in the learner.
#
# Seen (Ms. Pac-Man, 600 steps of the same random actions):
#   make:                     different rewards [0.0, 10.0], in all 250.0
#   make_vec:                 different rewards [0, 1], in all 34
#   make_vec, clipping off:   different rewards [0, 10], in all 340
#   make_vec, mode "sync":    different rewards [0.0, 10.0], in all 250.0
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check gymnasium==1.4.0 ale-py==0.12.1 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" - <<'EOF'
import sys

import ale_py
import gymnasium
import numpy as np

gymnasium.register_envs(ale_py)
NAME = "ALE/MsPacman-v5"
ACTIONS = np.random.default_rng(0).integers(9, size=600)


def show(text, rewards):
    different = sorted(set(rewards))
    print(f"{text:26}different rewards {different}, in all {sum(rewards)}")
    return different


def play_one():
    env = gymnasium.make(NAME)
    env.reset(seed=0)
    rewards = []
    for action in ACTIONS:
        _, reward, terminated, truncated, _ = env.step(action)
        rewards.append(float(reward))
        if terminated or truncated:
            env.reset()
    return show("make:", rewards)


def play_vector(text, **options):
    envs = gymnasium.make_vec(NAME, 1, **options)
    envs.reset(seed=0)
    return show(text, [envs.step(np.array([action]))[1][0].item() for action in ACTIONS])


single, vector = play_one(), play_vector("make_vec:")
raw = play_vector("make_vec, clipping off:", reward_clipping=False)
sync = play_vector('make_vec, mode "sync":', vectorization_mode="sync")
if set(vector) != {0, 1}:
    sys.exit("CHANGED: make_vec no longer clips the rewards")
if min(max(single), max(raw), max(sync)) < 10:
    sys.exit("CHANGED: make, or make_vec without clipping, returns other rewards")
EOF
