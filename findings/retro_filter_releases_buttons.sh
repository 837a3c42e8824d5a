#!/usr/bin/env bash
# stable-retro 1.0.1 (gymnasium 1.4.0, numpy 2.4.6).
#
# Behaviour: the default action space, MultiBinary, passes a filter that knows a list of sets of fire buttons. If the
# buttons held are none of them, ALL of them are released, not those too many; opposite directions release each other.
# Of Genesis's 4,096 actions 126 differ. B and A together fire, A and C together do nothing, START never.
# Guess: an action presses the buttons whose bits are 1, and at most impossible directions are dropped.
# Harm: a policy of independent bits, the one that MultiBinary asks for, begins with random bits: it holds a fire button
# in 98 % of its actions and presses one in 20 %. "Hold more" often means "press nothing", so the gradient of a single
# bit has the wrong sign in most contexts, two actions of different log-probability are the same to the game, and an
# entropy bonus counts 12 bits where there are 7. Recorded actions are not the pressed ones.
# Remedy: use_restricted_actions=Actions.DISCRETE (126 actions, each another) or ALL (no filter).
#
# Seen (Airstriker-Genesis-v0):
#   distinct actions: 126 of 4096; fire button held in 98 % of them, pressed in 20 %
#   B, A -> B, A;  A, C -> nothing;  LEFT, RIGHT -> nothing;  START -> nothing;  A, C, LEFT -> LEFT
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check \
    stable-retro==1.0.1 gymnasium==1.4.0 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" - <<'EOF'
import itertools
import sys

import numpy as np
import stable_retro

env = stable_retro.make("Airstriker-Genesis-v0", render_mode=None)
FIRE = [index for index, name in enumerate(env.buttons) if name in "ABCXYZ"]


def pressed(*names):
    return env.get_action_meaning(np.array([button in names for button in env.buttons], np.int8))


actions = [np.array(bits, np.int8) for bits in itertools.product((0, 1), repeat=len(env.buttons))]
results = [env.action_to_array(action)[0] for action in actions]
distinct = len({result.tobytes() for result in results})
asked = np.mean([action[FIRE].any() for action in actions])
given = np.mean([result[FIRE].any() for result in results])
print(
    f"distinct actions: {distinct} of {len(actions)};"
    f" fire button held in {asked:.0%} of them, pressed in {given:.0%}"
)
combinations = [("B", "A"), ("A", "C"), ("LEFT", "RIGHT"), ("START",), ("A", "C", "LEFT")]
meanings = [pressed(*names) for names in combinations]
for names, meaning in zip(combinations, meanings, strict=True):
    print(", ".join(names), "->", ", ".join(meaning) or "nothing")
if distinct != 126 or asked < 0.95 or given > 0.25:
    sys.exit("CHANGED: the filter leaves another number of actions, or presses fire more often")
if meanings != [["B", "A"], [], [], [], ["LEFT"]]:
    sys.exit("CHANGED: the filter answers one of these combinations in another way")
EOF
