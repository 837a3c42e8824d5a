"""The bundled game on the real emulator: built from its source, ticks in a frame, and the rules of the race."""

import gzip
import importlib
import itertools
import json
import math
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from karts import CIRCUITS, FOLDER, ONE_OF_EACH_KIND, block_of

from kartrl.console.libretro import ALL
from kartrl.kart.block import BANK, HEADER, Block
from kartrl.kart.circuits.appearance.surfaces import Effect
from kartrl.kart.circuits.states import start_state
from kartrl.kart.console import RAM, KartConsole
from kartrl.kart.settings import Kart

pytest.importorskip("stable_retro", reason="no SNES emulator on this platform")

ROOT = Path(__file__).parents[2]
WRONG_WAY, FINISHED = 16, 64
ROAD, GRASS = 64, 84
NO_ROAD = (Effect.WALL, Effect.FALL, Effect.LAVA, Effect.WATER)
PLACE = 0x58  # in the console's memory: x and y, 1/64 pixel
ACTIONS = [[] if action == "none" else action.upper().split("+") for action in Kart().actions]
LEFT, RIGHT, LEFT_B, RIGHT_B, LEFT_SLIDE, RIGHT_SLIDE = (
    ACTIONS[1],
    ACTIONS[2],
    ACTIONS[3],
    ACTIONS[4],
    ACTIONS[7],
    ACTIONS[8],
)


def hold(console: KartConsole, names: list[str], ticks: int) -> dict[str, int]:
    console.step(console.buttons(names), ticks)
    return console.race()


def bearing(race: dict[str, int], x: float, y: float) -> float:
    """Where (x, y) lies from the kart, in 1/256 of a turn right of where it points, -128 to 128."""
    wanted = math.atan2(x - race["x"], race["y"] - y) / math.tau * 256
    return (wanted - race["kart_angle"] / 256 + 128) % 256 - 128


def drive(console: KartConsole, circuit: str, ticks: int, backwards: bool = False) -> list[dict[str, int]]:
    """The scripted driver: steers, with the nine actions held for 4 ticks, for the gate two sections ahead."""
    gates = block_of(circuit).gates
    race, seen = console.race(), []
    for _ in range(ticks // 4):
        x, y, _ = gates[(race["checkpoint"] + (-2 if backwards else 2)) % len(gates)]
        error = bearing(race, x, y) - 4 * np.int8(race["angle_velocity"])
        race = hold(console, LEFT_B if error < 0 else RIGHT_B, 4)
        seen.append(race)
        if race["lakitu"] == FINISHED:
            break
    return seen


def turn_round(console: KartConsole) -> None:
    """Turn the kart about half a turn round, rolling slowly."""
    start = console.race()["kart_angle"]
    for _ in range(200):
        turned = (hold(console, LEFT_B if console.race()["speed"] < 150 else LEFT, 2)["kart_angle"] - start) % 65536
        if 0.35 < turned / 65536 < 0.6:
            return
    pytest.fail("the kart does not turn round")


def test_committed_states_hold_the_circuits_of_their_files(blocks: dict[str, Block]) -> None:
    for circuit in CIRCUITS:
        assert block_of(circuit).pack() == blocks[circuit].pack(), circuit


@pytest.mark.skipif(shutil.which("ca65") is None, reason="cc65 is not installed")
def test_committed_rom_matches_its_source(blocks: dict[str, Block], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "game"))
    rom, build_id = importlib.import_module("cartridge").build(ROOT / "game", list(blocks.values()))
    assert rom == (FOLDER / "rom.sfc").read_bytes(), "rebuild the game with `make game`"
    assert build_id == json.loads((FOLDER / "build.json").read_text())["build_id"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("ca65") is None, reason="cc65 is not installed")
