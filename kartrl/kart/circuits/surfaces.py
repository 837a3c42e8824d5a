"""The ground: what each surface does to a kart. The game's build turns this table into the ROM's."""

from enum import IntEnum
from typing import NamedTuple


class Effect(IntEnum):
    """What happens to a kart on the ground there, beyond the surface's speed and grip."""

    NONE = 0
    WALL = 1  # throws back, also in the air
    FALL = 2  # the kart falls, and is put back on the road
    LAVA = 3
    WATER = 4  # deep enough to sink
    BOOST = 5  # faster than the fastest for a moment
    JUMP = 6  # off the ground for a moment
    COIN = 7  # taken; the ground under it then counts


class Surface(NamedTuple):
    """One kind of ground.

    `ground_type` is what the race state calls it: 20 to 84 as in the public integration of Super Mario Kart where that
    names one, numbers of our own otherwise.
    """

    name: str
    ground_type: int
    top: int = 768  # fastest there, 1/256 pixel a tick
    drag: int = 4  # by how much a faster kart slows each tick
    grip: int = 2  # the way it moves follows the way it points by 1 / 2**grip of the difference each tick
    effect: Effect = Effect.NONE


SURFACES = (
    Surface("asphalt", 64),
    Surface("grass", 84, top=307, drag=16, grip=3),
    Surface("wall", 64, effect=Effect.WALL),
    Surface("dirt", 70, top=736),
    Surface("soil", 86, top=240, drag=24, grip=3),
    Surface("planks", 64),
    Surface("void", 4, effect=Effect.FALL),
    Surface("stone", 68),
    Surface("lava", 6, effect=Effect.LAVA),
    Surface("track", 76, top=736),
    Surface("mud", 88, top=400, drag=12, grip=3),
    Surface("beach", 74, top=736),
    Surface("sand", 90, top=360, drag=16, grip=3),
    Surface("shallows", 80, top=460, drag=12),
    Surface("water", 34, effect=Effect.WATER),
    Surface("ice", 78, grip=4),
    Surface("snow", 92, top=340, drag=16, grip=3),
    Surface("rainbow", 64),
    Surface("boost", 22, effect=Effect.BOOST),
    Surface("jump", 16, effect=Effect.JUMP),
    Surface("coin", 24, effect=Effect.COIN),
)
"""A surface's place here is its code, below 32, in a circuit's block."""

CODES = {surface.name: code for code, surface in enumerate(SURFACES)}
