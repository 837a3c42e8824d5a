#!/usr/bin/env bash
# Gymnasium 1.4.0 (numpy 2.4.6).
#
# Behaviour: SyncVectorEnv and AsyncVectorEnv gather a key of `info` in one array whose dtype is the Python type of the
# FIRST environment's value in that step. The others are cast to it without a word: beside an `int` 0, 0.99 becomes 0;
# beside a `bool` False, 3 becomes True; beside a numpy.float32, digits go. Which values are harmed changes from step to
# step with what environment 0 happens to report.
# Guess: numpy's promotion (float64 for an int and a float), an object array, or an error.
# Harm: metrics from `info` (progress, lap times, distances, success rates) are truncated in all environments whenever
# the first reports a round number as an int, as in `{"progress": 0}` at a start or `min(distance, 1)` at a goal.
# Rewards and observations are right, so training looks healthy while its curves, or a curriculum that reads them, are
# wrong.
# Remedy: give every number in `info` one type at its source: `float(x)` always.
#
# Seen (env 0, env 1 -> the array):
#   SyncVectorEnv   0, 0.99 -> [0, 0] int64;  0.0, 0.99 -> [0.0, 0.99] float64;  False, 3 -> [False, True] bool
#   AsyncVectorEnv  0, 0.99 -> [0, 0] int64;  0.0, 0.99 -> [0.0, 0.99] float64;  False, 3 -> [False, True] bool
#   SyncVectorEnv   0.99, 0 -> [0.99, 0.0] float64
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check gymnasium==1.4.0 numpy==2.4.6
cd "$work"
cat > track.py <<'EOF'
import sys
from functools import partial

import gymnasium
import numpy as np


class Track(gymnasium.Env):
    """Reports the same progress at every step."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, progress):
        self.progress = progress

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 0.0, False, False, {"progress": self.progress}


def gather(kind, *values):
    envs = kind([partial(Track, value) for value in values])
    envs.reset()
    gathered = envs.step(np.zeros(len(values), np.int64))[4]["progress"]
    envs.close()
    print(f"{kind.__name__}: {', '.join(map(str, values))} -> {gathered.tolist()} {gathered.dtype}")
    return gathered.tolist()


def expect(seen, what):
    if not seen:
        sys.exit(f"CHANGED: {what}")


if __name__ == "__main__":
    for kind in (gymnasium.vector.SyncVectorEnv, gymnasium.vector.AsyncVectorEnv):
        expect(gather(kind, 0, 0.99) == [0, 0], "a float beside the first environment's int survives")
        expect(gather(kind, 0.0, 0.99) == [0.0, 0.99], "floats alone do not survive")
        expect(gather(kind, False, 3) == [False, True], "an int beside the first environment's bool survives")
    expect(gather(gymnasium.vector.SyncVectorEnv, 0.99, 0) == [0.99, 0.0], "the first type no longer decides")
EOF
"$work/venv/bin/python" track.py
