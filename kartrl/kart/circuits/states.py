"""Start states: the console with a circuit's block in its memory, before the first tick."""

from kartrl.errors import UserError
from kartrl.kart.block import BANK, Block
from kartrl.kart.retro import BUNDLED, GAMES, Console

BOOT, SETTLE = 60, 60  # frames: until the console is up, until a selected circuit is
STANDING = 0x80  # value of `ticks` at which the game draws but does not move
FROM_MEMORY = 255  # value of `select`: take the block that lies in memory


def make_state(block: Block) -> bytes:
    """The whole state of a console that stands at tick 0 of this circuit.

    Raises:
        UserError: there is no emulator, or the game does not take the block.
    """
    console = Console(GAMES / BUNDLED)
    try:
        return start_state(console, block)
    finally:
        console.close()


def start_state(console: Console, block: Block) -> bytes:
    """The same on a console that has just been opened."""
    for _ in range(BOOT):
        console.step(0)
    console.write(BANK, block.packed())
    console.set_value("ticks", STANDING)  # stays until another number of ticks is asked for
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
        raise UserError(f"the game does not take the circuit {block.title}")
    console.set_value("ticks", 0)
    return console.save()
