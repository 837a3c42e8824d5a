#!/usr/bin/env bash
# PyTorch 2.13.0, on the CPU.
#
# Behaviour: with one seed, `torch.randn(n)` (and `normal_`, and Normal.sample) draws by two methods: one number after
# another below 16 elements, blocks of 16 above; and the last 16 are drawn anew where n is no multiple of 16. So none of
# randn(15) is in randn(16), randn(17) shares ONE of randn(16)'s 16 numbers, and a tensor drawn in two halves equals the
# whole only in multiples of 16. A non-contiguous tensor gets other numbers than a contiguous one of its shape. `rand`,
# `exponential_` and Categorical.sample do none of that: there a longer draw starts with the shorter one.
# Guess: normal numbers are a sequence too, of which n are taken.
# Harm: with a Gaussian policy, seeds do not carry over between 15, 16 and 17 environments x action dimensions: adding
# one environment changes every other's noise; a batch split between two predictors, or the last smaller batch of an
# epoch, breaks replay by seed and tests that compare a batch with its parts. Discrete policies show nothing.
# Remedy: one generator for each environment, or draw a fixed size (a multiple of 16) and take what is needed; or make
# the normal numbers from `torch.rand` oneself (erfinv).
#
# Seen (equal leading numbers, one seed):
#   randn: 15 v 16: 0 of 15;  16 v 17: 1 of 16;  16 v 32: 16 of 16;  8 + 8 v 16: 0 of 16;  32 + 32 v 64: 64 of 64
#   rand:  15 v 16: 15 of 15; 16 v 17: 16 of 16; 16 v 32: 16 of 16;  8 + 8 v 16: 16 of 16; 32 + 32 v 64: 64 of 64
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check torch==2.13.0 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" - <<'EOF'
import sys

import torch


def draw(function, *sizes):
    torch.manual_seed(0)
    return torch.cat([function(size) for size in sizes])


def equal(function, left, right):
    """How many of the leading numbers two ways of drawing share."""
    first, second = draw(function, *left), draw(function, *right)
    size = min(len(first), len(second))
    return int((first[:size] == second[:size]).sum())


PAIRS = [((15,), (16,)), ((16,), (17,)), ((16,), (32,)), ((8, 8), (16,)), ((32, 32), (64,))]
seen = {f.__name__: [equal(f, *pair) for pair in PAIRS] for f in (torch.randn, torch.rand)}
for name, counts in seen.items():
    texts = (f"{' + '.join(map(str, left))} v {right[0]}: {n}" for (left, right), n in zip(PAIRS, counts, strict=True))
    print(f"{name:6}{'; '.join(texts)}")
if seen["randn"] != [0, 1, 16, 0, 64]:
    sys.exit("CHANGED: normal numbers depend on the size in another way")
if seen["rand"] != [15, 16, 16, 16, 64]:
    sys.exit("CHANGED: uniform numbers depend on the size")
EOF
