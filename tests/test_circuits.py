"""Circuits as data, without an emulator: the file, the ground that comes of it, the checks, and random ones."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kartrl.circuits
from kartrl.circuits import art
from kartrl.circuits.block import KINDS, SIDE, TILE, ZONES, Block
from kartrl.circuits.checks import faults
from kartrl.circuits.field import field_of
from kartrl.circuits.format import Circuit, parse, read, written
from kartrl.circuits.generator import SHORTEST, random_circuit
from kartrl.circuits.ground import compile_circuit, compiled
from kartrl.circuits.line import line_of
from kartrl.circuits.looks import KINDS as LOOKS
from kartrl.circuits.paint import Painter
from kartrl.circuits.reduction import reduce
from kartrl.circuits.surfaces import CODES, SURFACES, Effect
from kartrl.errors import UserError
from kartrl.levels import CIRCUITS

FILES = {file.stem: file for file in sorted((Path(kartrl.circuits.__file__).parent / "bundled").glob("*.toml"))}
OVAL = """
title = "OVAL"
kind = "asphalt"
points = [[150, 512, 80], [160, 300, 80], [300, 150, 80], [512, 130, 80], [724, 150, 80], [864, 300, 80],
          [874, 512, 80], [864, 724, 80], [724, 874, 80], [512, 894, 80], [300, 874, 80], [160, 724, 80]]
