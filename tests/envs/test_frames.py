"""Frames are joined channel by channel, the last frame last, and split again."""

import numpy as np
import pytest

from kartrl.envs.frames import joined_frames, split_frames, stacked_frames


@pytest.mark.parametrize("leading", [(), (2,), (3, 2)])
@pytest.mark.parametrize(
    ("number", "channels"), [(1, 1), (1, 3), (2, 1), (4, 1), (4, 3), (9, 2), (16, 8), (16, 9), (2, 600)]
)
def test_joined_frames_equal_moving_the_axis(leading, number, channels):
    frames = np.random.default_rng(5).integers(0, 256, (*leading, number, 7, 5, channels), dtype=np.uint8)
    images = joined_frames(frames)
    expected = np.moveaxis(frames, -4, -2).reshape(*leading, 7, 5, number * channels)
    assert images.dtype == np.uint8
    np.testing.assert_array_equal(images, expected)
    np.testing.assert_array_equal(split_frames(images, number), frames)


@pytest.mark.parametrize(("number", "channels"), [(1, 1), (4, 1), (4, 3), (16, 9)])
def test_stacked_frames_equal_joining_the_selected_ones(number, channels):
    random = np.random.default_rng(6)
    frames = random.integers(0, 256, (8, 7, 5, channels), dtype=np.uint8)
    numbers = random.integers(8, size=(3, 2, number))
    images = stacked_frames(frames, numbers)
    assert images.flags["C_CONTIGUOUS"]
    np.testing.assert_array_equal(images, joined_frames(frames[numbers]))
