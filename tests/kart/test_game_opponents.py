"""Opponents on the real emulator: scripted karts, ghosts placed from outside, and the rank."""

import math

import numpy as np
import pytest
from karts import CIRCUITS, ONE_OF_EACH_KIND, block_of

from kartrl.errors import UserError
from kartrl.kart.circuits.appearance.surfaces import SURFACES
from kartrl.kart.console import KartConsole

pytest.importorskip("stable_retro", reason="no SNES emulator on this platform")

GHOSTS = 0x80
GROUND = slice(37, 108)  # rows of the picture


def idle(console: KartConsole, ticks: int) -> dict[str, int]:
    console.step(0, ticks)
    return console.race()


def place(console: KartConsole, number: int, x: float, y: float, angle: int = 0, progress: int = 0) -> None:
    """Put ghost `number`, from 1 on, there."""
    for name, value in (("x", round(x)), ("y", round(y)), ("angle", angle), ("progress", progress)):
        console.set_value(f"opponent{number}_{name}", value)


def before(console: KartConsole, ahead: float, right: float = 0.0) -> tuple[float, float]:
    """The position `ahead` and `right` pixels from the kart, in the camera's direction."""
    race = console.race()
    angle = race["camera_angle"] / 256 * math.tau
    return (
        race["x"] + ahead * math.sin(angle) + right * math.cos(angle),
        race["y"] - ahead * math.cos(angle) + right * math.sin(angle),
    )


def with_ghosts(console: KartConsole, places: list[tuple[float, float]], angle: int | None = None) -> np.ndarray:
    """The ground's image with ghosts at positions ahead and to the right of a kart at rest."""
    console.load("MarioCircuit.Act1")
    idle(console, 1)
    console.set_value("ticks", 0x80)
    console.set_value("opponents", GHOSTS | len(places))
    for number, (ahead, right) in enumerate(places, 1):
        place(console, number, *before(console, ahead, right), console.race()["kart_angle"] if angle is None else angle)
    console.ticks = 1  # the game stands, whatever step asks for
    console.step(0)
    return console.screen()[GROUND].astype(int)


def changed(one: np.ndarray, other: np.ndarray) -> tuple[int, int, int, int]:
    """Where two pictures differ: first and last row of the screen, first and last column."""
    rows, columns = np.nonzero((one != other).any(-1))
    return int(rows.min()) + GROUND.start, int(rows.max()) + GROUND.start, int(columns.min()), int(columns.max())


