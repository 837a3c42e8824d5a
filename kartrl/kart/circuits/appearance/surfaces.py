"""Surfaces and their effects on a kart. The game's build writes this table into the ROM."""

from enum import IntEnum
from typing import NamedTuple


class Effect(IntEnum):
    """Effect of a surface on a kart, besides its speed and grip."""

    NONE = 0
    WALL = 1  # bounces, also in the air
    FALL = 2  # the kart falls and is put back on the road
    LAVA = 3
    WATER = 4  # deep enough to sink
    BOOST = 5  # briefly above the top speed
    JUMP = 6  # briefly in the air
    COIN = 7  # collected; then the ground under it counts


class Surface(NamedTuple):
    """A kind of ground.

    `ground_type` is its value in the race state: as in stable-retro's integration of Super Mario Kart if it has one
    (20 to 84), otherwise a free number.
    """

    name: str
    ground_type: int
    top: int = 768  # top speed, 1/256 pixel per tick
    drag: int = 4  # deceleration of a faster kart, per tick
    grip: int = 2  # the velocity turns towards the heading by 1 / 2**grip of the difference per tick
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
"""A surface's index is its code, below 32, in a circuit's block."""

CODES = {surface.name: code for code, surface in enumerate(SURFACES)}