def test_committed_game_matches_its_source(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "game" / "build.py", "-o", tmp_path], check=True, capture_output=True)
    built = sorted(path.name for path in tmp_path.iterdir())
    assert set(built) | {"game.json"} == {path.name for path in FOLDER.iterdir()}
    for name in built:
        new, old = (tmp_path / name).read_bytes(), (FOLDER / name).read_bytes()
        if name.endswith(".state"):  # versions of zlib differ in how they pack the same content
            new, old = gzip.decompress(new), gzip.decompress(old)
        assert new == old, f"{name} differs: rebuild the game with `make game`"


@pytest.mark.parametrize(
    ("circuit", "opponents"),
    [*((circuit, 3) for circuit in ONE_OF_EACH_KIND[::2]), ("MarioCircuit.Act2", 0), ("GhostValley.Act2", 0)],
)
def test_ticks_in_one_frame_equal_single_frames_on_long_drives(
    console: KartConsole, circuit: str, opponents: int
) -> None:
    """Bit for bit, in state and screen: as many ticks per frame as game.json allows, and one per frame."""
    ticks, fast, slow = console.game.ticks_per_frame, [], []
    random = np.random.default_rng(7)
    pads = [console.buttons(names) for names in ACTIONS]
    likely = [0.02, 0.02, 0.02, 0.25, 0.25, 0.06, 0.06, 0.16, 0.16]
    chosen = random.choice(len(pads), 400, p=likely)
    for seen, at_once in ((fast, ticks), (slow, 1)):
        console.game = console.game._replace(ticks_per_frame=at_once)
        console.set_value("ticks", at_once)
        console.load(circuit)
        console.set_opponents(opponents)
        for step, action in enumerate(chosen):
            if step % 80 == 79:
                console.start_at(step // 10)
            console.step(pads[action], ticks)
            race = console.race()
            del race["ticks"]  # the command itself
            seen.append((race, console.screen().tobytes()))
    assert ticks > 1
    assert len({picture for _, picture in fast}) > 300, "the drive should show many different pictures"
    for step, (one, other) in enumerate(zip(fast, slow, strict=True)):
        assert one == other, f"step {step}"


@pytest.mark.parametrize("opponents", [0, 3])
def test_dark_rows_change_neither_race_nor_rest_of_screen(console: KartConsole, opponents: int) -> None:
    assert console.game.ground_rows is not None
    (ground, below), seen = console.game.ground_rows, []
    for dark, rows in enumerate((ALL, slice(0, below), slice(ground, 224), slice(ground, below))):
        console.load("MarioCircuit.Act3")
        console.set_opponents(opponents)
        seen.append([])
        for step in range(150):
            console.step(console.buttons(["B"] if step % 10 < 7 else ["B", "LEFT"]), 1 + step % 5, rows)
            race = console.race()
            assert race.pop("dark") == dark
            picture = console.screen()
            seen[-1].append((race, picture[ground:below].tobytes()))
            assert picture[below:].any() == (rows.stop != below)
            assert picture[:ground].any() == (rows.start != ground)
            assert np.array_equal(picture[40:below], console.screen(slice(40, below)))
    assert seen[1:] == seen[:1] * 3


def test_scripted_driver_finishes_five_laps(console: KartConsole) -> None:
    circuit = "MarioCircuit.Act4"
    console.load(circuit)
    seen = drive(console, circuit, 5 * 1500)
    end = seen[-1]
    assert (end["lap"], end["lakitu"]) == (133, FINISHED)
    laps = [race["tick"] for before, race in itertools.pairwise(seen) if race["lap"] > before["lap"]]
    lengths = np.diff([0, *laps]) / 60
    assert len(lengths) == 5
    assert all(10 < seconds < 40 for seconds in lengths), lengths
    clock = 60 * end["minutes"] + end["seconds"] + end["milliseconds"] / 100
    assert clock == pytest.approx(end["tick"] / 60, abs=0.1)  # it stops within the last step
    for _ in range(60):
        hold(console, RIGHT_B, 4)
    after = console.race()
    assert after["lap"] == 133
    assert after["speed"] < 100, "the kart rolls out"


def test_driving_backwards_counts_no_lap_and_is_flagged(console: KartConsole) -> None:
    circuit = "MarioCircuit.Act1"
    console.load(circuit)
    turn_round(console)
    seen = drive(console, circuit, 1800, backwards=True)
    assert max(race["lap"] for race in seen) == 128
    assert sum(race["lakitu"] == WRONG_WAY for race in seen) > len(seen) / 2
    assert len({race["checkpoint"] for race in seen}) > 20, "it did drive round"


def test_crossing_the_line_back_and_forth_counts_no_lap(console: KartConsole) -> None:
    circuit = "MarioCircuit.Act1"
    console.load(circuit)
    for _ in range(3):
        turn_round(console)
        seen = drive(console, circuit, 360, backwards=True)
        turn_round(console)
        seen += drive(console, circuit, 480)
        assert max(race["lap"] for race in seen) == 128


@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
def test_short_cuts_count_no_lap(console: KartConsole, share: float) -> None:
    """After a jump to another part of the road and on to the line, the section is unchanged and no lap is counted."""
    circuit = "MarioCircuit.Act3"
    console.load(circuit)
    hold(console, [], 1)
    gates = block_of(circuit).gates
    for at in range(int(share * len(gates)), len(gates) + 2):
        x, y, _ = gates[at % len(gates)]
        console.write(RAM + PLACE, struct.pack("<HH", 64 * x, 64 * y))
        race = hold(console, [], 2)
        assert (race["x"], race["y"], race["lap"]) == (x, y, 128)
        if at < len(gates) - 3:  # from there the start is near again, backwards
            assert race["checkpoint"] == 0


def test_standing_still_makes_no_progress(console: KartConsole) -> None:
    console.load("MarioCircuit.Act2")
    before = console.race()
    after = hold(console, [], 600)
    assert [before[key] for key in ("x", "y", "lap", "checkpoint")] == [
        after[key] for key in ("x", "y", "lap", "checkpoint")
    ]


def test_grass_slows_and_walls_bounce(console: KartConsole) -> None:
    console.load("MarioCircuit.Act1")
    fastest, on_grass, hit, speed_before_hit, speed_after = 0, [], False, 0, 0
    for _ in range(500):  # straight ahead: over the grass, into the wall at the border
        before = console.race()
        race = hold(console, ["B"], 1)
        if race["ground_type"] == ROAD:
            fastest = max(fastest, race["speed"])
        elif race["ground_type"] == GRASS:
            on_grass.append(race["speed"])
        if race["collision"] and not hit:
            hit, speed_before_hit = True, before["speed"]
            assert race["collision"] == 7
            for _ in range(7):
                race = hold(console, ["B"], 1)
            speed_after = race["speed"]
            assert race["collision"] == 0
            break
    assert fastest > 600
    assert on_grass[-1] < 0.5 * fastest
    assert hit
    assert speed_after < speed_before_hit


def test_a_hop_rises_and_lands(console: KartConsole) -> None:
    console.load("MarioCircuit.Act1")
    hold(console, ["B"], 120)
    heights = [hold(console, ["B", "L"], 1) for _ in range(40)]
    assert max(race["hop"] for race in heights) > 0
    assert any(race["ground_status"] == 2 for race in heights)
    assert (heights[-1]["hop"], heights[-1]["ground_status"]) == (0, 0), "holding the button does not hop again"


def turned_in(console: KartConsole, names: list[str], ticks: int) -> tuple[int, int]:
    """How far the kart turns at full speed with these buttons, in 1/65536 of a turn, and its speed then."""
    console.load("MarioCircuit.Act3")
    hold(console, ["B"], 90)
    race, start = console.race(), console.race()["kart_angle"]
    race = hold(console, names, ticks)
    return (race["kart_angle"] - start) % 65536, race["speed"]


def test_slide_turns_tighter_and_is_slower(console: KartConsole) -> None:
    plain, speed = turned_in(console, RIGHT_B, 50)
    slide, slower = turned_in(console, RIGHT_SLIDE, 50)
    assert slide > 1.15 * plain
    assert slower < speed
    left, _ = turned_in(console, LEFT_SLIDE, 50)
    assert 65536 - left == pytest.approx(slide, rel=0.05)


def test_brake_stops_and_then_reverses_slowly(console: KartConsole) -> None:
    console.load("MarioCircuit.Act1")
    rolling = hold(console, ["B"], 120)
    stopping = hold(console, ["Y"], 60)
    assert stopping["speed"] < rolling["speed"] / 2
    y = hold(console, ["Y"], 60)["y"]
    assert hold(console, ["Y"], 60)["y"] > y, "facing north, it backs south"


@pytest.mark.parametrize("circuit", CIRCUITS)
def test_race_can_start_at_any_gate(console: KartConsole, circuit: str) -> None:
    for section, (x, y, angle) in [*enumerate(block_of(circuit).gates)][::10]:
        console.load(circuit)
        console.start_at(section)
        race = hold(console, [], 1)
        assert (race["x"], race["y"], race["checkpoint"], race["lap"], race["speed"]) == (x, y, section, 128, 0)
        assert race["kart_angle"] >> 8 == angle
        assert race["start_section"] == 0
        assert race["ground_status"] == 0
        race = hold(console, ["B"], 60)
        assert race["lakitu"] != WRONG_WAY
        assert race["checkpoint"] != (section - 1) % len(block_of(circuit).gates)


def test_race_from_any_gate_takes_five_laps(console: KartConsole) -> None:
    circuit = "MarioCircuit.Act1"
    console.load(circuit)
    console.start_at(20)
    hold(console, [], 1)
    end = drive(console, circuit, 5 * 1500)[-1]
    assert (end["lap"], end["checkpoint"]) == (133, 20)


def test_block_in_memory_is_the_current_circuit(console: KartConsole) -> None:
    for index, circuit in enumerate(CIRCUITS):
        console.load(circuit)
        block, race = console.block(), console.race()
        assert block is not None
        assert (race["circuit"], race["checkpoint_num"]) == (index, len(block.gates))
        assert (race["x"], race["y"]) == block.gates[0][:2]


def test_circuit_written_to_memory_equals_a_bundled_one(console: KartConsole) -> None:
    """The same block written to memory gives the same states and screens, except for the circuit's number."""
    block = block_of("KoopaBeach.Act2")
    seen = []
    for outside in (False, True):
        if outside:
            start_state(console, block)
            assert console.race()["circuit"] == 254
        else:
            console.load("KoopaBeach.Act2")
        seen.append([{**hold(console, names, 5), "circuit": 0} for names in [RIGHT_B, LEFT_B, LEFT_SLIDE] * 20])
        seen.append([console.screen().tobytes()])
        found = console.block()
        assert found is not None
        assert found.title == block.title
    assert seen[:2] == seen[2:]


def test_invalid_block_is_rejected(console: KartConsole) -> None:
    console.load("RainbowRoad.Act1")
    for at, data in ((HEADER, b"KRC0"), (HEADER + 4, bytes([0])), (HEADER + 4, bytes([65]))):
        console.write(BANK, block_of("RainbowRoad.Act1").pack())
        console.write(BANK + at, data)
        console.set_value("select", 255)
        for _ in range(90):
            console.step(0)
        assert console.race()["circuit"] == 0
        assert console.race()["checkpoint_num"] == len(block_of(CIRCUITS[0]).gates)


def test_rom_header_has_its_own_title() -> None:
    assert b"KARTRL" in (FOLDER / "rom.sfc").read_bytes()[0x7FC0:0x7FD5].upper()
