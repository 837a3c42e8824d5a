#!/usr/bin/env bash
# PyTorch 2.13.0, on the CPU.
#
# Behaviour: in TorchScript, `x.view(torch.float32)` does not reinterpret the bytes: the dtype, which is the integer 6
# there, is taken for a shape. A tensor of six elements comes back unchanged, as integers; others raise a shape error.
# `torch.int32` is 3, `torch.float16` 5, `torch.float64` 7, `torch.bfloat16` 15: each fits a tensor of that many elements.
# Guess: what eager PyTorch documents for `Tensor.view(dtype)`, or a refusal when the function is compiled.
# Harm: a policy that unpacks floats from a row of integers works in eager mode and in tests with other sizes; scripted,
# for six elements, it acts on bit patterns taken as numbers (1.0 is read as 1,065,353,216), without a word.
# Remedy: keep parts of different types in tensors of their own, or compute the type outside of the scripted function.
#
# Seen:
#   eager:    float32 [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
#   scripted: int32 [1065353216, 1073741824, 1077936128, 1082130432, 1084227584, 1086324736]
#   scripted, 5 or 7 elements: RuntimeError, shape '[6]' is invalid
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check torch==2.13.0 numpy==2.4.6
cd "$work"
cat >unpack.py <<'EOF'
import torch


def unpack(row: torch.Tensor) -> torch.Tensor:
    return row.view(torch.float32)
EOF
"$work/venv/bin/python" -W ignore::DeprecationWarning - <<'EOF'
import sys

import torch
from unpack import unpack

scripted = torch.jit.script(unpack)
row = torch.arange(1, 7, dtype=torch.float32).view(torch.int32)
eager, compiled = unpack(row), scripted(row)
print("eager:   ", str(eager.dtype).removeprefix("torch."), eager.tolist())
print("scripted:", str(compiled.dtype).removeprefix("torch."), compiled.tolist())


def refused(size):
    try:
        scripted(torch.zeros(size, dtype=torch.int32))
    except RuntimeError as error:
        return "shape '[6]' is invalid" in str(error)
    return False


print("scripted, 5 or 7 elements refused:", refused(5), refused(7))
if eager.dtype != torch.float32 or compiled.dtype != torch.int32 or not torch.equal(compiled, row):
    sys.exit("CHANGED: a scripted view of six integers is no longer these integers")
if not (refused(5) and refused(7)):
    sys.exit("CHANGED: a scripted view takes other sizes")
EOF
