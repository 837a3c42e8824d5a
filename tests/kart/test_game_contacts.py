"""Karts that touch, on the real emulator: pushed apart, speed exchanged, no wall entered, no pair stuck."""

import hashlib
import math
import struct

import numpy as np
import pytest
from karts import CIRCUITS, FOLDER, block_of

from kartrl.kart.circuits.appearance.surfaces import SURFACES, Effect
from kartrl.kart.console import RAM, KartConsole

pytest.importorskip("stable_retro", reason="no SNES emulator on this platform")

MOST = 7
PLACE, VELOCITY = 0x58, 0x28  # in the console's memory: x and y, 1/64 pixel; signed speed, 1/256 pixel per tick
OTHER_PLACE, OTHER_STEP, OTHER_COINS = 0x640, 0x602, 0x682  # of the first opponent; the next ones are 8 bytes on
SOLID = (Effect.WALL, Effect.FALL, Effect.LAVA, Effect.WATER)
# what the ROM without contacts gave: all states and the parts of the screens that a race shows, of `lonely_drive`
ALONE = {
    "MarioCircuit.Act1": "0507b4e642ff64d260733e4350f8eac5cef4708b32ae711ef534528e1a91f263",
    "GhostValley.Act1": "57c88dc9687ed7a460d79e780a24fdfc2d0697dee8380e9eb31a431e53a28be9",
    "KoopaBeach.Act1": "6169406fb144511262fe0bffe9342805a7fe0301748990db5256d6bed6c1f26f",
}  # fmt: skip


def started(console: KartConsole, opponents: int, circuit: str = "MarioCircuit.Act1", ticks: int = 120) -> None:
    """A race in which the opponents have driven off; the kart stands."""
    console.load(circuit)
    console.set_opponents(opponents)
    console.step(0, ticks)


def put(console: KartConsole, number: int, x: int, y: int) -> None:
    """Have opponent `number`, from 1 on, at this pixel now."""
    console.write(RAM + OTHER_PLACE + 8 * (number - 1), struct.pack("<HH", 64 * x, 64 * y))


def place_kart(console: KartConsole, x: float, y: float, speed: int = 0) -> None:
    console.write(RAM + PLACE, struct.pack("<HH", round(64 * x), round(64 * y)))
    console.write(RAM + VELOCITY, struct.pack("<h", speed))


def word(console: KartConsole, address: int) -> int:
    return int.from_bytes(bytes(memoryview(console.opened().ram).cast("B")[address : address + 2]), "little")


def beside(race: dict[str, int], ahead: float, right: float = 0.0) -> tuple[float, float]:
    """The position `ahead` and `right` pixels from the first opponent, in its direction."""
    angle = race["opponent1_angle"] / 65536 * math.tau
    return (
        race["opponent1_x"] + ahead * math.sin(angle) + right * math.cos(angle),
        race["opponent1_y"] - ahead * math.cos(angle) + right * math.sin(angle),
    )


def places_of(race: dict[str, int]) -> list[tuple[int, int]]:
    """Of all seven opponents."""
    return [(race[f"opponent{k}_x"], race[f"opponent{k}_y"]) for k in range(1, MOST + 1)]


def distance(race: dict[str, int], number: int = 1) -> float:
    return math.hypot(race[f"opponent{number}_x"] - race["x"], race[f"opponent{number}_y"] - race["y"])