@pytest.mark.parametrize("circuit", ONE_OF_EACH_KIND)
def test_scripted_karts_complete_laps_on_the_road(console: KartConsole, circuit: str) -> None:
    block = block_of(circuit)
    console.load(circuit)
    console.set_opponents(3)
    progress, places = [], []
    for _ in range(500):
        race = idle(console, 5)
        progress.append([race[f"opponent{k}_progress"] for k in (1, 2, 3)])
        places.append([(race[f"opponent{k}_x"], race[f"opponent{k}_y"]) for k in (1, 2, 3)])
    steps = np.diff(np.array(progress), axis=0)
    assert steps.min() == 0
    assert steps.max() == 1
    assert min(progress[-1]) > len(block.gates), "a lap"
    assert progress[-1] != [progress[-1][0]] * 3, "each at its own speed"
    on_road = [SURFACES[block.surfaces[block.tilemap[y // 8, x // 8]]].top >= 512 for kart in places for x, y in kart]
    assert np.mean(on_road) > 0.9, "but for what lies in the middle of the road"
    moved = np.linalg.norm(np.diff(np.array(places), axis=0), axis=-1)
    assert moved.max() < 2 * 5 * 680 / 256, "smoothly"
    assert np.median(moved) == pytest.approx(5 * 600 / 256, rel=0.15)


def test_their_top_speed_can_be_set(console: KartConsole) -> None:
    driven = []
    for speed in (0, 170, 85, 190):
        console.load("MarioCircuit.Act1")
        console.set_opponents(1)
        console.set_value("opponent_speed", speed)
        idle(console, 900)
        driven.append(console.race()["opponent1_progress"])
    assert driven[0] == driven[1]
    assert 0.45 < driven[2] / driven[1] < 0.55
    assert driven[3] > driven[1]


def test_opponents_are_off_by_default(console: KartConsole) -> None:
    for circuit in CIRCUITS:
        console.load(circuit)
        race = idle(console, 30)
        assert (race["opponents"], race["rank"], race["opponent1_x"]) == (0, 0, 0)
    with pytest.raises(UserError, match="opponents"):
        console.set_opponents(8)


def test_opponents_can_be_removed(console: KartConsole) -> None:
    console.load("MarioCircuit.Act1")
    idle(console, 6)
    alone = console.screen()
    console.load("MarioCircuit.Act1")
    console.set_opponents(3)
    idle(console, 1)
    assert not np.array_equal(console.screen(), alone)
    console.set_opponents(0)
    race = idle(console, 5)
    assert race["rank"] == 0
    assert np.array_equal(console.screen(), alone)


def test_rank_counts_the_karts_ahead(console: KartConsole) -> None:
    console.load("MarioCircuit.Act1")
    console.set_value("opponents", GHOSTS | 3)
    for ahead, rank in (([9, 9, 9], 4), ([9, 0, 9], 3), ([0, 0, 1], 2), ([0, 0, 0], 1)):
        for number, progress in enumerate(ahead, 1):
            place(console, number, *before(console, -40), 0, progress)
        assert idle(console, 1)["rank"] == 2 * (rank - 1)
    for number, distance in enumerate((10, -10, 30), 1):  # all in the kart's own section
        place(console, number, *before(console, distance), 0, 0)
    assert idle(console, 1)["rank"] == 2 * 2


def test_ghosts_stay_where_they_are_put(console: KartConsole) -> None:
    console.load("MarioCircuit.Act1")
    console.set_value("opponents", GHOSTS | 2)
    place(console, 1, 300, 400, 0x1234, 7)
    place(console, 2, 500, 600, 0xFEDC, 3)
    race = idle(console, 200)
    assert [race[f"opponent1_{name}"] for name in ("x", "y", "angle", "progress")] == [300, 400, 0x1234, 7]
    assert [race[f"opponent2_{name}"] for name in ("x", "y", "angle", "progress")] == [500, 600, 0xFEDC, 3]


@pytest.mark.parametrize(
    ("ahead", "right"), [(20, 0), (20, 40), (40, -50), (100, 0), (100, 60), (300, 150), (500, 100)]
)
def test_kart_is_drawn_at_its_position_on_the_ground(console: KartConsole, ahead: float, right: float) -> None:
    """The screen's line of a depth is 32 + 4080 / depth, a pixel is 120 / depth wide there; the kart's depth is 60."""
    depth = 60 + ahead
    line, middle = 32 + 4080 / depth, 128 + 120 * right / depth
    nothing = with_ghosts(console, [(-300, 0)])
    _, bottom, first, last = changed(nothing, with_ghosts(console, [(ahead, right)]))
    assert bottom == pytest.approx(line, abs=4)
    assert (first + last) / 2 == pytest.approx(middle, abs=4)
    assert last - first == pytest.approx(26 * 60 / depth, rel=0.3, abs=3)


def test_kart_out_of_view_is_not_drawn(console: KartConsole) -> None:
    nothing = with_ghosts(console, [])
    for ahead, right in ((-20, 0), (-300, 40), (10, 200), (100, 400)):
        assert np.array_equal(nothing, with_ghosts(console, [(ahead, right)])), (ahead, right)


def test_nearer_karts_cover_farther_ones(console: KartConsole) -> None:
    """Whichever number they have; and the nearest one covers the driver's own kart."""
    near, far = (30, 0), (55, 4)
    one, other = with_ghosts(console, [near, far]), with_ghosts(console, [far, near])
    alone = with_ghosts(console, [near])
    shape = (alone != with_ghosts(console, [])).any(-1)
    for picture, number in ((one, 0), (other, 1)):
        expected = with_ghosts(console, [near] if number == 0 else [(-300, 0), near])
        assert np.array_equal(picture[shape], expected[shape])
    assert (one != alone).any(), "the farther one shows beside it"
    own = with_ghosts(console, [(-4, 0)])
    assert (own[100 - 37 - 20 : 100 - 37, 112:144] != with_ghosts(console, [])[100 - 37 - 20 : 100 - 37, 112:144]).any(
        -1
    ).mean() > 0.1


def test_karts_are_seen_from_all_sides(console: KartConsole) -> None:
    pictures = {with_ghosts(console, [(20, 0)], angle=eighth * 8192).tobytes() for eighth in range(8)}
    assert len(pictures) == 8
