#!/usr/bin/env bash
# Gymnasium 1.4.0, Stable-Baselines3 2.9.2 for comparison (torch 2.13.0, numpy 2.4.6).
#
# Behaviour: `NormalizeReward` divides by the standard deviation of a running discounted return, which it sets back
# where an episode TERMINATES, but not where it is TRUNCATED, nor at `reset`. Episodes that end by a time limit are one
# endless episode to it. Its vector version does the same; Stable-Baselines3's VecNormalize sets it back at both.
# Guess: `reset` begins a new return, however the last episode ended.
# Harm: the same rewards come out 4.5 times smaller when ten-step episodes end by a limit in place of an end: the value
# loss shrinks 20 times, an entropy bonus weighs 4.5 times as much, and a hyper-parameter tuned where episodes terminate
# fails in HalfCheetah or Pendulum, whose episodes only truncate. Reducing the limit changes nothing about that.
# Remedy: scale rewards by a constant, or a wrapper of one's own that begins at every `reset`.
#
# Seen (reward 1 in every step, episodes of 10 steps, gamma 0.99; the last reward after 3,000 steps):
#                     terminated   truncated
#   NormalizeReward      0.366       0.081
#   vector version       0.366       0.077
#   VecNormalize         0.366       0.366
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check torch==2.13.0 numpy==2.4.6
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check gymnasium==1.4.0 stable-baselines3==2.9.2
cd "$work"
"$work/venv/bin/python" - <<'EOF'
import sys

import gymnasium
import numpy as np
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

STEPS, LENGTH = 3000, 10


class Constant(gymnasium.Env):
    """Reward 1 in each of ten steps; the end is a termination or a truncation."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, truncate):
        self.truncate = truncate

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = LENGTH
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.left -= 1
        end = self.left == 0
        return np.zeros(1, np.float32), 1.0, end and not self.truncate, end and self.truncate, {}


def single(truncate):
    env = gymnasium.wrappers.NormalizeReward(Constant(truncate), gamma=0.99)
    env.reset()
    for _ in range(STEPS):
        _, reward, terminated, truncated, _ = env.step(0)
        if terminated or truncated:
            env.reset()
    return float(reward)


def vector(truncate):
    envs = gymnasium.vector.SyncVectorEnv([lambda: Constant(truncate)])
    envs = gymnasium.wrappers.vector.NormalizeReward(envs, gamma=0.99)
    envs.reset()
    rewards = [float(envs.step(np.zeros(1, np.int64))[1][0]) for _ in range(STEPS)]
    return [reward for reward in rewards if reward][-1]


def stable_baselines(truncate):
    envs = VecNormalize(DummyVecEnv([lambda: Constant(truncate)]), gamma=0.99)
    envs.reset()
    return [float(envs.step(np.zeros(1, np.int64))[1][0]) for _ in range(STEPS)][-1]


print(f"{'':18}terminated   truncated")
ways = {"NormalizeReward": single, "vector version": vector, "VecNormalize": stable_baselines}
ratios = {}
for name, scale in ways.items():
    ended, cut = scale(truncate=False), scale(truncate=True)
    print(f"{name:18}{ended:8.3f}{cut:12.3f}")
    ratios[name] = ended / cut
if min(ratios["NormalizeReward"], ratios["vector version"]) < 3:
    sys.exit("CHANGED: NormalizeReward treats truncated episodes as it treats terminated ones")
if abs(ratios["VecNormalize"] - 1) > 0.01:
    sys.exit("CHANGED: VecNormalize treats truncated episodes in another way than terminated ones")
EOF
