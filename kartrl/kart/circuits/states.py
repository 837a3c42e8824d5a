"""Start states: the console's state with a circuit's block in its memory, before the first tick; and their maps."""

from contextlib import closing
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kartrl.errors import UserError
from kartrl.kart.block import BANK, Block
from kartrl.kart.built_circuits import must_isolate
from kartrl.kart.console import STANDING, KartConsole
from kartrl.kart.game_files import BUNDLED, GAMES

BOOT, SETTLE = 60, 60  # frames until the console has booted, until a selected circuit is loaded
FROM_MEMORY = 255  # value of `select`: use the block in memory


def make_state(block: Block) -> bytes:
    """The state of a console at tick 0 of this circuit.

    Raises:
        UserError: there is no emulator, or the game rejects the block.
    """
    with closing(KartConsole(GAMES / BUNDLED)) as console:
        return start_state(console, block)


def start_state(console: KartConsole, block: Block) -> bytes:
    """`make_state` on a console that has just been opened."""
    for _ in range(BOOT):
        console.step(0)
    console.write(BANK, block.pack())
    console.set_value("ticks", STANDING)  # until another number of ticks is requested
    console.set_value("select", FROM_MEMORY)
    for _ in range(SETTLE):
        console.step(0)
    race = console.race()
    if (race["circuit"], race["tick"], race["lap"], race["checkpoint_num"]) != (
        FROM_MEMORY - 1,
        0,
        console.game.lap_zero,
        len(block.gates),
    ):
        raise UserError(f"the game rejects the circuit {block.title}")
    console.set_value("ticks", 0)
    return console.save()


@cache
def circuit_block(game_folder: Path, circuit: str) -> Block | None:
    """The block in a circuit's start state; None for a cartridge. `circuit` may be the path of a `.state` file."""
    with closing(KartConsole(game_folder, circuit, must_isolate(game_folder, circuit))) as console:
        return console.block()


def circuit_map(game_folder: Path, circuit: str) -> npt.NDArray[np.uint8] | None:
    """The whole map from above, uint8 [1024, 1024, 3]; None for a cartridge."""
    block = circuit_block(game_folder, circuit)
    return None if block is None else block.image()
