"""Rapids, our own game for the NES: built from its source, its rules, and courses that can be mastered."""

import gzip
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kartrl.config import read
from kartrl.envs.worlds import load_world
from kartrl.retro.console import RetroConsole
from kartrl.retro.library import find_game, game_in

pytest.importorskip("stable_retro", reason="no emulators on this platform")

ROOT = Path(__file__).parents[2]
BY_HAND = {"data.json", "metadata.json", "scenario.json"}
LEFT, RIGHT, START, SELECT = (1 << bit for bit in (6, 7, 3, 2))  # of the joypad
PACE, SLOW = 3, 2  # pixels per frame: of the boat sideways, of the river
TOP, FINE, CELLS, WIDTH, ROWS = 8, 9, 0x300, 16, 30  # places in memory; cells in a row, rows kept
GEM, ROCK = 2, 3  # cells; from ROCK on they sink boats
AHEAD = 80  # frames
BEGINNING = 15 * WIDTH  # bytes of the rows that are shown at first


@pytest.fixture
def console() -> Iterator[RetroConsole]:
    made = RetroConsole(find_game("Rapids-Nes-v0"))
    yield made
    made.close()


def cells(console: RetroConsole) -> np.ndarray:
    """The river, uint8 [30, 16]: rows of video memory."""
    return np.array(console.opened().ram[CELLS : CELLS + ROWS * WIDTH], np.uint8).reshape(ROWS, WIDTH)


def best_buttons(console: RetroConsole) -> int:
    """What to hold in the next frame, to take the most gems without a crash."""
    river, top, fine = cells(console), *console.read(TOP, 2)
    x = np.arange(console.info()["x"] % PACE, 240, PACE)
    worth = np.zeros(len(x))
    for frame in range(AHEAD, 0, -1):  # backwards: what is still to come, from each place in this frame
        flown = top * 16 + fine - SLOW * frame
        row = river[(flown + 200) // 16 % ROWS]
        gems = (row[(x + 1) // 16] == GEM) | (row[(x + 14) // 16] == GEM)
        sunk = (row[(x + 5) // 16] >= ROCK) | (row[(x + 10) // 16] >= ROCK)
        worth = worth + gems / 8 - 100 * sunk  # a gem is there for eight frames
        if frame > 1:
            worth = np.maximum(worth, np.maximum(np.append(worth[1:], -1e9), np.append(-1e9, worth[:-1])) - 1e-6)
    at = console.info()["x"] // PACE
    choices = {0: worth[at], LEFT: worth[at - 1] if at else -1e9, RIGHT: worth[at + 1] if at + 1 < len(x) else -1e9}
    return max(choices, key=choices.__getitem__)


@pytest.mark.skipif(shutil.which("ca65") is None, reason="cc65 is not installed")
def test_committed_rapids_matches_its_source(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "game" / "rapids.py", "-o", tmp_path], check=True, capture_output=True)
    folder = find_game("Rapids-Nes-v0").folder
    built = {path.name for path in tmp_path.iterdir()}
    assert built | BY_HAND == {path.name for path in folder.iterdir()}
    for name in built:
        new, old = (tmp_path / name).read_bytes(), (folder / name).read_bytes()
        if name.endswith(".state"):  # versions of zlib differ in how they pack the same content
            new, old = gzip.decompress(new), gzip.decompress(old)
        assert new == old, f"{name} differs: rebuild the game with `make game`"


@pytest.mark.parametrize("level", [6, 16])
def test_a_course_has_eighty_gems_and_a_finish(console: RetroConsole, level: int) -> None:
    console.begin_episode(f"Level{level:02}")
    assert (console.info()["level"], console.info()["lives"], console.info()["left"]) == (level, 3, 167)
    total, done = 0.0, False
    while not done:
        reward, done = console.advance(best_buttons(console))
        total += reward
    assert console.info() | {"x": 0} == {"level": level, "lives": 3, "score": total, "left": 0, "x": 0}
    assert total == 80


def test_three_crashes_end_the_game_until_start(console: RetroConsole) -> None:
    console.begin_episode("Level03")
    lives = [console.info()["lives"]]
    while not console.advance(LEFT).done:
        lives.append(console.info()["lives"])
    assert {*lives} == {3, 2, 1}
    assert console.info()["lives"] == 0
    before = console.info()
    for _ in range(10):
        console.run(LEFT)
    assert console.values() == before
    for _ in range(10):
        console.run(START)
    assert console.values() | {"left": 0} == {"level": 3, "lives": 3, "score": 0, "left": 0, "x": 120}


def test_courses_differ_and_select_leads_through_them(console: RetroConsole) -> None:
    found = []
    console.begin_episode("Level01")
    for level in range(1, 17):
        console.start_at(f"Level{level:02}")
        assert console.read(CELLS, BEGINNING) == (found[-1] if found else console.read(CELLS, BEGINNING))
        for frame in range(8):
            console.run(SELECT if not frame else 0)
        assert console.values()["level"] == level + 1
        found.append(console.read(CELLS, BEGINNING))
    assert len({*found}) == 16


@pytest.mark.parametrize("level", [1, 2, 3, 4])
def test_what_counts_is_brighter_than_water_in_grey(console: RetroConsole, level: int) -> None:
    """With each set of colours, also where a picture is reduced to a few pixels."""
    console.begin_episode(f"Level{level:02}")
    for _ in range(60):
        console.advance(0)
    screen = console.screen(gray=True).astype(float)  # which begins 8 pixels to the right and below of the console's
    top, fine = console.read(TOP, 2)
    boat_x = console.info()["x"] - 8
    found = {"boat": screen[188:196, boat_x + 4 : boat_x + 12].mean()}
    for row in range(1, 12):
        for column, cell in enumerate(cells(console)[(top + row) % ROWS][1:15]):
            y, x = 16 * row - fine - 8, 16 * column + 8
            found[{0: "water", GEM: "gem", ROCK: "rock"}.get(int(cell), "bank")] = screen[
                y + 4 : y + 12, x + 4 : x + 12
            ].mean()
    assert found["water"] + 40 < min(found["rock"], found["bank"]), found
    assert max(found["rock"], found["bank"]) + 40 < min(found["boat"], found["gem"]), found


def test_preset_keeps_sixteen_courses_for_the_test() -> None:
    world = load_world(read([ROOT / "kartrl/config/presets/rapids.cfg"]))
    assert world.levels("train") == tuple(f"Level{number:02}" for number in range(1, 49))
    assert world.levels("test") == tuple(f"Level{number:02}" for number in range(49, 65))
    world.check()


def test_memory_of_a_cartridge_is_clear_when_switched_on(tmp_path: Path) -> None:
    """fceumm leaves there what was on the heap."""
    rom = bytearray(16 + 0x4000 + 0x2000)
    rom[:6], rom[16:19] = b"NES\x1a\1\1", bytes.fromhex("4c00c0")  # an endless loop
    rom[16 + 0x3FFA : 16 + 0x4000] = bytes.fromhex("00c0") * 3
    (tmp_path / "rom.nes").write_bytes(rom)
    used = [bytearray(b"x") * 8192 for _ in range(1000)]
    del used[::2]
    for _ in range(9):
        console = RetroConsole(game_in(tmp_path))
        assert not any(byte for start, block in console.opened().memory.items() if start >= 0x6000 for byte in block)
        console.close()
