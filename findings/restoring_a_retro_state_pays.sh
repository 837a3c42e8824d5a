#!/usr/bin/env bash
# stable-retro 1.0.1 (gymnasium 1.4.0, numpy 2.4.6).
#
# Behaviour: the reward is the change of the game's variables since the last time that stable-retro looked, not within
# the step. `em.set_state` does not look. So the first step after a restore pays the difference between the restored
# score and the score that was left: here 40 for doing nothing. The other way, from a higher score to a lower one, costs
# nothing, as the scenario names no penalty.
# Guess: a reward belongs to the step, or restoring sets the reward's memory too.
# Harm: an agent that is started from saved states (backward curricula, Go-Explore, replayed demonstrations) is paid the
# whole score of each state at its first step, whatever it does, and the more the later the state: a spike at the start
# of every episode, a value function that learns it, returns that look like progress. From lower scores all is well, so
# tests that restore an early state pass.
# Remedy: `env.data.reset(); env.data.update_ram()` after `set_state`, as `env.reset()` does; or put the bytes into
# `env.initial_state` and call `env.reset()`.
#
# Seen (first reward, doing nothing):
#   reset, then set_state at score 40: 40.0
#   the same and data.reset(), data.update_ram(): 0.0
#   the state as initial_state, then reset: 0.0
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check \
    stable-retro==1.0.1 gymnasium==1.4.0 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" - <<'EOF'
import sys

import numpy as np
import stable_retro

env = stable_retro.make("Airstriker-Genesis-v0", render_mode=None)


def press(*buttons):
    return env.step(np.array([name in buttons for name in env.buttons], np.int8))


env.reset()
step, score = 0, 0
while score < 40:
    move = "RIGHT" if step // 60 % 2 == 0 else "LEFT"
    score = press("B")[4]["score"] if step % 10 < 5 else press(move)[4]["score"]
    step += 1
state = env.em.get_state()


def restored():
    env.reset()
    press()
    env.em.set_state(state)


restored()
plain = press()[1]
restored()
env.data.reset()
env.data.update_ram()
looked = press()[1]
env.initial_state = state
env.reset()
begun = press()[1]
print(f"reset, then set_state at score {score}: {plain}")
print(f"the same and data.reset(), data.update_ram(): {looked}")
print(f"the state as initial_state, then reset: {begun}")
if plain != score:
    sys.exit("CHANGED: the first step after a restore no longer pays the restored score")
if looked or begun:
    sys.exit("CHANGED: looking at the memory, or reset, no longer prevents the payment")
EOF
