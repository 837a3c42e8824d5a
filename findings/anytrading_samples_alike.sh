#!/usr/bin/env bash
# gym-anytrading 2.0.0, Gymnasium 1.4.0 (numpy 2.4.6, pandas 3.1.1, matplotlib 3.11.2).
#
# Behaviour: each `reset()` without a seed gives the action space the seed 0, as it runs
# `self.action_space.seed(int(self.np_random.uniform(0, 1)))`: `action_space.sample()` begins the same sequence in every
# episode.
# Guess: the action space is seeded once, if at all, and random actions differ from episode to episode, as in Gymnasium's
# own environments.
# Harm: a random baseline is one and the same episode, whose returns have no spread; epsilon-greedy agents that sample
# from the space of the environment (DQN) explore by the same random numbers in every episode, whatever was seeded.
# Nothing is reported: reset with a seed works, and so do `env.action_space.seed` and the first episode after it.
# Remedy: random actions from a generator, or a copy of the space, of one's own.
#
# Seen:
#   stocks-v0: 20 episodes of 100 random actions, 1 different
#   forex-v0: 20 episodes of 100 random actions, 1 different
#   CartPole-v1: 20 episodes of 100 random actions, 20 different
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check \
    gym-anytrading==2.0.0 gymnasium==1.4.0 numpy==2.4.6 pandas==3.1.1 matplotlib==3.11.2
cd "$work"
"$work/venv/bin/python" -W ignore - <<'EOP'
import sys

import gym_anytrading
import gymnasium

gymnasium.register_envs(gym_anytrading)
EPISODES, ACTIONS = 20, 100


def different(name):
    """How many of some episodes' random actions differ, the environment and its action space seeded once, before."""
    env = gymnasium.make(name)
    env.reset(seed=3)
    env.action_space.seed(3)
    found = set()
    for _ in range(EPISODES):
        env.reset()
        found.add(tuple(int(env.action_space.sample()) for _ in range(ACTIONS)))
    env.close()
    print(f"{name}: {EPISODES} episodes of {ACTIONS} random actions, {len(found)} different")
    return len(found)


if [different(name) for name in ("stocks-v0", "forex-v0", "CartPole-v1")] != [1, 1, EPISODES]:
    sys.exit("CHANGED: random actions differ from episode to episode, or CartPole's do not")
EOP
