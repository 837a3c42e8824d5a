"""Frames are joined channel by channel, the last frame last."""

import numpy as np
import pytest

from kartrl.envs.frames import joined_frames


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
