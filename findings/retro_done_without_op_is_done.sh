#!/usr/bin/env bash
# stable-retro 1.0.1 (gymnasium 1.4.0, numpy 2.4.6).
#
# Behaviour: a condition in a scenario's `done` compares a variable by `op` ("equal", "zero", ...) with a `reference`.
# Where `op` is missing, or is a word that stable-retro does not know, there is no error: it means "greater than 0". So
# {"lives": {"reference": 0}} or {"lives": {"op": "equals", "reference": 0}} is done while lives are LEFT.
# Guess: a missing `op` means equal to the reference, and an unknown word is refused when the scenario is loaded.
# Harm: for a level of one's own, every episode lasts one step (step after step, as `step` after the end plays on),
# which learners report as many short episodes with little reward, not as a mistake; with a variable that starts at 0 (a
# `gameover` flag) the same slip is invisible.
# Remedy: after writing a scenario: make, reset, two steps, `terminated` False; and one episode to its true end.
#
# Seen (Airstriker's own scenario with another `done`, three lives at the start; terminated at step 1, 2, 3):
#   {"lives": {"op": "zero"}}                      [False, False, False]
#   {"lives": {"op": "equal", "reference": 0}}     [False, False, False]
#   {"lives": {"reference": 0}}                    [True, True, True]
#   {"lives": {"op": "equals", "reference": 0}}    [True, True, True]
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check \
    stable-retro==1.0.1 gymnasium==1.4.0 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" - <<'EOF'
import json
import sys
from pathlib import Path

import numpy as np
import stable_retro

GAME = "Airstriker-Genesis-v0"
own = json.loads(Path(stable_retro.data.get_file_path(GAME, "scenario.json")).read_text())


def ends(condition):
    """`terminated` in the first three steps of the scenario with this condition."""
    scenario = Path("scenario.json").absolute()
    scenario.write_text(json.dumps(own | {"done": {"variables": condition}}))
    env = stable_retro.make(GAME, scenario=str(scenario), render_mode=None)
    env.reset()
    terminated = [env.step(np.zeros(12, np.int8))[2] for _ in range(3)]
    env.close()
    print(f"{json.dumps(condition):46}{terminated}")
    return set(terminated)


if ends({"lives": {"op": "zero"}}) != {False} or ends({"lives": {"op": "equal", "reference": 0}}) != {False}:
    sys.exit("CHANGED: a known op no longer waits for the last life")
if ends({"lives": {"reference": 0}}) != {True} or ends({"lives": {"op": "equals", "reference": 0}}) != {True}:
    sys.exit("CHANGED: a missing or unknown op no longer means greater than 0")
EOF