"""


def grey(colours: np.ndarray) -> np.ndarray:
    """Luminance, as the observation has it, of colours [..., 3]."""
    return colours @ np.array([0.299, 0.587, 0.114])


def changed(**values: object) -> Circuit:
    return Circuit.model_validate(parse(OVAL, "OVAL").model_dump(by_alias=True) | values)


def test_the_twenty_circuits_are_there_and_can_be_driven() -> None:
    assert tuple(sorted(FILES)) == tuple(sorted(CIRCUITS))
    circuits = {name: read(file) for name, file in FILES.items()}
    for name, circuit in circuits.items():
        assert faults(circuit) == [], name
    assert {circuit.kind for circuit in circuits.values()} == set(KINDS)
    assert len({circuit.title for circuit in circuits.values()}) == 20
    lengths = [line_of(circuit).length for circuit in circuits.values()]
    assert min(lengths) > 2500
    assert max(lengths) < 6000


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("titel = 3", "unknown key titel"),
        ("scenery = 2", "scenery: Input should be less than or equal to 1"),
        ('title = "lower case"', "title must be 1 to 14 capitals, figures and spaces"),
        ('kind = "lava"', "kind: Input should be 'asphalt', 'dirt'"),
        ("points = [[1, 2, 80]]", "points: Tuple should have at least 4 items"),
        ("points = [[1, 2], [3, 4], [5, 6], [7, 8]]", "points.0.2 is missing"),
        ("coins = [{ at = 12 }]", "coins.0.at is 12, but the points are numbered 0 to 11"),
        ("rails = [{ from = 3, to = 20 }]", "rails.0 goes beyond the points"),
        ("boosts = [{ at = 1, across = 2 }]", "boosts.0.across: Input should be less than or equal to 1"),
        ('patches = [{ ground = "mud" }]', "patches.0: Value error, needs either at (and across) or x and y"),
        ("trees = [[1, nan]]", "trees.0.1: Input should be a finite number"),
        ("points =", "not a TOML file"),
        ("points = " + 2000 * "[", "not a TOML file"),
        ("points = [[99, 99, 80], [99, 99, 80], [5, 6, 80], [7, 8, 80]]", "points 0 and 1 are less than 16 pixels apart"),
        ("walls = [[-1, 2, 3, 4]]", "walls.0.0: Input should be greater than or equal to 0"),
    ],
)
def test_a_wrong_file_is_named_with_its_key(tmp_path: Path, line: str, message: str) -> None:
    file = tmp_path / "mine.toml"
    key = line.partition(" ")[0]
    file.write_text(line + "\n" + re.sub(rf"^{key} = (\[\[[^$]*|.*$)", "", OVAL, flags=re.M))
    with pytest.raises(UserError) as caught:
        read(file)
    assert str(caught.value).startswith(f"{file}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_or_binary_file_is_said_to_be_one(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.toml: cannot be read"):
        read(tmp_path / "none.toml")
    (tmp_path / "odd.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match=r"odd\.toml: cannot be read"):
        read(tmp_path / "odd.toml")


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"points": [(x * 0.5, y * 0.5, w) for x, y, w in parse(OVAL, "").points]}, "the lap is 1[0-9]{3} pixels long"),
        ({"points": [(x, y, 48) for x, y, _ in parse(OVAL, "").points]}, r"too narrow near point .* 48 pixels, and asphalt needs 56"),
        ({"points": [(x - 90, y, w) for x, y, w in parse(OVAL, "").points]}, r"the road leaves the map near point"),
        (
            {"points": [*parse(OVAL, "").points[:6], (240, 560, 80), *parse(OVAL, "").points[6:]]},
            "the road comes within 20 pixels of itself",
        ),
        ({"points": [*parse(OVAL, "").points[:3], (512, 560, 80), *parse(OVAL, "").points[4:]]}, "the turn is too sharp near point 3"),
        ({"points": parse(OVAL, "").points[2:] + parse(OVAL, "").points[:2]}, "the road is not straight at point 0"),
        ({"corners": "right"}, "must go straight north, south, east or west"),
        ({"trees": [(140, 500)]}, "the tree at 140, 500 stands on the road"),
        ({"trees": [(1020, 500)]}, "the tree at 1020, 500 leaves the map"),
        ({"walls": [(100, 500, 300, 500)]}, "the wall 100, 500, 300, 500 stands on the road"),
        ({"walls": [(600, 500, 300, 500)]}, "must go from its upper left to its lower right"),
        ({"patches": [{"ground": "mud", "at": 3}]}, "asphalt has no patches of mud; there are: none"),
        ({"coins": [{"at": k, "count": 8} for k in range(1, 6)]}, "there are 40 coins; at most 32"),
        ({"coins": [{"at": 3, "count": 2}, {"at": 3, "count": 2}]}, "coin 1 of the row at 3 does not fit on the road"),
        ({"boosts": [{"at": 3}, {"at": 3}]}, "the boost plate at 3 does not fit on the road"),
        ({"kind": "planks", "trees": [(500, 500)]}, "planks has no trees"),
        ({"kind": "ice", "patches": [{"ground": "water", "at": 4, "size": 60}]}, "less than 30 pixels of the road are free near point 3"),
    ],
)
def test_what_makes_a_circuit_undrivable_is_told(values: dict, fault: str) -> None:
    assert faults(changed()) == []
    found = faults(changed(**values))
    assert any(re.search(fault, one) for one in found), found


def test_the_example_in_the_documentation_is_a_circuit() -> None:
    text = (Path(__file__).parents[1] / "docs" / "circuits.md").read_text()
    example = text.partition("```toml\n")[2].partition("```")[0]
    assert faults(parse(example, "circuits.md")) == []
    for kind in KINDS:
        assert f"| `{kind}` |" in text
    for key in Circuit.model_fields:
        assert f"| `{key}` |" in text


def test_no_two_of_the_twenty_have_one_layout() -> None:
    """Turning in 32 parts of the lap, from wherever it begins, either way round, and mirrored."""
    turning = {}
    for name, file in FILES.items():
        xy = line_of(read(file)).xy
        ahead = np.roll(xy, -1, 0) - xy
        angle = np.unwrap(np.arctan2(ahead[:, 1], ahead[:, 0]))
        lap = np.append(angle, angle[0] + 2 * np.pi * np.sign(angle[-1] - angle[0]))
        turning[name] = np.diff(lap[np.linspace(0, len(angle), 33).astype(int)])
    names = list(turning)
    for index, one in enumerate(names):
        for other in names[index + 1 :]:
            variants = (sign * np.roll(turning[other][::way], k) for sign in (1, -1) for way in (1, -1) for k in range(32))
            assert min(np.abs(turning[one] - variant).mean() for variant in variants) > 0.18, (one, other)


def test_a_circuit_survives_being_written_and_read() -> None:
    for name, file in FILES.items():
        circuit = read(file)
        assert parse(written(circuit), name) == circuit


@pytest.fixture(scope="module")
def blocks() -> dict[str, Block]:
    return {name: compile_circuit(file) for name, file in FILES.items()}


def test_blocks_are_the_same_each_time_and_survive_packing(blocks: dict[str, Block]) -> None:
    for name in ("BowserCastle.Act1", "KoopaBeach.Act2", "RainbowRoad.Act1"):
        packed = blocks[name].packed()
        assert compile_circuit(FILES[name]).packed() == packed
        assert Block.unpacked(packed).packed() == packed


def test_reduction_keeps_every_cells_surface(blocks: dict[str, Block]) -> None:
    for name, block in blocks.items():
        circuit = read(FILES[name])
        line = line_of(circuit)
        ground = Painter(circuit, LOOKS[circuit.kind], line, field_of(circuit, line)).ground()
        driven = block.surfaces[block.tilemap]
        coin = driven == CODES["coin"]
        assert coin.sum() == 4 * len(ground.coins)
        assert np.array_equal(driven[~coin], ground.surface[~coin])


def test_reduction_takes_the_nearest_tile_of_the_same_surface() -> None:
    random = np.random.default_rng(3)
    picture = random.integers(0, 4, (SIDE * TILE, SIDE * TILE), dtype=np.uint8)
    surface = random.integers(0, 3, (SIDE, SIDE), dtype=np.uint8)
    colours = random.integers(0, 32, (64, 3), dtype=np.uint8)
    tilemap, tiles, surfaces = reduce(picture, surface, colours)
    assert np.array_equal(surfaces[tilemap], surface)
    assert tilemap.min() >= 1
    shown = colours.astype(int)[tiles].reshape(256, -1)
    for row, column in random.integers(0, SIDE, (50, 2)):
        cell = colours.astype(int)[picture[row * TILE : row * TILE + TILE, column * TILE : column * TILE + TILE]].reshape(-1)
        away = ((shown - cell) ** 2).sum(1)
        away[(surfaces != surface[row, column]) | (np.arange(256) == 0)] = away.max() + 1
        assert away[tilemap[row, column]] == away.min()


def test_few_tiles_are_kept_as_they_are() -> None:
    picture = np.kron(np.arange(SIDE * SIDE).reshape(SIDE, SIDE) % 60, np.ones((TILE, TILE), int)).astype(np.uint8)
    tilemap, tiles, _ = reduce(
        picture,
        np.zeros((SIDE, SIDE), np.uint8),
        np.stack([np.arange(64) % 32, np.arange(64) // 32, np.arange(64) % 7], 1).astype(np.uint8),
    )
    assert np.array_equal(tiles[tilemap].transpose(0, 2, 1, 3).reshape(picture.shape), picture)


def test_gates_lie_on_the_road_and_in_their_own_section(blocks: dict[str, Block]) -> None:
    hazards = {CODES[s.name] for s in SURFACES if s.effect in (Effect.WALL, Effect.FALL, Effect.LAVA, Effect.WATER)}
    for name, block in blocks.items():
        assert 40 <= len(block.gates) <= 64
        assert block.sections.shape == (ZONES, ZONES)
        for section, (x, y, angle) in enumerate(block.gates):
            assert block.surfaces[block.tilemap[y // 8, x // 8]] not in hazards, (name, section)
            assert block.sections[y // 16, x // 16] == section, (name, section)
            x2, y2, _ = block.gates[(section + 1) % len(block.gates)]
            turn = (np.arctan2(x2 - x, y - y2) / (2 * np.pi) * 256 - angle + 128) % 256 - 128
            assert abs(turn) < 48, (name, section)


def test_coins_show_the_road_when_they_are_taken(blocks: dict[str, Block]) -> None:
    block = blocks["GhostValley.Act1"]
    assert block.coins
    for coin in block.coins:
        here = block.tilemap[coin.row : coin.row + 2, coin.column : coin.column + 2].reshape(-1)
        assert (block.surfaces[here] == CODES["coin"]).all()
        assert (block.surfaces[list(coin.plain)] == CODES["planks"]).all()
        gold = LOOKS["planks"]
        assert gold.road == "planks"
        assert not np.array_equal(block.tiles[here], block.tiles[list(coin.plain)])


def test_the_road_stands_out_in_greyscale(blocks: dict[str, Block]) -> None:
    """At the size of an agent's picture: the mean grey of road and off-road differ clearly, and more than either varies."""
    for name, block in blocks.items():
        small = grey(block.picture()).reshape(SIDE, TILE, SIDE, TILE).mean((1, 3))
        surface = block.surfaces[block.tilemap]
        kind = LOOKS[block.kind]
        road, off = small[surface == CODES[kind.road]], small[surface == CODES[kind.grounds[-1][1]]]
        assert abs(road.mean() - off.mean()) > 40, (name, road.mean(), off.mean())
        assert abs(road.mean() - off.mean()) > 1.5 * max(road.std(), off.std()), name


