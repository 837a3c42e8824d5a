"""Compiles a circuit to the block that the game reads."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from kartrl.kart.block import TILE, ZONES, Block, Coin
from kartrl.kart.circuits.appearance import art
from kartrl.kart.circuits.appearance.kinds import KINDS, mini_colours, palette
from kartrl.kart.circuits.appearance.paint import Ground, Painter
from kartrl.kart.circuits.appearance.surfaces import CODES
from kartrl.kart.circuits.field import field_of, nearest
from kartrl.kart.circuits.format import Circuit, read
from kartrl.kart.circuits.line import gates, line_of, section_count
from kartrl.kart.circuits.reduction import reduce


def compile_circuit(path: Path) -> Block:
    """Compile the circuit in a file; the same bytes on every machine.

    Raises:
        UserError: the file is not a circuit.
    """
    return compile_block(read(path))


def compile_block(circuit: Circuit) -> Block:
    kind = KINDS[circuit.kind]
    line = line_of(circuit)
    ground = Painter(circuit, kind, line, field_of(circuit, line)).ground()
    number, colours, words = palette(kind)
    image, surface = _with_coins(ground)
    tilemap, tiles, surfaces = reduce(number[image], surface, colours)
    tiles[0] = number[np.resize(kind.outside, (TILE, TILE))]
    surfaces[0] = CODES["wall"] if kind.border else CODES[kind.grounds[-1].surface]
    sections = section_count(circuit, line)
    under = _under(number[ground.image], ground.coins, tiles, surfaces == CODES[kind.road], colours)
    return Block(
        title=circuit.title,
        kind=circuit.kind,
        length=int(line.length + 0.5),
        gates=gates(line, sections),
        tilemap=tilemap,
        tiles=tiles,
        sections=(nearest(line, ZONES, 2 * TILE) * sections // len(line.xy)).astype(np.uint8),
        surfaces=surfaces,
        coins=under,
        mini_colours=mini_colours(kind)[0],
        palette=words,
    )


def _with_coins(ground: Ground) -> tuple[art.Art, npt.NDArray[np.uint8]]:
    """Image and surfaces with the coins on the road."""
    image, surface, coin = ground.image.copy(), ground.surface.copy(), art.coin()
    for column, row in ground.coins:
        box = image[row * TILE : row * TILE + 16, column * TILE : column * TILE + 16]
        np.copyto(box, coin, where=coin != art.CLEAR)
        surface[row : row + 2, column : column + 2] = CODES["coin"]
    return image, surface


def _under(
    image: npt.NDArray[np.uint8],
    coins: tuple[tuple[int, int], ...],
    tiles: npt.NDArray[np.uint8],
    road: npt.NDArray[np.bool_],
    colours: npt.NDArray[np.uint8],
) -> tuple[Coin, ...]:
    """The coins, each with the tiles nearest in colour to the road under it."""
    shown = colours[tiles].astype(np.int64)

    def like(column: int, row: int) -> int:
        wanted = colours[image[row * TILE : row * TILE + TILE, column * TILE : column * TILE + TILE]].astype(np.int64)
        away = ((shown - wanted) ** 2).sum((1, 2, 3))
        return int(np.argmin(np.where(road, away, away.max() + 1)))

    quarters = ((0, 0), (1, 0), (0, 1), (1, 1))
    return tuple(Coin(x, y, tuple(like(x + dx, y + dy) for dx, dy in quarters)) for x, y in coins)  # type: ignore[arg-type]
