"""Preprocessing of the screen to observations."""

import cv2
import numpy as np
import pytest

from kartrl.console.picture import Picture, shrink
from kartrl.kart.game import USUAL


@pytest.fixture
def screen() -> np.ndarray:
    """uint8 [224, 256, 3]: blocks of colour with hard edges."""
    blocks = np.random.default_rng(1).integers(0, 256, (28, 32, 3), dtype=np.uint8)
    return np.ascontiguousarray(blocks.repeat(8, axis=0).repeat(8, axis=1))


@pytest.mark.parametrize("size", [(54, 54), (84, 84), (64, 51), (42, 42), (256, 103), (300, 200)])
def test_shrink_is_close_to_inter_area(screen: np.ndarray, size: tuple[int, int]) -> None:
    part = screen[3:106]
    small = shrink(part, size)
    assert small.shape == (size[1], size[0], 3)
    assert small.dtype == np.uint8
    area = cv2.resize(part, size, interpolation=cv2.INTER_AREA).astype(float)
    assert np.abs(small - area).mean() < 6  # of 255; taking two pixels out of many is about 11 off at 54 x 54


def test_shrink_preserves_a_uniform_image() -> None:
    assert (Picture(USUAL).show(np.full((70, 256), 77, np.uint8)) == 77).all()


@pytest.mark.parametrize("gray", [True, False])
def test_frame_stack_shifts_and_is_cleared(gray: bool) -> None:
    picture = Picture(USUAL._replace(frame_stack=3, grayscale=gray))

    def show(value: int) -> list[int]:
        seen = picture.show(np.full((224, 256) if gray else (224, 256, 3), value, np.uint8))
        assert seen.shape == picture.shape == (54, 52, 3 if gray else 9)
        return [int(layer) for layer in seen[0, 0, :: 1 if gray else 3]]

    assert [show(10), show(20), show(30), show(40)] == [[10, 10, 10], [10, 10, 20], [10, 20, 30], [20, 30, 40]]
    picture.clear()
    assert show(50) == [50, 50, 50]


@pytest.mark.parametrize(
    "settings",
    [{}, {"frame_stack": 2}, {"height": 103, "width": 256}, {"height": 103, "width": 256, "grayscale": False}],
)
def test_observations_do_not_share_memory(screen: np.ndarray, settings: dict) -> None:
    picture = Picture(USUAL._replace(**settings))
    screen = screen[..., 0] if picture.gray else screen
    first = picture.show(screen)
    kept = first.copy()
    second = picture.show(255 - screen)
    assert not np.shares_memory(first, second)
    assert not np.shares_memory(first, screen)
    assert np.array_equal(first, kept)
