#!/usr/bin/env bash
# PyTorch 2.13.0, on the CPU.
#
# Behaviour: `torch.autocast` keeps its bfloat16 copy of a weight until the outermost autocast block is left. Weights
# changed in place inside the block (an optimizer step, `load_state_dict`, `copy_`) are not seen by later forward passes
# in it, with or without gradients. No warning.
# Guess: the copy belongs to one forward pass, or a write to the weight (its version counter) makes it stale.
# Harm: a predictor that serves requests inside one long `with torch.autocast(...)` acts with its first weights for
# ever, while the learner's log shows ever newer versions; several PPO minibatches in one block all differentiate the
# loss of the first weights, so the loss stands still and the parameters run away in one direction.
# Remedy: one block per forward pass, left before the weights change; or `cache_enabled=False`.
#
# Seen:
#   weights doubled inside the block: output changed False; after leaving it: True; with cache_enabled=False: True
#   losses of 6 SGD steps, all in one block:  [1.0174, 1.0174, 1.0174, 1.0174, 1.0174, 1.0174]
#   losses of 6 SGD steps, a block each:      [1.0174, 0.762, 0.6497, 0.5876, 0.5471, 0.5184]
#   (figures differ a little between machines)
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check torch==2.13.0 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" - <<'EOF'
import contextlib
import copy
import sys

import torch

BF16 = {"device_type": "cpu", "dtype": torch.bfloat16}


def expect(seen, what):
    if not seen:
        sys.exit(f"CHANGED: {what}")


torch.manual_seed(0)
inputs, targets = torch.randn(16, 8), torch.randn(16, 4)
learner, actor = torch.nn.Linear(8, 4), torch.nn.Linear(8, 4)
with torch.no_grad():
    learner.weight.copy_(2 * actor.weight)
    learner.bias.copy_(2 * actor.bias)


def act_with_new_weights(**options):
    """Whether an actor inside an autocast block acts differently after it took the learner's weights; and after it."""
    network = copy.deepcopy(actor)
    with torch.autocast(**BF16, **options), torch.no_grad():
        before = network(inputs)
        network.load_state_dict(learner.state_dict())
        inside = network(inputs)
    with torch.autocast(**BF16), torch.no_grad():
        return not torch.equal(before, inside), not torch.equal(before, network(inputs))


inside, outside = act_with_new_weights()
uncached, _ = act_with_new_weights(cache_enabled=False)
print(
    f"weights doubled inside the block: output changed {inside}; after leaving it: {outside};"
    f" with cache_enabled=False: {uncached}"
)


def train(one_block):
    network, losses = copy.deepcopy(actor), []
    optimizer = torch.optim.SGD(network.parameters(), lr=0.5)
    around = torch.autocast(**BF16) if one_block else contextlib.nullcontext()
    with around:
        for _ in range(6):
            with torch.autocast(**BF16):
                loss = (network(inputs).float() - targets).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(round(loss.item(), 4))
    return losses


together, apart = train(one_block=True), train(one_block=False)
print("losses of 6 SGD steps, all in one block: ", together)
print("losses of 6 SGD steps, a block each:     ", apart)

expect(not inside, "an autocast block sees weights that were loaded inside it")
expect(outside and uncached, "leaving the block, or cache_enabled=False, no longer takes the new weights")
expect(len(set(together)) == 1, "six steps inside one autocast block change the loss")
expect(apart[-1] < 0.8 * apart[0], "six steps in blocks of their own do not reduce the loss")
EOF
