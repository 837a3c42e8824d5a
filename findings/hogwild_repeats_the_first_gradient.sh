#!/usr/bin/env bash
# PyTorch 2.13.0.
#
# Behaviour: in the usual A3C worker, a local network's gradients are lent to the shared parameters once, `shared.grad =
# local.grad`, as both names then mean one tensor that each backward pass refills. `zero_grad()` no longer zeroes that
# tensor but drops it, and the next backward pass makes a new one: the shared parameter keeps the gradient of the
# worker's FIRST update and steps along it for ever.
# Guess: zero_grad leaves a tensor of zeros in place, or the shared parameter sees the new gradient; or something
# raises.
# Harm: published A3C code (written for PyTorch 0.4 to 1.x) runs on the CPU without a message and does not learn, and a
# baseline measured with it is worth nothing. Loss, entropy and gradient norm, computed on the local network, look
# alive.
# Remedy: `zero_grad(set_to_none=False)`, or assign the gradients anew before every step.
#
# Seen (one weight, the loss's gradient is 1, 2, 3, 4 in four updates, SGD with rate 1 from 0):
#   zero_grad():                   local gradients [1, 2, 3, 4], applied [1, 1, 1, 1], shared weight -4
#   zero_grad(set_to_none=False):  local gradients [1, 2, 3, 4], applied [1, 2, 3, 4], shared weight -10
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check torch==2.13.0 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" - <<'EOF'
import sys

import torch


def work(**options):
    """Four updates of one worker; the gradients that it computes, and those with which the shared weight is stepped."""
    shared, local = (torch.nn.Linear(1, 1, bias=False) for _ in range(2))
    torch.nn.init.zeros_(shared.weight)
    shared.share_memory()
    optimizer = torch.optim.SGD(shared.parameters(), lr=1.0)
    computed, applied = [], []
    for update in range(1, 5):
        local.load_state_dict(shared.state_dict())
        local.zero_grad(**options)
        (update * local.weight).sum().backward()
        if shared.weight.grad is None:
            shared.weight.grad = local.weight.grad
        computed.append(int(local.weight.grad))
        applied.append(int(shared.weight.grad))
        optimizer.step()
    name = ", ".join(f"{key}={value}" for key, value in options.items())
    weight = int(shared.weight)
    print(f"{f'zero_grad({name}):':31}local gradients {computed}, applied {applied}, shared weight {weight}")
    return computed, applied


computed, applied = work()
if computed != [1, 2, 3, 4] or applied != [1, 1, 1, 1]:
    sys.exit("CHANGED: the shared parameter no longer keeps the first gradient")
computed, applied = work(set_to_none=False)
if applied != computed:
    sys.exit("CHANGED: set_to_none=False no longer hands on the new gradients")
EOF
