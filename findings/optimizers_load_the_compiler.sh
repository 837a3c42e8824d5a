#!/usr/bin/env bash
# PyTorch 2.13.0 (numpy 2.4.6, psutil 7.2.2), Linux.
#
# Behaviour: the first optimizer of a process, SGD too, imports PyTorch's compiler and a computer algebra system
# (torch._dynamo, sympy): 820 modules. So do the first operation under a TorchDispatchMode, which is how FLOPs are
# counted, and a checkpoint of activations. The backward pass of a vector, `y.backward(v)`, imports sympy alone.
# Guess: who never calls `torch.compile` does not pay for it; an optimizer is a list of tensors and a few numbers.
# Harm: where many processes have an optimizer or gradients of their own (A3C's workers, populations, meta-learners),
# each is a second late and 75 MB larger: 5 GB for 64 workers, and memory is what ends them. The time appears within the
# first update, where one looks for it in the model.
# Remedy: make an optimizer in the parent before `fork`, so that the children share it; or step by the functions,
# `torch.optim.sgd.sgd(parameters, gradients, ...)`; `(y * v).sum().backward()`.
#
# Seen (first use in a process of its own, with torch imported; seconds of an idle machine):
#   backward of a sum          0.0 s     0 modules    3 MB
#   backward of a vector       0.2 s   487 modules   38 MB, with sympy
#   SGD                        0.9 s   823 modules   74 MB, with sympy and torch._dynamo
#   TorchDispatchMode          0.8 s   823 modules   75 MB, with sympy and torch._dynamo
#   step by a function         0.0 s     0 modules    0 MB
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check torch==2.13.0 numpy==2.4.6 psutil==7.2.2
cd "$work"
cat >use.py <<'EOF'
import sys
import time

import psutil
import torch
from torch.optim.sgd import sgd
from torch.utils._python_dispatch import TorchDispatchMode

NAMES = ["backward of a sum", "backward of a vector", "SGD", "TorchDispatchMode", "step by a function"]
EXPECTED = [[], ["sympy"], ["sympy", "torch._dynamo"], ["sympy", "torch._dynamo"], []]


class Same(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


number = int(sys.argv[1])
weight = torch.ones(4, requires_grad=True)
torch.ones(4).add(1)
modules, memory, began = set(sys.modules), psutil.Process().memory_info().rss, time.perf_counter()
if number == 0:
    (2 * weight).sum().backward()
elif number == 1:
    (2 * weight).backward(torch.ones(4))
elif number == 2:
    torch.optim.SGD([weight], lr=0.1)
elif number == 3:
    with Same():
        torch.ones(4).add(1)
else:
    with torch.no_grad():
        options = {"weight_decay": 0.0, "momentum": 0.0, "lr": 0.1, "dampening": 0.0}
        sgd([weight], [torch.ones(4)], [None], nesterov=False, maximize=False, **options)
seconds, grown = time.perf_counter() - began, (psutil.Process().memory_info().rss - memory) / 1e6
new = set(sys.modules) - modules
found = [name for name in ("sympy", "torch._dynamo") if name in new]
print(f"{NAMES[number]:22}{seconds:5.1f} s{len(new):6} modules{grown:5.0f} MB", *found)
if found != EXPECTED[number]:
    sys.exit(f"CHANGED: expected {EXPECTED[number]}")
EOF
for number in 0 1 2 3 4; do
    "$work/venv/bin/python" use.py $number
done
