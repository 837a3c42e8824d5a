"""Paints a circuit's ground: a colour for each pixel, a surface for each cell."""

import random
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kartrl.kart.block import SIDE, SIZE, TILE
from kartrl.kart.circuits.appearance import art
from kartrl.kart.circuits.appearance.art import CLEAR, Art
from kartrl.kart.circuits.appearance.kinds import Kind
from kartrl.kart.circuits.appearance.surfaces import CODES, SURFACES
from kartrl.kart.circuits.field import UNIT, Field, centres
from kartrl.kart.circuits.format import Circuit, Patch
from kartrl.kart.circuits.line import Floats, Line

KERB_TURN = 0.0045  # minimum curvature of bends with kerbs, radians per pixel
RAIL = 12  # thickness of a rail, pixels; a kart moves three per tick
TREE = 24  # pixels along a side
START = 8  # depth of the start line, pixels
COIN_GAP = 24  # between the coins of a row, pixels


class Ground(NamedTuple):
    """A circuit's image and surfaces."""

    image: Art  # [1024, 1024]
    surface: npt.NDArray[np.uint8]  # [128, 128]
    coins: tuple[tuple[int, int], ...]  # column and row of the upper left cell of each


class Painter:
    """Paints one circuit; `ground` returns the result."""

    def __init__(self, circuit: Circuit, kind: Kind, line: Line, field: Field) -> None:
        self._circuit, self._kind, self._line, self._field = circuit, kind, line, field
        self._draw = random.Random(circuit.title)
        self.left_out: list[str] = []
        """Objects of the file that found no free road, one sentence each."""
        # a coast varies, a road does not
        self._shore = field.edge + kind.wave * _noise(self._draw, SIDE, 8) * np.clip(field.edge / 16, 0, 1)
        self._surface = np.zeros((SIDE, SIDE), np.uint8)
        for name, until in reversed(kind.grounds):
            self._surface[self._shore < until] = CODES[name]
        self._paint_base()
        self._paint_pools(on_road=False)
        self._taken = self._surface == CODES["wall"]
        self._paint_walls()
        self._paint_rails()
        self._paint_scenery()
        self._paint_pools(on_road=True)
        self._paint_start()
        self._paint_jumps()
        self._paint_boosts()
        self._coins = tuple(self._place_coins())

    def ground(self) -> Ground:
        """The painted ground without coins, and their positions: the compiler needs the road under them."""
        return Ground(self._image, self._surface, self._coins)

    def _paint_base(self) -> None:
        kind, field = self._kind, self._field
        shore = field._replace(edge=self._shore).drawn()
        turn = np.abs(self._line.turns())
        wide = np.maximum.reduce([np.roll(turn, k) for k in range(-6, 7)]) > KERB_TURN
        steep = np.abs(np.roll(self._line.xy, -1, 0) - self._line.xy)
        flags = {
            "turn": wide[field.sample],
            "steep": (steep[:, 1] > steep[:, 0])[field.sample],
            "south": _southern(field),
        }
        self._image = _tile(kind.layers[-1].art).copy()
        for layer in reversed(kind.layers[:-1]):
            on = shore < int(layer.until * UNIT)
            for where in layer.where.split("-") if layer.where else ():
                on &= _to_pixels(flags[where])
            np.copyto(self._image, _tile(layer.art), where=on)

    def _stamp(self, image: Art, x: int, y: int) -> None:
        """Draw with the upper left corner at (x, y)."""
        box = self._image[y : y + image.shape[0], x : x + image.shape[1]]
        image = image[: box.shape[0], : box.shape[1]]
        np.copyto(box, image, where=image != CLEAR)

    def _paint_walls(self) -> None:
        wall = np.zeros((SIDE, SIDE), bool)
        if self._kind.border:
            wall[:2] = wall[-2:] = wall[:, :2] = wall[:, -2:] = True
        for x0, y0, x1, y1 in self._circuit.walls:
            wall[y0 // 16 * 2 : y1 // 16 * 2 + 2, x0 // 16 * 2 : x1 // 16 * 2 + 2] = True
        self._paint_wall(wall)

    def _paint_wall(self, wall: npt.NDArray[np.bool_]) -> None:
        self._surface[wall] = CODES["wall"]
        self._taken |= wall
        np.copyto(self._image, _tile(self._kind.block), where=_to_pixels(wall))

    def _paint_rails(self) -> None:
        field, at = self._field, self._line.at[self._field.sample]
        rail = np.zeros((SIDE, SIDE), bool)
        for part in self._circuit.rails:
            here = (
                (at >= part.start) & (at < part.end) if part.start < part.end else (at >= part.start) | (at < part.end)
            )
            rail |= here & ((part.side == "both") | (field.right == (part.side == "right")))
        if self._circuit.corners == "right":
            self._paint_wall(rail & (field.edge >= 0) & (field.edge < 16))
            return
        rail &= (field.edge >= 1) & (field.edge < RAIL + 1)
        self._surface[rail] = CODES["wall"]
        self._taken |= rail
        drawn = field.drawn()
        for until, ink in (
            (RAIL + 1, self._kind.rail[2]),
            (RAIL - 2, self._kind.rail[1]),
            (5, self._kind.rail[0]),
            (2, self._kind.rail[2]),
        ):
            self._image[(drawn < until * UNIT) & (drawn >= UNIT // 2) & _to_pixels(rail)] = ord(ink)

    def _paint_scenery(self) -> None:
        """The file's trees, then random trees and flat decoration."""
        kind, circuit = self._kind, self._circuit
        free = self._field.edge > kind.clear
        if kind.tree is not None:
            for x, y in circuit.trees:
                self._paint_tree(x // TILE, y // TILE)
            for _ in range(int(circuit.scenery * kind.tree.attempts)):
                column, row = (2 + int(self._draw.random() * (SIDE - 7)) for _ in range(2))
                box = (slice(row - 1, row + 4), slice(column - 1, column + 4))
                standing = np.isin(self._surface[box], kind.tree.on)
                if standing.all() and free[box].all() and not self._taken[box].any():
                    self._paint_tree(column, row)
        for flat, count, grounds in kind.flats:
            size = flat.shape[0] // TILE
            for _ in range(int(circuit.scenery * count)):
                column, row = (2 + int(self._draw.random() * (SIDE - 4 - size)) for _ in range(2))
                box = (slice(row, row + size), slice(column, column + size))
                if np.isin(self._surface[box], grounds).all() and free[box].all() and not self._taken[box].any():
                    self._taken[box] = True
                    self._stamp(flat, column * TILE, row * TILE)

    def _paint_tree(self, column: int, row: int) -> None:
        assert self._kind.tree is not None
        box = (slice(row, row + 3), slice(column, column + 3))
        self._surface[box] = CODES["wall"]
        self._taken[box] = True
        self._stamp(self._kind.tree.art, column * TILE, row * TILE)

    def _paint_pools(self, on_road: bool) -> None:
        for patch in self._circuit.patches:
            if (patch.at is not None) == on_road and patch.ground in self._kind.pools:
                self._paint_pool(patch)

    def _paint_pool(self, patch: Patch) -> None:
        """A round patch of other ground, aligned to 16 pixels, so that patches of one size share their tiles."""
        if patch.at is not None:
            x, y = self._line.place(patch.at, patch.across, patch.size)
        else:
            assert patch.x is not None
            assert patch.y is not None
            x, y = patch.x, patch.y
        x, y, size = int(x + 8) // 16 * 16, int(y + 8) // 16 * 16, patch.size
        reach = (size + 15) // 8 * 8
        left, top, right, bottom = max(0, x - reach), max(0, y - reach), min(SIZE, x + reach), min(SIZE, y + reach)
        if left >= right or top >= bottom:  # outside the map, possible with a faulty road
            return
        py, px = np.mgrid[top:bottom, left:right] * 2 + 1
        away = (px - 2 * x) ** 2 + (py - 2 * y) ** 2
        limit = np.full(away.shape, 2 * size) + (((px - 2 * x) * 3 // 16 + (py - 2 * y) * 5 // 16) % 5 - 2) * min(
            3, size // 12
        )
        wet = away < limit * limit
        pool = self._kind.pools[patch.ground]
        box = self._image[top:bottom, left:right]
        np.copyto(box, ord(pool.rim), where=wet)
        np.copyto(box, _tile(pool.art)[top:bottom, left:right], where=away < (limit - 5) ** 2)
        cells = (slice(top // TILE, bottom // TILE), slice(left // TILE, right // TILE))
        share = wet.reshape(wet.shape[0] // TILE, TILE, -1, TILE).mean((1, 3))
        self._surface[cells][(share >= 0.5) & (self._surface[cells] != CODES["wall"])] = CODES[patch.ground]

    def _distances_from(self, sample: int) -> tuple[Floats, Floats]:
        """How far every pixel lies ahead and to the right of a sample of the line, pixels, float64 [1024, 1024]."""
        ux, uy = self._line.ahead(sample, 1)
        x, y = centres(SIZE, 1)
        dx, dy = x - self._line.xy[sample, 0], y - self._line.xy[sample, 1]
        return dx * ux + dy * uy, dy * ux - dx * uy

    def _paint_start(self) -> None:
        ahead, across = self._distances_from(0)
        on = (ahead >= -START) & (ahead < 0) & (np.abs(across) < self._line.width[0] / 2 - 1)
        square = (np.floor(ahead / 4).astype(int) + np.floor(across / 4).astype(int)) & 1
        self._image[on] = np.where(square, ord("W"), ord("K"))[on]

    def _find_road(self) -> npt.NDArray[np.bool_]:
        return self._surface == CODES[self._kind.road]

    def _paint_jumps(self) -> None:
        for jump in self._circuit.jumps:
            sample = self._line.nearest_sample(jump.at)
            ahead, across = self._distances_from(sample)
            middle = slice(TILE // 2, None, TILE)
            cells = (np.abs(ahead[middle, middle]) < 10) & (
                np.abs(across[middle, middle]) < self._line.width[sample] / 2 - 2
            )
            cells &= self._find_road()
            self._surface[cells] = CODES["jump"]
            np.copyto(self._image, _tile(art.JUMP), where=_to_pixels(cells))

    def _paint_boosts(self) -> None:
        for plate in self._circuit.boosts:
            x, y = self._line.place(plate.at, plate.across, 18)
            ux, uy = self._line.ahead(self._line.nearest_sample(plate.at))
            dx, dy = (0 if abs(part) < 0.38 else 1 if part > 0 else -1 for part in (ux, uy))
            column, row = int(x / TILE - 1), int(y / TILE - 1)  # its middle tile contains the position
            if self._fits(f"the boost plate at {plate.at:g}", self._find_road(), column, row, 3):
                self._surface[row : row + 3, column : column + 3] = CODES["boost"]
                self._stamp(art.chevrons(dx, dy), column * TILE, row * TILE)

    def _place_coins(self) -> list[tuple[int, int]]:
        found = []
        plain = self._find_road()
        for row_of in self._circuit.coins:
            samples = self._line.nearest_sample(row_of.at)
            for k in range(row_of.count):
                sample = (samples + int(k * COIN_GAP / 4)) % len(self._line.at)
                x, y = self._line.place(float(self._line.at[sample]), row_of.across, 14)
                column, row = int(x / TILE - 0.5), int(y / TILE - 0.5)
                if self._fits(f"coin {k} of the row at {row_of.at:g}", plain, column, row, 2):
                    plain[row : row + 2, column : column + 2] = False
                    found.append((column, row))
        return found

    def _fits(self, what: str, free: npt.NDArray[np.bool_], column: int, row: int, size: int) -> bool:
        """Whether `size` x `size` cells of `free` [128, 128] are free; if not, adds the obstacle to `left_out`."""
        box = (slice(row, row + size), slice(column, column + size))
        if min(column, row) < 0 or free[box].size < size * size:
            self.left_out.append(f"{what} leaves the map")
            return False
        if not free[box].all():
            name = SURFACES[self._surface[box][~free[box]][0]].name
            words = {
                "wall": "a wall or a tree",
                "boost": "a boost plate",
                "jump": "a jump",
                self._kind.road: "another coin",
            }
            self.left_out.append(f"{what} does not fit on the road: {words.get(name, name)} is in the way")
            return False
        return True


def _tile(pattern: Art) -> Art:
    """Repeat a pattern over the whole map."""
    return np.tile(pattern, (-(-SIZE // pattern.shape[0]), -(-SIZE // pattern.shape[1])))[:SIZE, :SIZE]


def _to_pixels(cells: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Expand cells [128, 128] to pixels [1024, 1024]."""
    return cells.repeat(TILE, 0).repeat(TILE, 1)


def _southern(field: Field) -> npt.NDArray[np.bool_]:
    """Cells south of the nearest road, where its side is visible."""
    return (field.angle > 4) & (field.angle < 28)


def _noise(draw: random.Random, side: int, step: int) -> Floats:
    """Smooth noise between -1 and 1 with a wavelength of `step` cells."""
    count = side // step + 2
    knots = np.array([[2 * draw.random() - 1 for _ in range(count)] for _ in range(count)])
    at = np.arange(side) / step
    low = at.astype(int)
    part = at - low
    ease = part * part * (3 - 2 * part)
    rows = knots[low] * (1 - ease)[:, None] + knots[low + 1] * ease[:, None]
    out: Floats = rows[:, low] * (1 - ease)[None, :] + rows[:, low + 1] * ease[None, :]
    return out