def effect_at(circuit: str, x: int, y: int) -> Effect:
    block = block_of(circuit)
    return SURFACES[block.surfaces[block.tilemap[y // 8, x // 8]]].effect


def lonely_drive(console: KartConsole, circuit: str) -> str:
    """A random drive without opponents: the hash of its states, but for those of opponents, and of its screens."""
    random, seen = np.random.default_rng(5), hashlib.sha256()
    pads = [console.buttons(names) for names in ([], ["LEFT", "B"], ["RIGHT", "B"], ["LEFT", "B", "L"], ["B"])]
    console.load(circuit)
    for step, action in enumerate(random.choice(len(pads), 200, p=[0.04, 0.28, 0.28, 0.1, 0.3])):
        if step % 50 == 49:
            console.start_at(step // 10)
        console.step(pads[action], 5)
        race = sorted((name, value) for name, value in console.race().items() if name in ALONE_NAMES)
        seen.update(repr(race).encode() + console.screen().tobytes())
    return seen.hexdigest()


ALONE_NAMES = (
    "x", "y", "camera_angle", "speed_x", "speed_y", "speed", "kart_angle", "angle_velocity", "hop", "lap", "lap_max",
    "checkpoint", "milliseconds", "seconds", "minutes", "collision", "ground_type", "ground_status", "out_of_control",
    "lakitu", "coins", "rank", "driven", "tick", "best_lap", "last_lap",
)  # fmt: skip


@pytest.mark.parametrize("circuit", ALONE)
def test_race_alone_is_unchanged_by_contacts(console: KartConsole, circuit: str) -> None:
    assert lonely_drive(console, circuit) == ALONE[circuit]


def test_rear_collision_transfers_speed_forward(console: KartConsole) -> None:
    started(console, 1)
    race = console.race()
    place_kart(console, *beside(race, -18), speed=0)
    console.write(RAM + 0x2E, struct.pack("<H", race["opponent1_angle"]))  # moving its way
    steps, speeds = [], []
    for _ in range(60):
        place = struct.unpack("<HH", bytes(memoryview(console.opened().ram).cast("B")[PLACE : PLACE + 4]))
        place_kart(console, place[0] / 64, place[1] / 64, speed=950)
        before = word(console, OTHER_STEP)
        console.step(console.buttons(["B"]))
        if console.race()["touched"]:
            steps.append((before, word(console, OTHER_STEP)))
            speeds.append(console.race()["speed"])
            break
    assert steps, "it was hit"
    assert steps[0][1] > 1.05 * steps[0][0], "pushed on"
    assert speeds[0] < 900, "and the kart is slowed"


def test_a_harder_hit_slows_more(console: KartConsole) -> None:
    lost = []
    for speed in (760, 860, 960):
        started(console, 1)
        race = console.race()
        place_kart(console, *beside(race, -12), speed=speed)
        for address in (0x2C, 0x2E):  # it points and moves the opponent's way
            console.write(RAM + address, struct.pack("<H", race["opponent1_angle"]))
        console.step(console.buttons(["B"]))
        race = console.race()
        assert race["touched"] == 7
        lost.append(speed - race["speed"])
    assert 0 < lost[0] < lost[1] < lost[2]


def test_a_standing_kart_is_bumped_on_and_passed(console: KartConsole) -> None:
    """By all of seven, of whom none waits behind it for ever, and the kart ends up in no wall."""
    started(console, MOST, ticks=240)
    race = console.race()
    gates = block_of("MarioCircuit.Act1").gates
    x, y, _ = gates[(race["opponent1_progress"] + 4) % len(gates)]
    place_kart(console, x, y)
    start, touched = (x, y), 0
    for _ in range(900):
        console.step(0)
        race = console.race()
        touched += race["touched"] == 7
        assert effect_at("MarioCircuit.Act1", race["x"], race["y"]) is not Effect.WALL
    assert touched > 3
    assert math.hypot(race["x"] - start[0], race["y"] - start[1]) > 10, "pushed"
    assert min(race[f"opponent{k}_progress"] for k in range(1, MOST + 1)) > 35, "all have passed"


@pytest.mark.parametrize("circuit", ["BowserCastle.Act1", "RainbowRoad.Act1", "KoopaBeach.Act1"])
def test_seven_among_walls_and_above_the_void(console: KartConsole, circuit: str) -> None:
    """A kart driven through them: no pair stays in one place or inside each other, and nobody is pushed into a wall."""
    console.load(circuit)
    console.set_opponents(MOST)
    gates, inside, touched = block_of(circuit).gates, np.zeros(MOST), 0
    walls = 0
    for _ in range(1200):
        race = console.race()
        x, y, _ = gates[(race["checkpoint"] + 2) % len(gates)]
        wanted = math.atan2(x - race["x"], race["y"] - y) / math.tau * 256
        error = (wanted - race["kart_angle"] / 256 - 4 * race["angle_velocity"] + 128) % 256 - 128
        console.step(console.buttons(["B", "LEFT" if error < 0 else "RIGHT"]))
        race = console.race()
        touched += race["touched"] == 7
        near = np.array([distance(race, k) < 6 for k in range(1, MOST + 1)])
        inside = np.where(near, inside + 1, 0)
        assert inside.max() < 60, "stuck in each other"
        assert effect_at(circuit, race["x"], race["y"]) is not Effect.WALL
        walls += sum(effect_at(circuit, *place) is Effect.WALL for place in places_of(race))
    assert touched > 0
    assert walls == 0
    assert min(race[f"opponent{k}_progress"] for k in range(1, MOST + 1)) > 25


def test_opponents_take_coins_and_become_faster(console: KartConsole) -> None:
    circuit = "MarioCircuit.Act1"
    console.load(circuit)
    console.set_opponents(3)
    console.step(0, 1)
    before = console.block()
    base = word(console, OTHER_STEP + 2)
    console.step(0, 1500)
    after = console.block()
    assert before is not None
    assert after is not None
    taken = sum(
        bool(after.tilemap[coin.row, coin.column] != before.tilemap[coin.row, coin.column]) for coin in before.coins
    )
    held = [word(console, OTHER_COINS + 8 * k) for k in range(3)]
    assert taken > 0
    assert sum(held) == taken
    assert console.race()["coins"] == 0, "none of them is the kart's"
    assert (word(console, OTHER_STEP + 2) > base) == (held[0] > 0)
    console.start_at(0)
    console.step(0, 1)
    again = console.block()
    assert again is not None
    assert np.array_equal(again.tilemap, before.tilemap), "another race, all coins"


def test_off_the_road_opponents_are_slow(console: KartConsole) -> None:
    """Carried onto the grass and kept there, one slows down as the kart does."""
    circuit = "MarioCircuit.Act1"
    started(console, 1, circuit)
    block = block_of(circuit)
    surface = np.array([SURFACES[code].name for code in block.surfaces])[block.tilemap]
    row, column = np.argwhere(surface == "grass")[50]
    on_road = word(console, OTHER_STEP)
    for _ in range(120):
        put(console, 1, 8 * int(column) + 4, 8 * int(row) + 4)
        console.step(0)
    assert word(console, OTHER_STEP) < 0.5 * on_road
    console.step(0, 240)
    assert word(console, OTHER_STEP) > 0.8 * on_road, "and gathers speed on the road"


@pytest.mark.parametrize("opponents", [3, MOST])
def test_a_race_among_others_repeats_and_survives_saving(console: KartConsole, opponents: int) -> None:
    seen = []
    for saved in (False, True):
        random = np.random.default_rng(3)
        console.load("DonutPlains.Act2")
        console.set_opponents(opponents)
        for step in range(120):
            if saved and step == 60:
                state = console.save()
                console.step(console.buttons(["RIGHT"]), 33)
                console.restore(state)
            console.step(console.buttons(["B"] if random.random() < 0.6 else ["B", "LEFT"]), 5)
        seen.append((console.race(), console.screen().tobytes()))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("opponents", [1, 3, 4, MOST])
def test_the_picture_is_complete_in_its_frame(console: KartConsole, opponents: int) -> None:
    """A frame that only draws shows what the frame with the ticks showed: all was drawn in time."""
    console.load("RainbowRoad.Act1")
    console.set_opponents(opponents)
    at_once = console.game.ticks_among_opponents[opponents - 1]
    for step in range(200):
        console.step(console.buttons(["B"] if step % 9 < 7 else ["B", "LEFT"]), at_once)
        picture, state = console.screen(), console.save()
        console.set_value("ticks", 0x80)
        console.opened().run()
        assert np.array_equal(console.screen(), picture), f"step {step}"
        console.restore(state)


def test_circuits_hold_seven_at_the_start() -> None:
    """On every circuit they start apart, on the road, and the kart is the last."""
    console = KartConsole(FOLDER)
    for circuit in CIRCUITS:
        console.load(circuit)
        console.set_opponents(MOST)
        console.step(0, 1)
        race = console.race()
        places = [(race["x"], race["y"]), *places_of(race)]
        assert race["rank"] == 2 * MOST
        assert all(effect_at(circuit, *place) not in SOLID for place in places)
        apart = [math.dist(one, other) for k, one in enumerate(places) for other in places[:k]]
        assert min(apart) > 14, circuit
    console.close()
