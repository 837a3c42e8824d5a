"""Circuits as data, without an emulator: the file format, the compiled ground, the checks, and random circuits."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kartrl.kart.circuits
from kartrl.errors import UserError
from kartrl.kart.block import SIDE, TILE, ZONES, Block
from kartrl.kart.circuits.appearance import art
from kartrl.kart.circuits.appearance.kinds import KINDS as LOOKS
from kartrl.kart.circuits.appearance.paint import Painter
from kartrl.kart.circuits.appearance.surfaces import CODES, SURFACES, Effect
from kartrl.kart.circuits.checks import find_faults
from kartrl.kart.circuits.field import field_of
from kartrl.kart.circuits.format import Circuit, parse, read, to_toml
from kartrl.kart.circuits.generator import SHORTEST, random_circuit
from kartrl.kart.circuits.ground import compile_circuit
from kartrl.kart.circuits.line import line_of
from kartrl.kart.circuits.reduction import reduce
from kartrl.kart.levels import CIRCUITS, KINDS

FILES = {file.stem: file for file in sorted((Path(kartrl.kart.circuits.__file__).parent / "bundled").glob("*.toml"))}
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


def test_twenty_bundled_circuits_pass_the_checks() -> None:
    assert tuple(sorted(FILES)) == tuple(sorted(CIRCUITS))
    circuits = {name: read(file) for name, file in FILES.items()}
    for name, circuit in circuits.items():
        assert find_faults(circuit) == [], name
    assert {circuit.kind for circuit in circuits.values()} == set(KINDS)
    assert len({circuit.title for circuit in circuits.values()}) == 20
    lengths = [line_of(circuit).length for circuit in circuits.values()]
    assert min(lengths) > 2500
    assert max(lengths) < 6000


def test_documented_example_is_valid() -> None:
    text = (Path(__file__).parents[2] / "docs" / "reference" / "circuit-files.md").read_text()
    example = text.partition("```toml\n")[2].partition("```")[0]
    assert find_faults(parse(example, "circuit-files.md")) == []
    for kind in KINDS:
        assert f"| `{kind}` |" in text
    for key in Circuit.model_fields:
        assert f"| `{key}` |" in text


def test_bundled_circuits_have_different_layouts() -> None:
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
            variants = (
                sign * np.roll(turning[other][::way], k) for sign in (1, -1) for way in (1, -1) for k in range(32)
            )
            assert min(np.abs(turning[one] - variant).mean() for variant in variants) > 0.18, (one, other)


def test_circuit_survives_a_round_trip_through_toml() -> None:
    for name, file in FILES.items():
        circuit = read(file)
        assert parse(to_toml(circuit), name) == circuit


def test_blocks_are_deterministic_and_survive_a_round_trip(blocks: dict[str, Block]) -> None:
    for name in ("BowserCastle.Act1", "KoopaBeach.Act2", "RainbowRoad.Act1"):
        packed = blocks[name].pack()
        assert compile_circuit(FILES[name]).pack() == packed
        assert Block.unpack(packed).pack() == packed


def test_reduction_preserves_the_surface_of_every_cell(blocks: dict[str, Block]) -> None:
    for name, block in blocks.items():
        circuit = read(FILES[name])
        line = line_of(circuit)
        ground = Painter(circuit, LOOKS[circuit.kind], line, field_of(circuit, line)).ground()
        driven = block.surfaces[block.tilemap]
        coin = driven == CODES["coin"]
        assert coin.sum() == 4 * len(ground.coins)
        assert np.array_equal(driven[~coin], ground.surface[~coin])


def test_reduction_takes_nearest_tile_with_the_same_surface() -> None:
    random = np.random.default_rng(3)
    picture = random.integers(0, 4, (SIDE * TILE, SIDE * TILE), dtype=np.uint8)
    surface = random.integers(0, 3, (SIDE, SIDE), dtype=np.uint8)
    colours = random.integers(0, 32, (64, 3), dtype=np.uint8)
    tilemap, tiles, surfaces = reduce(picture, surface, colours)
    assert np.array_equal(surfaces[tilemap], surface)
    assert tilemap.min() >= 1
    shown = colours.astype(int)[tiles].reshape(256, -1)
    for row, column in random.integers(0, SIDE, (50, 2)):
        cell = colours.astype(int)[
            picture[row * TILE : row * TILE + TILE, column * TILE : column * TILE + TILE]
        ].reshape(-1)
        away = ((shown - cell) ** 2).sum(1)
        away[(surfaces != surface[row, column]) | (np.arange(256) == 0)] = away.max() + 1
        assert away[tilemap[row, column]] == away.min()


def test_reduction_of_few_tiles_is_lossless() -> None:
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


def test_road_contrasts_with_off_road_in_greyscale(blocks: dict[str, Block]) -> None:
    """At an agent's resolution the mean greys of road and off-road differ clearly, and by more than either varies."""
    for name, block in blocks.items():
        small = grey(block.image()).reshape(SIDE, TILE, SIDE, TILE).mean((1, 3))
        surface = block.surfaces[block.tilemap]
        kind = LOOKS[block.kind]
        road, off = small[surface == CODES[kind.road]], small[surface == CODES[kind.grounds[-1].surface]]
        assert abs(road.mean() - off.mean()) > 40, (name, road.mean(), off.mean())
        assert abs(road.mean() - off.mean()) > 1.5 * max(road.std(), off.std()), name


def test_kinds_differ_in_colour(blocks: dict[str, Block]) -> None:
    colours = {}
    for block in blocks.values():
        surface = block.surfaces[block.tilemap].repeat(TILE, 0).repeat(TILE, 1)
        kind = LOOKS[block.kind]
        picture = block.image()
        colours[block.kind] = [
            picture[surface == CODES[name]].mean(0) for name in (kind.road, kind.grounds[-1].surface)
        ]
    names = list(colours)
    for index, one in enumerate(names):
        for other in names[index + 1 :]:
            assert sum(np.abs(a - b).max() for a, b in zip(colours[one], colours[other], strict=True)) > 30, (
                one,
                other,
            )
    assert len({tuple(LOOKS[kind].sky) for kind in KINDS}) == len(KINDS)


def test_drawn_edges_follow_the_distance_field() -> None:
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


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 2**31), kind=st.sampled_from(KINDS))
def test_random_circuits_pass_the_checks(seed: int, kind: str) -> None:
    circuit = random_circuit(seed, kind)
    assert circuit.kind == kind
    assert find_faults(circuit) == []
    assert line_of(circuit).length >= SHORTEST
    assert parse(to_toml(circuit), "random") == circuit


@pytest.mark.parametrize(("seed", "kind"), [(0, "asphalt"), (2**31, "ice")])
def test_random_circuits_are_deterministic(seed: int, kind: str) -> None:
    assert random_circuit(seed, kind) == random_circuit(seed, kind)


def test_random_circuits_differ() -> None:
    seen = {to_toml(random_circuit(seed, "ice")).partition("points")[2] for seed in range(3)}
    assert len(seen) == 3
    with pytest.raises(UserError, match="unknown kind of circuit 'grass'; choose one of: asphalt, dirt"):
        random_circuit(1, "grass")


def test_a_circuit_file_may_begin_with_a_byte_order_mark(tmp_path):
    file = next(iter(FILES.values()))
    (tmp_path / "marked.toml").write_bytes(file.read_text().encode("utf-8-sig"))
    assert read(tmp_path / "marked.toml") == read(file)
