"""Effects of surfaces on a kart on the real emulator: a circuit with parts of the road replaced."""

import itertools
import math
import struct

import numpy as np
import pytest
from karts import block_of

from kartrl.kart.block import Block, Coin
from kartrl.kart.circuits.appearance.surfaces import CODES, SURFACES, Effect, Surface
from kartrl.kart.circuits.states import start_state
from kartrl.kart.console import RAM, KartConsole

pytest.importorskip("stable_retro", reason="no SNES emulator on this platform")

CIRCUIT = "MarioCircuit.Act2"  # begins with a long straight to the east
ASPHALT = SURFACES[0]
PLACE, COINS = 0x58, 0x52  # in the console's memory; x and y in 1/64 pixel
FALLING, CARRIED = 20, 40  # ticks
PLAIN = [surface for surface in SURFACES if surface.effect == Effect.NONE]


def bare() -> Block:
    """The circuit without coins, boosts and jumps."""
    block = block_of(CIRCUIT)
    extras = [CODES["coin"], CODES["boost"], CODES["jump"]]
    return block._replace(
        surfaces=np.where(np.isin(block.surfaces, extras), CODES["asphalt"], block.surfaces).astype(np.uint8), coins=()
    )


def all_of(name: str) -> Block:
    """The circuit with a road of this surface."""
    block = bare()
    return block._replace(
        surfaces=np.where(block.surfaces == CODES["asphalt"], CODES[name], block.surfaces).astype(np.uint8)
    )


