#!/usr/bin/env bash
# PyTorch 2.13.0.
#
# Behaviour: with invalid actions masked by a logit of -inf, Categorical's sample, log_prob, entropy and the GRADIENT of
# the entropy are right, and so is the VALUE of `kl_divergence` between two policies with the same mask. The gradient of
# that divergence is nan for every action, the valid ones included.
# Guess: it handles 0 * log 0, as its finite value and the entropy's gradient show; if anything fails, it is the value.
# Harm: a KL penalty (PPO's adaptive one, distillation, a teacher, a trust region) with action masks turns all
# parameters into nan in one step while every logged number, the penalty included, is finite until then. Without a
# gradient (early stopping by KL) it is harmless, so code that worked as a diagnostic fails when it becomes a loss.
# Remedy: mask with a large negative number (-1e9, or torch.finfo(dtype).min) in place of -inf.
#
# Seen (logits 0, 0, masked; the other policy 0.5, 0, masked):
#   mask -inf:  entropy 0.6931, its gradient finite: True; KL 0.0309, its gradient [nan, nan, nan]
#   mask -1e9:  entropy 0.6931, its gradient finite: True; KL 0.0309, its gradient [-0.125, 0.125, 0.0]
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check torch==2.13.0 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" - <<'EOF'
import sys

import torch
from torch.distributions import Categorical, kl_divergence


def measure(mask):
    """The entropy and the divergence from another policy with the same mask, each with its gradient."""
    logits = torch.tensor([0.0, 0.0, mask], requires_grad=True)
    policy, other = Categorical(logits=logits), Categorical(logits=torch.tensor([0.5, 0.0, mask]))
    entropy, divergence = policy.entropy(), kl_divergence(policy, other)
    of_entropy, of_divergence = (torch.autograd.grad(x, logits, retain_graph=True)[0] for x in (entropy, divergence))
    finite = bool(of_entropy.isfinite().all())
    numbers = [round(x, 4) for x in of_divergence.tolist()]
    print(
        f"mask {mask:g}: entropy {entropy.item():.4f}, its gradient finite: {finite};"
        f" KL {divergence.item():.4f}, its gradient {numbers}"
    )
    return finite and abs(entropy.item() - 0.6931) < 1e-3, divergence.item(), of_divergence


entropy_right, value, gradient = measure(float("-inf"))
if not entropy_right or abs(value - 0.0309) > 1e-3:
    sys.exit("CHANGED: the entropy, its gradient or the value of the divergence is wrong with a mask of -inf")
if not gradient.isnan().all():
    sys.exit("CHANGED: the gradient of kl_divergence is no longer nan with a mask of -inf")
if not measure(-1e9)[2].isfinite().all():
    sys.exit("CHANGED: a mask of -1e9 no longer gives a finite gradient")
EOF
