#!/usr/bin/env bash
# Gymnasium 1.4.0, Stable-Baselines3 2.9.2 (torch 2.13.0, numpy 2.4.6).
#
# Behaviour: `env.reset(seed=s)` and `env.action_space.seed(s)` make the same generator, not merely two seeded alike:
# the environment and the sampler of random actions then draw the SAME numbers in the same order. Where the environment
# draws as the sampler does, the random agent knows the outcome: here it guesses one of ten hidden targets 1,000 times
# in 1,000. The same happens inside Stable-Baselines3 to DQN (and all that warm up with random actions) given `seed=`.
# Guess: a space has a stream of its own, derived from the seed, so the usual two lines with one seed are harmless.
# Harm: random baselines, warm-up buffers and exploration are correlated with the environment's noise, with every seed,
# for as long as both draw at the same pace. How much depends on how the environment draws (FrozenLake and Blackjack
# showed nothing significant in 4,000 episodes); a bandit, a card or a random goal can be given away entirely.
# Remedy: another seed for the space: `env.action_space.seed(s + 1)`, or both from `SeedSequence(s).spawn(2)`.
#
# Seen (share of right guesses; chance is 0.1):
#   reset(seed=0), action_space.seed(0): 1.0       reset(seed=0), action_space.seed(1): 0.097
#   DQN(seed=0), its 999 warm-up steps:  1.0       DQN() without a seed: about 0.1
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check torch==2.13.0 numpy==2.4.6
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check gymnasium==1.4.0 stable-baselines3==2.9.2
cd "$work"
TMPDIR=$work "$work/venv/bin/python" - <<'EOF'
import sys

import gymnasium
import numpy as np
from stable_baselines3 import DQN

TARGETS, STEPS = 10, 1000


class Guess(gymnasium.Env):
    """Reward 1 for the target that the environment draws after the action."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))

    def __init__(self):
        self.action_space = gymnasium.spaces.Discrete(TARGETS)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), float(action == self.np_random.integers(TARGETS)), False, False, {}


def guess(env_seed, space_seed):
    env = Guess()
    env.reset(seed=env_seed)
    env.action_space.seed(space_seed)
    return sum(env.step(env.action_space.sample())[1] for _ in range(STEPS)) / STEPS


def warm_up(seed):
    env = gymnasium.wrappers.TimeLimit(Guess(), 100)
    agent = DQN("MlpPolicy", env, seed=seed, learning_starts=STEPS, buffer_size=STEPS, device="cpu")
    agent.learn(STEPS - 1)
    return float(agent.replay_buffer.rewards[: STEPS - 1].mean())


same, other = guess(0, 0), guess(0, 1)
seeded, unseeded = warm_up(0), warm_up(None)
print(f"reset(seed=0), action_space.seed(0): {same}; action_space.seed(1): {other}")
print(f"DQN(seed=0), its {STEPS - 1} warm-up steps: {seeded:.3f}; DQN() without a seed: {unseeded:.3f}")
if same != 1.0 or other > 0.2:
    sys.exit("CHANGED: one seed for the environment and its action space no longer gives both one stream")
if seeded != 1.0 or unseeded > 0.2:
    sys.exit("CHANGED: DQN(seed=...) no longer draws its random actions from its environment's stream")
EOF