def test_each_kind_has_a_look_of_its_own(blocks: dict[str, Block]) -> None:
    colours = {}
    for block in blocks.values():
        surface = block.surfaces[block.tilemap].repeat(TILE, 0).repeat(TILE, 1)
        kind = LOOKS[block.kind]
        picture = block.picture()
        colours[block.kind] = [picture[surface == CODES[name]].mean(0) for name in (kind.road, kind.grounds[-1][1])]
    names = list(colours)
    for index, one in enumerate(names):
        for other in names[index + 1 :]:
            assert sum(np.abs(a - b).max() for a, b in zip(colours[one], colours[other], strict=True)) > 30, (one, other)
    assert len({tuple(LOOKS[kind].sky) for kind in KINDS}) == len(KINDS)


def test_drawn_edges_follow_the_distance() -> None:
    circuit = changed()
    line = line_of(circuit)
    field = field_of(circuit, line)
    drawn = field.drawn() / 512
    assert drawn.shape == (1024, 1024)
    for sample in range(0, len(line.xy), 17):
        (x, y), (ux, uy) = line.xy[sample], line.ahead(sample)
        for off in (30, 40, 50):
            here = drawn[int(y + off * ux), int(x - off * uy)]
            assert here == pytest.approx(off - 40, abs=2.5)


