#!/usr/bin/env bash
# stable-retro 1.0.1 (gymnasium 1.4.0, numpy 2.4.6).
#
# Behaviour: a reward or a `done` in a scenario.json that has a `script` (Lua) is the script's alone. What stands beside
# it in the same object, `variables`, `time`, `nodes` and `condition`, is loaded without an error and never looked at.
# Guess: the parts add up, as `variables` and `time` of a reward do, and `done` with "any" is the script or a variable.
# Harm: one adds a script to a scenario that works, for a bonus or an early end, and the score no longer pays, or
# episodes no longer end with the last life: the game over screen is played on until a time limit.
# Remedy: write all of the reward, or of the end, in the script (`data.lives == 0`), and delete what stands beside it.
#
# Seen (Airstriker, 100 frames from its start, in which the score does not change; the script pays 0 or is never done):
#   reward: time 1                        100.0
#   reward: time 1, and a script            0.0
#   done: lives equal 3                       1 frames
#   done: lives equal 3, or a script        100 frames
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
Path("a.lua").write_text("function none() return 0 end\nfunction never() return false end\n")


def play(**scenario):
    """Return and length of an episode without buttons, of at most 100 frames."""
    file = Path("scenario.json").absolute()
    file.write_text(json.dumps(scenario))
    env = stable_retro.make(GAME, scenario=str(file), render_mode=None)
    env.reset()
    total, frames, done = 0.0, 0, False
    while not done and frames < 100:
        _, reward, done, _, _ = env.step(np.zeros(12, np.int8))
        total, frames = total + reward, frames + 1
    env.close()
    return total, frames


time, three = {"time": {"reward": 1}}, {"variables": {"lives": {"op": "equal", "reference": 3}}}
scripts = ["a.lua"]
paid, beside = play(reward=time)[0], play(reward=time | {"script": "lua:none"}, scripts=scripts)[0]
print(f"reward: time 1                     {paid:8}")
print(f"reward: time 1, and a script       {beside:8}")
ended, late = play(done=three)[1], play(done=three | {"script": "lua:never"}, scripts=scripts)[1]
print(f"done: lives equal 3                {ended:8} frames")
print(f"done: lives equal 3, or a script   {late:8} frames")
if (paid, ended) != (100, 1):
    sys.exit("CHANGED: time no longer pays by the frame, or lives no longer end an episode")
if (beside, late) != (0, 100):
    sys.exit("CHANGED: what stands beside a script counts now")
EOF
