#!/usr/bin/env bash
# panda-gym 3.0.7, pybullet 3.2.7, Gymnasium 1.4.0 (numpy 2.4.6, scipy 1.17.1).
#
# Behaviour: `reset()` without a seed makes a new generator from the operating system's entropy, as `task.np_random,
# seed = seeding.np_random(seed)` runs with None. A seed decides the first episode alone: the goals and the objects'
# places of all later ones differ in each process, whatever is seeded: the environment, its spaces, `random`, NumPy.
# Guess: as Gymnasium says, the first reset is given a seed, and those after it go on with its generator, so that one
# seed stands for a whole run; the first episode confirms it.
# Harm: "the same 100 test episodes" are others for each policy and each time (Stable-Baselines3's `evaluate_policy`
# and Gymnasium's vectors seed once), so that paired comparisons are unpaired; runs with one seed do not repeat, and
# one looks for the reason in the trainer. Nothing is reported but by Gymnasium's `check_env`, which nobody runs on an
# environment from a package.
# Remedy: a seed at each reset, from a generator of one's own; a wrapper of four lines.
#
# Seen:
#   PandaReach-v3: goals of 5 episodes after reset(seed=3), twice: 1 equal; with a seed at each reset: 5
#   PandaPush-v3: goals of 5 episodes after reset(seed=3), twice: 1 equal; with a seed at each reset: 5
#   CartPole-v1, with the first seed alone: 5 of 5 equal
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check \
    panda-gym==3.0.7 pybullet==3.2.7 gymnasium==1.4.0 numpy==2.4.6 scipy==1.17.1
cd "$work"
"$work/venv/bin/python" - <<'EOP' | grep -v -e '^argv' -e '^pybullet build time'
import random
import sys

import gymnasium
import numpy as np
import panda_gym

gymnasium.register_envs(panda_gym)
EPISODES = 5


def begun(name, each):
    """What episodes begin with, all generators seeded, the first reset or each with a seed."""
    random.seed(0)
    np.random.seed(0)
    env = gymnasium.make(name)
    env.action_space.seed(0)
    env.observation_space.seed(0)
    seeds = range(3, 3 + EPISODES) if each else [3] + [None] * (EPISODES - 1)
    observations = [env.reset(seed=seed)[0] for seed in seeds]
    env.close()
    return [found["desired_goal"] if isinstance(found, dict) else found for found in observations]


def equal(name, each=False):
    return sum(np.array_equal(one, other) for one, other in zip(begun(name, each), begun(name, each), strict=True))


for name in ("PandaReach-v3", "PandaPush-v3"):
    once, each = equal(name), equal(name, each=True)
    print(f"{name}: goals of {EPISODES} episodes after reset(seed=3), twice: {once} equal; with a seed at each reset: {each}")
    if (once, each) != (1, EPISODES):
        sys.exit("CHANGED: a seed decides more than the first episode")
usual = equal("CartPole-v1")
print(f"CartPole-v1, with the first seed alone: {usual} of {EPISODES} equal")
if usual != EPISODES:
    sys.exit("CHANGED: CartPole's later episodes do not follow from its seed")
EOP
