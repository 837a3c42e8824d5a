#!/usr/bin/env bash
# PyTorch 2.13.0, on the CPU.
#
# Behaviour: `network.share_memory()` followed by `network.to(memory_format=torch.channels_last)` puts the weights of
# convolutions, and only those, back into private memory: they alone have the four dimensions that are laid out anew, in
# a new tensor. Biases and linear layers stay shared. A process that has the network already gets half of each update.
# Guess: a memory format changes strides, not where a tensor lives; or all parameters leave shared memory, or none does.
# Harm: channels-last is the usual way to make convolutions fast on CPUs. Actors (or Hogwild workers) that were started
# before it act with the FIRST convolutions and the newest heads: no error, versions and linear layers change as they
# should, and the policy that acts is one that was never trained. Whether it happens hangs on the order of two lines.
# Remedy: channels_last first, `share_memory()` after it, workers last; check `all(p.is_shared() for p in ...)` then.
#
# Seen (a process that was given the shared network; the learner then sets every parameter to 1):
#   share, worker, channels_last: shared 0.weight False, 0.bias True, 2.weight True, 2.bias True
#                                 the worker sees the update of 0.bias, 2.weight, 2.bias
#   channels_last, share, worker: shared 0.weight True, 0.bias True, 2.weight True, 2.bias True
#                                 the worker sees the update of 0.weight, 0.bias, 2.weight, 2.bias
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check torch==2.13.0 numpy==2.4.6
cd "$work"
cat > share.py <<'EOF'
import sys

import torch
from torch import nn
from torch.multiprocessing import get_context


def act(network, updated, answers):
    """A worker: tells which parameters have been updated, once the learner says that all have been."""
    answers.put([])
    updated.wait()
    answers.put([name for name, parameter in network.named_parameters() if bool((parameter == 1).all())])


def train(lay_out_last):
    """Which parameters are shared, and which ones' update a worker sees."""
    context = get_context("spawn")
    updated, answers = context.Event(), context.Queue()
    network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8, 2))
    if not lay_out_last:
        network.to(memory_format=torch.channels_last)
    network.share_memory()
    worker = context.Process(target=act, args=(network, updated, answers))
    worker.start()
    answers.get()  # it has the network
    if lay_out_last:
        network.to(memory_format=torch.channels_last)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.fill_(1.0)
    updated.set()
    seen = answers.get()
    worker.join()
    shared = {name: parameter.is_shared() for name, parameter in network.named_parameters()}
    order = "share, worker, channels_last:" if lay_out_last else "channels_last, share, worker:"
    print(f"{order} shared {', '.join(f'{name} {value}' for name, value in shared.items())}")
    print(f"{'':30}the worker sees the update of {', '.join(seen)}", flush=True)
    return [name for name, value in shared.items() if not value], seen


if __name__ == "__main__":
    private, seen = train(lay_out_last=True)
    if private != ["0.weight"] or seen != ["0.bias", "2.weight", "2.bias"]:
        sys.exit("CHANGED: channels_last after share_memory no longer unshares convolutions alone")
    private, seen = train(lay_out_last=False)
    if private or len(seen) != 4:
        sys.exit("CHANGED: channels_last before share_memory does not share all parameters")
EOF
"$work/venv/bin/python" share.py
