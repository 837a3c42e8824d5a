"""The one type for experience: episode ends, columns of decisions, parts."""

import numpy as np
import torch
from trajectories import CONTINUOUS, DISCRETE, random_trajectory

from kartrl.trajectory import Trajectory, decision_size, discounts, joined, split_decision


def test_nothing_is_discounted_across_an_end():
    trajectory = random_trajectory(DISCRETE, ends=0.0, length=5, size=2)
    trajectory.terminated[1, 0] = True
    trajectory.valid[3, 1] = False
    expected = torch.full((5, 2), 0.9)
    expected[1, 0] = expected[3, 1] = 0.0
    torch.testing.assert_close(discounts(trajectory, 0.9), expected)
    trajectory.terminated[3, 1] = True
    torch.testing.assert_close(discounts(trajectory, 0.9), expected)


def test_the_columns_of_a_decision():
    for action, parameters in ((DISCRETE, 4), (CONTINUOUS, 4)):
        size = decision_size(action.columns, parameters)
        for array in (np.arange(3.0 * size).reshape(3, size), torch.arange(3.0 * size).reshape(3, size)):
            parts = split_decision(array, action.columns)
            assert parts.action.shape == (3, action.columns)
            assert parts.parameters.shape == (3, parameters)
            assert parts.log_prob[0] == action.columns
            assert parts.value[0] == action.columns + 1
            assert parts.parameters[0, 0] == action.columns + 2


def test_a_part_has_all_steps_of_its_unrolls():
    whole = random_trajectory(CONTINUOUS, size=5)
    part = whole.unrolls(slice(1, 3))
    for name, tensor in whole._asdict().items():
        expected = tensor[1:3] if name in ("initial_state", "online", "importance", "serial") else tensor[:, 1:3]
        assert torch.equal(getattr(part, name), expected), name


def test_joined_holds_the_unrolls_of_both():
    one, other = (Trajectory(*map(np.asarray, random_trajectory(CONTINUOUS, seed, size=seed))) for seed in (2, 3))
    whole = joined(one, other)
    for name in Trajectory._fields:
        for expected, part in ((one, slice(0, 2)), (other, slice(2, 5))):
            np.testing.assert_array_equal(getattr(whole.unrolls(part), name), getattr(expected, name), name)