def test_boost_plates_point_where_the_road_goes() -> None:
    for dx, dy in ((1, 0), (0, 1), (-1, 0), (0, -1)):
        plate = art.chevrons(dx, dy)
        turned = np.rot90(art.chevrons(0, -1), {(0, -1): 0, (-1, 0): 1, (0, 1): 2, (1, 0): 3}[dx, dy])
        assert np.array_equal(plate, turned)


@settings(max_examples=16, deadline=None)
@given(seed=st.integers(0, 2**31), kind=st.sampled_from(KINDS))
def test_random_circuits_can_be_driven_and_repeat(seed: int, kind: str) -> None:
    circuit = random_circuit(seed, kind)
    assert circuit == random_circuit(seed, kind)
    assert circuit.kind == kind
    assert faults(circuit) == []
    assert line_of(circuit).length >= SHORTEST
    assert parse(written(circuit), "random") == circuit


PLACES = st.tuples(st.integers(0, 1023), st.integers(0, 1023), st.integers(32, 160))
ATS = st.floats(0, 3.99)


@settings(max_examples=24, deadline=None)
@given(
    points=st.lists(PLACES, min_size=4, max_size=12),
    kind=st.sampled_from(KINDS),
    corners=st.sampled_from(("round", "right")),
    coins=st.lists(st.fixed_dictionaries({"at": ATS, "across": st.floats(-1, 1), "count": st.integers(1, 8)}), max_size=4),
    boosts=st.lists(st.fixed_dictionaries({"at": ATS}), max_size=3),
    walls=st.lists(st.tuples(*4 * [st.integers(0, 1023)]), max_size=3),
)
def test_nonsense_is_told_and_can_be_drawn(**values: object) -> None:
    try:
        circuit = Circuit.model_validate({"title": "X", **values})
    except ValueError:
        return
    found = faults(circuit)
    assert all(len(one) < 160 and "\n" not in one for one in found)
    block = compiled(circuit)
    assert block.picture().shape == (1024, 1024, 3)
    if not found:
        assert block.packed()


def test_random_circuits_differ() -> None:
    seen = {written(random_circuit(seed, "ice")).partition("points")[2] for seed in range(6)}
    assert len(seen) == 6
    with pytest.raises(UserError, match="there is no kind 'grass' of circuits; there are: asphalt, dirt"):
        random_circuit(1, "grass")
