#!/usr/bin/env bash
# Gymnasium 1.4.0, ale-py 0.12.1, EnvPool 1.2.5 (numpy 2.4.6).
#
# Behaviour: a vector of n environments that is given the integer seed s seeds environment i with s + i, in Gymnasium's
# SyncVectorEnv, in ALE's AtariVectorEnv and in EnvPool alike. So with the seeds 0 and 1, n - 1 of n environments are
# the same, one place further on: environment i of the run with seed 1 is environment i + 1 of the run with seed 0.
# Guess: the seed of a vector is a root from which unrelated seeds of its environments are drawn (numpy's SeedSequence),
# so that different seeds are independent runs.
# Harm: "five seeds, 0 to 4" of 8 environments are 12 environments, not 40. Start states, no-op starts and sticky
# actions are shared between runs, so confidence intervals over seeds are too narrow, and evaluating with seed + 1 on a
# vector replays n - 1 of the training environments' first episodes.
# Remedy: seeds further apart than the number of environments (0, 1000, 2000, ...), or a list of seeds drawn from
# `numpy.random.SeedSequence(seed).generate_state(n)`.
#
# Seen (distinct environments among 5 runs of 8, by their observations over the first 100 steps):
#                    seeds 0..4   seeds 0, 1000, ..., 4000
#   SyncVectorEnv        12            40
#   AtariVectorEnv       12            40
#   EnvPool              12            40
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check \
    gymnasium==1.4.0 ale-py==0.12.1 envpool==1.2.5 numpy==2.4.6
cd "$work"
TMPDIR=$work MPLCONFIGDIR=$work "$work/venv/bin/python" - <<'EOF'
import hashlib
import sys

import envpool
import gymnasium
import numpy as np
from ale_py.vector_env import AtariVectorEnv

ENVS, STEPS = 8, 100


def make_sync(seed):
    envs = gymnasium.make_vec("CartPole-v1", ENVS, vectorization_mode="sync")
    return envs, envs.reset(seed=seed)[0]


def make_ale(seed):
    envs = AtariVectorEnv("breakout", ENVS, repeat_action_probability=0.25)
    return envs, envs.reset(seed=seed)[0]


def make_pool(seed):
    envs = envpool.make("Breakout-v5", "gymnasium", num_envs=ENVS, seed=seed, repeat_action_probability=0.25)
    return envs, envs.reset()[0]


def streams(make, actions, seed):
    """One digest for each environment, of what it showed."""
    envs, observations = make(seed)
    digests = [hashlib.md5(row.tobytes()) for row in observations]
    for step in range(STEPS):
        observations = envs.step(np.full(ENVS, step // 7 % actions))[0]
        for digest, row in zip(digests, observations, strict=True):
            digest.update(row.tobytes())
    return [digest.hexdigest() for digest in digests]


print(f"{'':16}seeds 0..4   seeds 0, 1000, ..., 4000")
VECTORS = (("SyncVectorEnv", make_sync, 2), ("AtariVectorEnv", make_ale, 4), ("EnvPool", make_pool, 4))
for name, make, actions in VECTORS:
    near = [streams(make, actions, seed) for seed in range(5)]
    far = [streams(make, actions, 1000 * seed) for seed in range(5)]
    distinct = [len({digest for run in runs for digest in run}) for runs in (near, far)]
    print(f"{name:16}{distinct[0]:6}{distinct[1]:14}")
    if near[1][:-1] != near[0][1:]:
        sys.exit(f"CHANGED: seed 1's environments of {name} are no longer those of seed 0, one place on")
    if distinct != [12, 40]:
        sys.exit(f"CHANGED: {name} had {distinct} distinct environments, not 12 and 40")
EOF
