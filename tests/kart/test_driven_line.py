"""Plots of driven lines."""

import numpy as np
import pytest

from kartrl.kart.circuits.driven_line import Line, driven_lines

GREEN = np.full((1024, 1024, 3), (0, 160, 0), np.uint8)


def line(left, right, y, finished):
    x = np.linspace(left, right, 200, dtype=np.float32)
    return Line(x, np.full_like(x, y), np.linspace(0, 1000, 200, dtype=np.float32), finished)


def side_of_map(picture):
    """Left, top and side of the map in the picture: the block where green leads."""
    green = picture[..., 1].astype(int) - picture[..., 0] > 30
    rows, columns = np.flatnonzero(green.mean(1) > 0.5), np.flatnonzero(green.mean(0) > 0.5)
    return columns[0], rows[0], columns[-1] - columns[0] + 1


def test_lines_are_drawn_at_their_positions_coloured_by_speed():
    empty = driven_lines(GREEN, [], "nothing driven")
    picture = driven_lines(GREEN, [line(256, 768, 512, True)], "one line")
    assert picture.shape == empty.shape
    assert picture.dtype == np.uint8
    left, top, side = side_of_map(empty)
    changed = np.abs(picture.astype(int) - empty).sum(2) > 60
    inside = changed[top + 5 : top + side - 5, left + 5 : left + side - 5]
    rows, columns = np.flatnonzero(inside.any(1)), np.flatnonzero(inside.any(0))
    assert (rows.mean() + 5) / side == pytest.approx(0.5, abs=0.02)
    assert (columns[0] + 5) / side == pytest.approx(0.25, abs=0.03)
    assert (columns[-1] + 5) / side == pytest.approx(0.75, abs=0.03)
    middle = top + side // 2
    slow, fast = (
        picture[middle, left + round(0.35 * side)].astype(int),
        picture[middle, left + round(0.7 * side)].astype(int),
    )
    assert slow[2] > slow[1], "violet"
    assert fast[0] > fast[2], "yellow"


def test_finished_and_unfinished_drives_are_marked_differently():
    finished, stopped = (
        driven_lines(GREEN, [line(256, 768, 512, end)], "a title\nof two lines", inches=5) for end in (True, False)
    )
    assert finished.shape == stopped.shape
    assert (finished != stopped).any()


@pytest.mark.parametrize("lines", [[], [Line(*np.zeros((3, 0), np.float32), False)], [line(0, 1, 5, False)]])
def test_little_or_nothing_to_draw(lines):
    assert driven_lines(None, lines, "short").shape[2] == 3
