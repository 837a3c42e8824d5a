#!/usr/bin/env bash
# NumPy 2.4.6, PyTorch 2.13.0.
#
# Behaviour: NumPy's `Generator.standard_exponential` in float32 returns exactly 0 about once in 7 million numbers (the
# ziggurat multiplies a whole number of 23 bits), with `method="inv"` too; in float64 it does not. torch's `exponential_`
# in float32 never does.
# Guess: an exponential number is above 0, as its logarithm and reciprocal are taken everywhere; and the same draw in
# another library, or in half of the memory, has the same support.
# Harm: an action is sampled as the largest pi(a) / e(a), or log pi(a) - log e(a), one exponential number for each: 0 makes
# that infinite, and the alternative is taken although it is masked with -1e30 or -1e9. With 512 illegal alternatives that
# is one step in some 15,000; an environment that checks raises, one that does not learns from a log-probability of -1e30,
# which makes a loss of 1e28 that is finite and so is applied. With a mask of -inf it is NaN, which argmax takes too.
# Remedy: `np.maximum(noise, np.finfo(np.float32).tiny)` where the noise is drawn.
#
# Seen:
#   NumPy, float32, ziggurat: 12 zeros of 80,000,000; by inversion: 3; float64: 0; torch, float32: 0
#   512 of 513 actions masked with -1e30: 20 of 400,000 sampled actions are illegal
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check numpy==2.4.6 torch==2.13.0
cd "$work"
"$work/venv/bin/python" - <<'EOF'
import sys

import numpy as np
import torch

BLOCKS, SIZE = 16, 5_000_000


def by_numpy(dtype, method):
    random = np.random.default_rng(0)
    return lambda: int((random.standard_exponential(SIZE, dtype, method) == 0).sum())


def by_torch():
    generator = torch.Generator().manual_seed(0)
    return lambda: int((torch.empty(SIZE).exponential_(generator=generator) == 0).sum())


cases = {
    "NumPy, float32, ziggurat": by_numpy(np.float32, "zig"),
    "NumPy, float32, by inversion": by_numpy(np.float32, "inv"),
    "NumPy, float64, ziggurat": by_numpy(np.float64, "zig"),
    "torch, float32": by_torch(),
}
zeros = {}
for name, count in cases.items():
    zeros[name] = sum(count() for _ in range(BLOCKS))
    print(f"{name}: {zeros[name]} zeros of {BLOCKS * SIZE:,}")

random, illegal, steps = np.random.default_rng(0), 0, 400_000
logits = np.full(513, -1e30, np.float32)
logits[0] = 0.0  # the only legal action
with np.errstate(divide="ignore"):
    for _ in range(steps // 1000):
        noise = random.standard_exponential((1000, 513), np.float32)
        illegal += int(((logits - np.log(noise)).argmax(1) != 0).sum())
print(f"512 of 513 actions masked with -1e30: {illegal} of {steps:,} sampled actions are illegal")
if not (zeros["NumPy, float32, ziggurat"] and zeros["NumPy, float32, by inversion"] and illegal):
    sys.exit("CHANGED: NumPy's exponential numbers in float32 are above 0")
if zeros["NumPy, float64, ziggurat"] or zeros["torch, float32"]:
    sys.exit("CHANGED: others draw 0 too")
EOF
