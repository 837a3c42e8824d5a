"""Explained variance from moments that add up over the parts of a batch."""

import numpy as np
import pytest
import torch

from kartrl.algorithms.losses import explained_variance, value_moments


def batch(seed=0, length=6, size=8):
    torch.manual_seed(seed)
    target = torch.randn(length, size) * 3 + 5
    return target + torch.randn(length, size), target, torch.rand(length, size) > 0.3


def moments(value, target, valid, parts=1):
    weight = valid.float() / max(int(valid.sum()), 1)
    chunks = zip(*(tensor.chunk(parts, 1) for tensor in (value, target, weight)), strict=True)
    return sum(value_moments(*chunk) for chunk in chunks)


@pytest.mark.parametrize("parts", [1, 2, 8])
def test_explained_variance_is_numpys_over_all_valid_steps(parts):
    value, target, valid = batch()
    error, chosen = (target - value)[valid].double().numpy(), target[valid].double().numpy()
    expected = 1 - np.var(error) / np.var(chosen)
    assert explained_variance(moments(value, target, valid, parts)) == pytest.approx(expected, rel=1e-5)


def test_a_part_without_a_valid_step_changes_nothing():
    value, target, valid = batch()
    valid[:, :4] = False
    kept = explained_variance(moments(value[:, 4:], target[:, 4:], valid[:, 4:]))
    assert explained_variance(moments(value, target, valid, parts=2)) == pytest.approx(kept)
    assert explained_variance(moments(value, target, valid & False)) == 0.0


def test_of_targets_that_do_not_vary_nothing_is_explained():
    value, _, valid = batch()
    assert explained_variance(moments(value, torch.full_like(value, 7.3), valid)) == 0.0
