"""Recurrent cores: step by step, as on a GPU, they are what they are from reset to reset."""

import pytest
import torch

from kartrl.models.cores import GruCore, LstmCore


@pytest.mark.parametrize("kind", [LstmCore, GruCore])
def test_by_steps_gives_the_same_outputs_states_and_gradients(kind):
    torch.manual_seed(1)
    core = kind(3, 5, bptt=True)
    features, state = torch.randn(9, 4, 3), torch.randn(4, core.state_size)
    first = torch.rand(9, 4) < 0.3
    results = []
    for run in (core.unroll, core.by_steps):
        core.zero_grad()
        output, after = run(features, first, state)
        (output.square().sum() + after.sum()).backward()
        results.append([output, after, *(parameter.grad.clone() for parameter in core.parameters())])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)
