#!/usr/bin/env bash
# Gymnasium 1.4.0, ale-py 0.12.1 (opencv-python-headless 5.0.0.93, numpy 2.4.6).
#
# Behaviour: the wrappers that repeat an action and show the maximum of the last two frames (`MaxAndSkipObservation`,
# AtariPreprocessing) write frames 3 and 4 of each four. An episode that ends with frame 1 or 2 shows what was written
# before: the last observation is a copy of the one before it, though the reward is the new one; with frame 3, it is the
# maximum of the new frame and one four frames older. If an episode ends in its first step, its last observation is from
# the episode before: the buffer is not cleared by `reset`.
# Guess: the last observation is the state in which the episode ended, since that is why the wrapper ends early.
# Harm: after a truncation the value of the last observation continues the return, and it is that of another moment, or
# of another episode; world models, goal-conditioned rewards and recorded datasets learn transitions that never happened.
# Three of four lengths of an episode are affected.
# Remedy: clear the buffer at `reset`, and after an early end take the last frame itself; set limits of time outside of
# the skip, in multiples of it.
#
# Seen (an environment whose observation is the number of its steps, truncated after LENGTH, skip 4):
#   length 5: ends with observation 4, reward 1
#   length 6: ends with observation 4, reward 2
#   length 7: ends with observation 7, reward 3
#   length 8: ends with observation 8, reward 4
#   after an episode of 8: an episode of length 1 ends with observation 8
#   Pong, truncated at frame 403: the last observation is the one before it: True
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check \
    gymnasium==1.4.0 ale-py==0.12.1 opencv-python-headless==5.0.0.93 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" - <<'EOF'
import sys

import ale_py
import gymnasium
import numpy as np
from gymnasium.wrappers import AtariPreprocessing, MaxAndSkipObservation

gymnasium.register_envs(ale_py)


class Steps(gymnasium.Env):
    """Its observation is the number of steps so far; episodes are truncated after the given lengths, in turn."""

    observation_space = gymnasium.spaces.Box(0, 255, (1,), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, *lengths):
        self.lengths = iter(lengths)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.length = 0, next(self.lengths)
        return np.zeros(1, np.uint8), {}

    def step(self, action):
        self.steps += 1
        return np.array([self.steps], np.uint8), 1.0, False, self.steps == self.length, {}


def play(env):
    """The last two observations of an episode, and its last reward."""
    shown, before = env.reset(seed=0)[0], None
    while True:
        before = shown
        shown, reward, terminated, truncated, _ = env.step(0)
        if terminated or truncated:
            return before, shown, reward


ends = {}
for length in (5, 6, 7, 8):
    _, shown, reward = play(MaxAndSkipObservation(Steps(length), skip=4))
    ends[length] = int(shown[0])
    print(f"length {length}: ends with observation {ends[length]}, reward {reward:g}")
env = MaxAndSkipObservation(Steps(8, 1), skip=4)
play(env)
after = int(play(env)[1][0])
print(f"after an episode of 8: an episode of length 1 ends with observation {after}")
pong = gymnasium.make("ALE/Pong-v5", frameskip=1, max_num_frames_per_episode=403, repeat_action_probability=0.0)
before, shown, _ = play(AtariPreprocessing(pong, noop_max=0, frame_skip=4))
same = bool((before == shown).all())
print(f"Pong, truncated at frame 403: the last observation is the one before it: {same}")
if ends != {5: 4, 6: 4, 7: 7, 8: 8} or after != 8:
    sys.exit("CHANGED: MaxAndSkipObservation shows other frames at the end of an episode")
if not same:
    sys.exit("CHANGED: AtariPreprocessing shows another frame at the end of an episode")
EOF
