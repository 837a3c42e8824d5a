"""Builds Rapids, for the NES: `python game/rapids.py [-o FOLDER]`. Needs cc65, and stable-retro for the start states.

Writes the ROM, its hash and a start state of each course; data.json, scenario.json and metadata.json are by hand.
"""

import subprocess
import tempfile
from pathlib import Path

from building import output_folder

from kartrl.console.roms import sha1
from kartrl.files import write_whole
from kartrl.retro.console import RetroConsole
from kartrl.retro.library import game_in

SOURCE = Path(__file__).parent / "rapids"
TARGET = Path(__file__).parents[1] / "kartrl" / "retro" / "games" / "Rapids-Nes-v0"
COURSES = 64
BOOT = 8  # frames until a course is shown
CELL, HALF, TILES = 16, 8, 8192  # pixels; bytes of all tiles
SHADES = ".-o#"  # the four colours
DIGITS = (
    "### -#- ### ### #-# ### ### ### ### ###",
    "#-# ##- --# --# #-# #-- #-- --# #-# #-#",
    "#-# -#- ### -## ### ### ### -#- ### ###",
    "#-# -#- #-- --# --# --# #-# -#- #-# --#",
    "### ### ### ### --# ### ### -#- ### ###",
)
FINISH = ["oooo####" * 2] * 4 + ["####oooo" * 2] * 4
GEM = [
    "................",
    "................",
    "......oooo......",
    ".....o####o.....",
    "....o######o....",
    "...o########o...",
    "..o##########o..",
    "..o###oooo###o..",
    "..o##########o..",
    "...o########o...",
    "....o######o....",
    ".....o####o.....",
    "......o##o......",
    ".......oo.......",
    "................",
    "................",
]
ROCK = [
    "................",
    "....oooooo......",
    "...oo--oooo.....",
    "..oo--oooooo....",
    ".oo--ooooooooo..",
    ".oo-oooooooooo..",
    ".oooooooooooooo.",
    ".ooooo--ooooooo.",
    ".oooo--oooooooo.",
    ".oooooooooooooo.",
    ".oooooooo-ooooo.",
    "..ooooooooooooo.",
    "..oooooooooooo..",
    "...oooooooooo...",
    "....ooo..ooo....",
    "................",
]
BANK = [
    "----------------",
    "----------------",
    "---o------------",
    "--o-o-----------",
    "----------------",
    "-----------o----",
    "----------o-o---",
    "----------------",
    "----------------",
    "-----o----------",
    "----o-o---------",
    "----------------",
    "------------o---",
    "-----------o-o--",
    "----------------",
    "----------------",
]
SHORE = [row[:12] + "o##." for row in BANK]
BOAT = [
    ".......##.......",
    "......#oo#......",
    ".....#oooo#.....",
    ".....#oooo#.....",
    "....#oo##oo#....",
    "....#oo##oo#....",
    "...#oo####oo#...",
    "...#oo#--#oo#...",
    "...#oo#--#oo#...",
    "...#oo#--#oo#...",
    "...#oo####oo#...",
    "...#oooooooo#...",
    "...#oooooooo#...",
    "...##oooooo##...",
    "....########....",
    ".....-....-.....",
]
LIFE = ["...##...", "..#oo#..", ".#oooo#.", ".#oooo#.", ".#o##o#.", ".#oooo#.", ".######.", "........"]


def tile(rows: list[str]) -> bytes:
    """A tile of 8x8 pixels: the lower bits of all of its colours, then the upper ones."""
    shades = [[SHADES.index(pixel) for pixel in row] for row in rows]
    return bytes(sum((shade >> bit & 1) << 7 - x for x, shade in enumerate(row)) for bit in (0, 1) for row in shades)


def quarters(rows: list[str]) -> bytes:
    """The four tiles of a picture of 16x16 pixels."""
    return b"".join(tile([row[x : x + HALF] for row in rows[y : y + HALF]]) for y in (0, HALF) for x in (0, HALF))


def pictures() -> bytes:
    """All tiles, in the order in which rapids.s has their numbers."""
    water = ["." * CELL] * CELL
    cells = [water, FINISH * 2, GEM, ROCK, BANK, SHORE, [row[::-1] for row in SHORE]]
    columns = [row.split() for row in DIGITS]
    digits = [
        tile([f".{row[number]}....".translate(str.maketrans("-#", ".o")) for row in columns] + ["." * 8] * 3)
        for number in range(10)
    ]
    return b"".join([*map(quarters, cells), *digits, quarters(BOAT), tile(LIFE)]).ljust(TILES, b"\0")


def assemble(rom: Path) -> None:
    """Assemble and link the ROM."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "tiles.chr").write_bytes(pictures())
        made = f"{folder}/rapids.o"
        subprocess.run(["ca65", "--bin-include-dir", folder, "-o", made, str(SOURCE / "rapids.s")], check=True)
        subprocess.run(["ld65", "-C", str(SOURCE / "nrom.cfg"), "-o", str(rom), made], check=True)


def make_states(folder: Path) -> None:
    """Switch the game on, and save each course at its start; SELECT goes from one to the next."""
    console = RetroConsole(game_in(folder), None)
    select = console.buttons(["SELECT"])
    for course in range(1, COURSES + 1):
        for frame in range(BOOT):
            console.run(select if course > 1 and not frame else 0)
        if console.read(0, 1)[0] != course:
            raise RuntimeError(f"course {course} did not begin")
        console.keep(folder / f"Level{course:02}.state")
    console.close()


def main() -> None:
    output = output_folder("Build the game for the NES: ROM and start states.", TARGET)
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        rom = Path(work) / "rom.nes"
        assemble(rom)
        make_states(Path(work))
        (Path(work) / "rom.sha").write_text(sha1(rom) + "\n")
        for file in sorted(Path(work).iterdir()):
            write_whole(output / file.name, file.read_bytes())
    print(f"{output}: {COURSES} courses")


if __name__ == "__main__":
    main()