def crossed_by(name: str, first: int = 9, columns: int = 3, block: Block | None = None) -> Block:
    """The circuit with a strip of this surface across its first straight, `first` tiles after its start."""
    block = block or bare()
    tile = int(np.argmin(np.bincount(block.tilemap.reshape(-1), minlength=256)))  # hardly used elsewhere
    surfaces, tilemap = block.surfaces.copy(), block.tilemap.copy()
    surfaces[tile] = CODES[name]
    x, y, _ = block.gates[0]
    tilemap[y // 8 - 7 : y // 8 + 8, x // 8 + first : x // 8 + first + columns] = tile
    return block._replace(surfaces=surfaces, tilemap=tilemap)


def hold(console: KartConsole, names: list[str], ticks: int) -> list[dict[str, int]]:
    """The race state after each tick."""
    seen = []
    for _ in range(ticks):
        console.step(console.buttons(names))
        seen.append(console.race())
    return seen


def round_the_course(console: KartConsole, block: Block, ticks: int) -> list[dict[str, int]]:
    seen = [console.race()]
    for _ in range(ticks // 5):
        race = seen[-1]
        x, y, _ = block.gates[(race["checkpoint"] + 2) % len(block.gates)]
        wanted = math.atan2(x - race["x"], race["y"] - y) / math.tau * 256
        error = (wanted - race["camera_angle"] - 4 * race["angle_velocity"] + 128) % 256 - 128
        console.step(console.buttons(["B", *(["LEFT"] if error < -3 else ["RIGHT"] if error > 3 else [])]), 5)
        seen.append(console.race())
    return seen[1:]


@pytest.mark.parametrize("surface", PLAIN, ids=[surface.name for surface in PLAIN])
def test_each_surface_has_its_top_speed_and_number(console: KartConsole, surface: Surface) -> None:
    block = all_of(surface.name)
    start_state(console, block)
    seen = round_the_course(console, block, 900)
    on_it = [race["speed"] for race in seen if race["ground_type"] == surface.ground_type]
    assert len(on_it) > 0.8 * len(seen)
    assert surface.top - 12 <= max(on_it) <= surface.top


@pytest.mark.parametrize(
    "surface", [surface for surface in PLAIN if surface.drag > 4], ids=lambda surface: surface.name
)
def test_soft_ground_brakes_by_its_drag(console: KartConsole, surface: Surface) -> None:
    start_state(console, crossed_by(surface.name, 25, 8))
    seen = hold(console, ["B"], 150)
    slowing = [
        before["speed"] - after["speed"]
        for before, after in itertools.pairwise(seen)
        if before["ground_type"] == after["ground_type"] == surface.ground_type and after["speed"] > surface.top
    ]
    assert set(slowing) == {surface.drag}


def test_ice_has_little_grip(console: KartConsole) -> None:
    """In the same bend the way it moves lags behind the way it points, more so on ice."""
    lag = {}
    for name in ("asphalt", "ice"):
        start_state(console, all_of(name))
        hold(console, ["B"], 60)
        race = hold(console, ["B", "RIGHT"], 30)[-1]
        moves = math.atan2(race["speed_x"], -race["speed_y"]) / math.tau * 65536
        lag[name] = (race["kart_angle"] - moves) % 65536
    assert 0 < lag["asphalt"] < 3000
    assert lag["ice"] > 1.5 * lag["asphalt"]


@pytest.mark.parametrize(("name", "status"), [("void", 4), ("lava", 6), ("water", 8)])
def test_fallen_kart_is_put_back_and_loses_coins(console: KartConsole, name: str, status: int) -> None:
    block = crossed_by(name)
    start_state(console, block)
    console.write(RAM + COINS, struct.pack("<H", 5))
    seen = hold(console, ["B"], 160)
    fell = next(tick for tick, race in enumerate(seen) if race["ground_status"] == status)
    end = fell + FALLING + CARRIED
    assert seen[fell]["coins"] == 3
    assert seen[fell]["ground_type"] == SURFACES[CODES[name]].ground_type
    assert {race["ground_status"] for race in seen[:fell]} == {0}
    assert {race["ground_status"] for race in seen[fell:end]} == {status}
    assert {race["speed"] for race in seen[fell:end]} == {0}
    assert {race["lakitu"] for race in seen[fell : fell + FALLING - 1]} == {0}
    assert {race["lakitu"] for race in seen[fell + FALLING : end]} == {4}
    back = seen[end]
    assert (back["ground_status"], back["lakitu"], back["lap"]) == (0, 0, 128)
    x, y, angle = block.gates[seen[fell]["checkpoint"]]
    assert (back["x"], back["y"], back["camera_angle"], back["checkpoint"]) == (x, y, angle, seen[fell]["checkpoint"])
    assert seen[end + 20]["speed"] > 150, "and on it drives"


def test_fall_without_coins_keeps_the_count_at_zero(console: KartConsole) -> None:
    start_state(console, crossed_by("void"))
    assert {race["coins"] for race in hold(console, ["B"], 80)} == {0}


def test_boost_is_fast_for_a_limited_time(console: KartConsole) -> None:
    start_state(console, crossed_by("boost"))
    seen = hold(console, ["B"], 130)
    boosted = [race for race in seen if race["out_of_control"]]
    assert {race["ground_type"] for race in seen} >= {SURFACES[CODES["boost"]].ground_type}
    assert {race["out_of_control"] for race in boosted} <= set(range(12, 29))
    assert 55 <= len(boosted) <= 80
    assert max(race["speed"] for race in boosted) == 1000
    assert seen[-1]["out_of_control"] == 0
    assert seen[-1]["speed"] < 1000


def test_jump_plate_lifts_the_kart(console: KartConsole) -> None:
    start_state(console, bare())
    hopped = max(race["hop"] for race in hold(console, ["B"], 60)[-1:] + hold(console, ["B", "L"], 30))
    start_state(console, crossed_by("jump", 12, 2))
    seen = hold(console, ["B"], 120)
    flying = [race for race in seen if race["ground_status"] == 2]
    assert max(race["hop"] for race in flying) > 2 * hopped
    assert 20 <= len(flying) <= 26
    assert (seen[-1]["ground_status"], seen[-1]["hop"]) == (0, 0)


@pytest.mark.parametrize("name", ["void", "mud", "boost"])
def test_kart_in_the_air_ignores_the_ground(console: KartConsole, name: str) -> None:
    """A jump plate, and right after it a strip that is shorter than the jump."""
    strip = crossed_by(name, 22, 3)
    start_state(console, strip)
    grounded = hold(console, ["B"], 130)
    start_state(console, crossed_by("jump", 20, 2, strip))
    flown = hold(console, ["B"], 130)
    number = SURFACES[CODES[name]].ground_type
    assert number in {race["ground_type"] for race in grounded}
    assert number not in {race["ground_type"] for race in flown}
    assert not any(race["out_of_control"] or race["lakitu"] for race in flown)
    assert flown[-1]["x"] > bare().gates[0][0] + 200


def test_walls_stop_karts_in_the_air(console: KartConsole) -> None:
    start_state(console, crossed_by("wall", 22, 3))
    hold(console, ["B"], 95)
    seen = hold(console, ["B", "L"], 40)
    hit = next(race for race in seen if race["collision"])
    assert (hit["collision"], hit["ground_status"]) == (7, 2)


def with_coins() -> tuple[Block, tuple[int, int, int, int]]:
    """Four coins on the way, and the tiles under one."""
    block = bare()
    x, y, _ = block.gates[0]
    tile = int(np.argmin(np.bincount(block.tilemap.reshape(-1), minlength=256)))
    tilemap, surfaces, coins = block.tilemap.copy(), block.surfaces.copy(), []
    surfaces[tile] = CODES["coin"]
    road = int(block.tilemap[y // 8, x // 8 + 5])
    for column in range(x // 8 + 6, x // 8 + 18, 3):
        tilemap[y // 8 - 1 : y // 8 + 1, column : column + 2] = tile
        coins.append(Coin(column, y // 8 - 1, (road, road, road, road)))
    return block._replace(tilemap=tilemap, surfaces=surfaces, coins=tuple(coins)), (road,) * 4


def test_coins_are_collected_raise_the_top_speed_and_return(console: KartConsole) -> None:
    block, plain = with_coins()
    start_state(console, block)
    seen = hold(console, ["B"], 136)
    counts = [race["coins"] for race in seen]
    assert sorted(set(counts)) == [0, 1, 2, 3, 4]
    assert counts == sorted(counts)
    assert max(race["speed"] for race in seen) == ASPHALT.top + 4 * 8
    after = console.block()
    assert after is not None
    for coin in block.coins:
        found = after.tilemap[coin.row : coin.row + 2, coin.column : coin.column + 2]
        assert tuple(found.reshape(-1)) == plain
    console.start_at(0)
    race = hold(console, [], 1)[0]
    assert race["coins"] == 0
    again = console.block()
    assert again is not None
    assert np.array_equal(again.tilemap, block.tilemap)
    assert hold(console, ["B"], 60)[-1]["coins"] > 0


def test_collected_coins_disappear_from_the_screen(console: KartConsole) -> None:
    """Back at the start, the picture shows the road where the coins were; in a new race they are there again."""
    block, _ = with_coins()
    start_state(console, block)
    x, y, _ = block.gates[0]

    def road() -> np.ndarray:
        return console.screen()[40:67]  # above the kart

    console.step(0)
    fresh = road()
    hold(console, ["B"], 120)
    hold(console, ["Y"], 60)  # it rolls back slowly, and from here it stays on the pixel
    console.write(RAM + PLACE, struct.pack("<HH", 64 * x + 48, 64 * y + 32))
    console.step(console.buttons(["Y"]))
    assert (console.race()["x"], console.race()["y"]) == (x, y)
    taken = road()
    console.start_at(0)
    console.step(0)
    assert (taken != fresh).any(-1).sum() > 20
    assert np.array_equal(road(), fresh)
