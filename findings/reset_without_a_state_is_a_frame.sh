#!/usr/bin/env bash
# stable-retro 1.0.1 (gymnasium 1.4.0, numpy 2.4.6).
#
# Behaviour: `reset()` of a game without a start state emulates one frame, and that is all: the game goes on where it
# was. That holds for `state=State.NONE`, for games of one's own without a state, and for 41 of the integrations that
# come with it. Three resets and no reset lead to the same memory and picture.
# Guess: without a state the console is switched off and on, as NONE is described as the start screen.
# Harm: "episodes" are pieces of one endless game: what an agent has lost stays lost, after a game over each episode is
# the end screen, each environment of a vector is at another place, and returns of equal seeds differ. Nothing is
# raised, and the first episode is right.
# Remedy: keep a state of one's own: `env.initial_state = env.em.get_state()` right after `make`.
#
# Seen (600 frames without a button, reset at 200, 400 and 600, against 600 frames without a reset):
#   default state:           memory equal False, picture equal False
#   State.NONE:              memory equal True, picture equal True
#   State.NONE, own state:   memory equal False, picture equal False
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
from stable_retro import State

GAME = "Airstriker-Genesis-v0"  # which comes with the package


def play(state, own, resets):
    """Memory and picture after 600 frames."""
    env = stable_retro.make(GAME, state, render_mode=None)
    if own:
        env.initial_state = env.em.get_state()
    env.reset(seed=1)
    for frame in range(1, 601):
        if resets and frame % 200 == 0:
            env.reset(seed=1)
        else:
            env.step(np.zeros(env.num_buttons, np.int8))
    result = env.get_ram().copy(), env.em.get_screen().copy()
    env.close()
    return result


found = []
for name, state, own in (
    ("default state:", State.DEFAULT, False),
    ("State.NONE:", State.NONE, False),
    ("State.NONE, own state:", State.NONE, True),
):
    equal = [np.array_equal(*pair) for pair in zip(play(state, own, True), play(state, own, False))]
    print(f"{name:24} memory equal {equal[0]}, picture equal {equal[1]}")
    found.append(equal)
if found != [[False, False], [True, True], [False, False]]:
    sys.exit("CHANGED: a reset without a start state is no longer a frame of the same game")
EOF
