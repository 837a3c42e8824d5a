"""The recursion step by step and by doubling, against a loop over each number."""

import pytest
import torch

from kartrl.algorithms.backward_sum import backward_sum, by_doubling


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 33])
def test_backward_sum_equals_the_recursion(length):
    random = torch.Generator().manual_seed(length)
    term = torch.randn(length, 3, dtype=torch.float64, generator=random)
    decay = torch.rand(length, 3, dtype=torch.float64, generator=random)
    decay[torch.rand(length, 3, generator=random) < 0.2] = 0.0  # episodes end
    expected, x = term.clone(), torch.zeros(3, dtype=torch.float64)
    for t in reversed(range(length)):
        for b in range(3):
            x[b] = term[t, b] + decay[t, b] * x[b]
            expected[t, b] = x[b]
    assert torch.equal(backward_sum(term, decay), expected)
    torch.testing.assert_close(by_doubling(term, decay), expected, atol=1e-13, rtol=0)
