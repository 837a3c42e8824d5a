"""The map of a circuit of the bundled game, rendered from its tiles."""

from contextlib import closing
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kartrl.kart.block import Block
from kartrl.kart.console import KartConsole
from kartrl.kart.game_files import must_isolate


@cache
def circuit_block(game_folder: Path, circuit: str) -> Block | None:
    """The block in a circuit's start state; None for a cartridge. `circuit` may be the path of a `.state` file."""
    with closing(KartConsole(game_folder, circuit, must_isolate(game_folder, circuit))) as console:
        return console.block()


def circuit_map(game_folder: Path, circuit: str) -> npt.NDArray[np.uint8] | None:
    """The whole map from above, uint8 [1024, 1024, 3]; None for a cartridge."""
    block = circuit_block(game_folder, circuit)
    return None if block is None else block.image()
