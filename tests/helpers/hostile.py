"""Start states that the emulator does not survive."""

import gzip
import random
import re
from pathlib import Path

from kartrl.console.movie import Movie, write_movie
from kartrl.console.states import read_state
from kartrl.kart.game_files import BUNDLED, GAMES

HANGS, CRASHES = "CPU", "PPU"  # what snes9x does on random bytes in these blocks
STATE = GAMES / BUNDLED / "MarioCircuit.Act1.state"


def hostile(block: str) -> bytes:
    """A state of a race, with random bytes in this block of snes9x's snapshot."""
    state = read_state(STATE)
    head = re.search(rb"%s:(\d{6}):" % block.encode(), state)
    assert head is not None
    size = int(head[1])
    return state[: head.end()] + random.Random(0).randbytes(size) + state[head.end() + size :]


def write_hostile_state(file: Path, block: str) -> Path:
    """As a start state."""
    file.write_bytes(gzip.compress(hostile(block)))
    return file


def write_hostile_movie(file: Path, block: str) -> Path:
    """As a movie of a second."""
    write_movie(file, Movie(BUNDLED, "MarioCircuit.Act1", hostile(block), (0,) * 60))
    return file
