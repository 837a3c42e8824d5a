#!/usr/bin/env bash
# numpy 2.4.6.
#
# Behaviour: `numpy.random.default_rng` (and SeedSequence, and Gymnasium's seeding) takes a list of integers as a seed,
# but zeros at its end count for nothing, and an integer of 33 bits or more is the list of its 32-bit words. So [s, 0]
# is s, [s, 0, 0] is s, [0, 0] is 0, and 7 * 2**32 + s is [s, 7]. Zeros in front count.
# Guess: a list is another seed than a number, and lists of other lengths are other seeds: that is why one writes
# `default_rng([seed, worker])`.
# Harm: the usual derivation [seed, index] gives worker 0, environment 0 or epoch 0 exactly the stream of the main
# process that uses `seed` itself: the learner's shuffling and the first actor's exploration, or the random choice of a
# level and the first environment's noise, are one stream. With [seed, rank, 0] and [seed, rank] the same again.
# Remedy: `SeedSequence(seed).spawn(n)`, whose key is kept apart from the seed; or put the index first, or count from 1.
#
# Seen (first numbers of default_rng):
#   seed 5: 0.8050029237453802        [5, 0]: 0.8050029237453802       [5, 0, 0]: 0.8050029237453802
#   [5, 7]: 0.5124898348706527        5 + 7 * 2**32: 0.5124898348706527
#   [0, 5]: 0.38213610129812814       SeedSequence(5).spawn(1)[0]: 0.4031184756244418
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check numpy==2.4.6
cd "$work"
"$work/venv/bin/python" - <<'EOF'
import sys

import numpy as np


def first(seed):
    return np.random.default_rng(seed).random()


root, spawned = first(5), first(np.random.SeedSequence(5).spawn(1)[0])
print(f"seed 5: {root}  [5, 0]: {first([5, 0])}  [5, 0, 0]: {first([5, 0, 0])}")
print(f"[5, 7]: {first([5, 7])}  5 + 7 * 2**32: {first(5 + 7 * 2**32)}")
print(f"[0, 5]: {first([0, 5])}  SeedSequence(5).spawn(1)[0]: {spawned}")
if not root == first([5, 0]) == first([5, 0, 0]) or first(0) != first([0, 0]):
    sys.exit("CHANGED: zeros at the end of a seed count")
if first([5, 7]) != first(5 + 7 * 2**32):
    sys.exit("CHANGED: a large integer is no longer the list of its words")
if len({root, first([0, 5]), first([5, 1]), spawned}) != 4:
    sys.exit("CHANGED: zeros in front, other indices or spawned seeds no longer give streams of their own")
EOF
