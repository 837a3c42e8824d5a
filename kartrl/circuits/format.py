"""A circuit's file: TOML in, checked values out, and back. docs/circuits.md describes the format to its users."""

import re
import tomllib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from kartrl.circuits.block import SIZE, TITLE
from kartrl.errors import UserError

KIND = Literal["asphalt", "dirt", "planks", "castle", "mud", "beach", "ice", "rainbow"]
APART = 16  # pixels between two control points, at the least
Pixel = Annotated[float, Field(ge=0, lt=SIZE)]
Point = tuple[Pixel, Pixel, Annotated[float, Field(ge=32, le=160)]]
"""x, y and the road's width there."""
Whole = Annotated[int, Field(ge=0, lt=SIZE)]
Spot = tuple[Whole, Whole]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class OnRoad(_Table):
    """Something on the road: `at` counts control points (2.5: half way from point 2 to point 3), `across` goes from the
    road's left edge, -1, to its right edge, 1."""

    at: float = Field(ge=0, lt=64)
    across: float = Field(0, ge=-1, le=1)


class Coins(OnRoad):
    """A row of coins along the road."""

    count: int = Field(1, ge=1, le=8)


class Plate(OnRoad):
    """A boost plate."""


class Jump(_Table):
    """A ramp over the road's whole width."""

    at: float = Field(ge=0, lt=64)


class Patch(_Table):
    """A round piece of other ground: on the road (`at`, `across`) or anywhere (`x`, `y`)."""

    ground: Literal["mud", "soil", "water", "shallows", "sand", "ice", "snow", "grass", "lava"]
    size: int = Field(16, ge=8, le=160)  # radius, pixels
    at: float | None = Field(None, ge=0, lt=64)
    across: float = Field(0, ge=-1, le=1)
    x: Pixel | None = None
    y: Pixel | None = None

    @model_validator(mode="after")
    def _has_one_place(self) -> "Patch":
        if (self.at is None) == (self.x is None) or (self.x is None) != (self.y is None):
            raise ValueError("needs either at (and across) or x and y")
        return self


class Rail(_Table):
    """A wall beside the road from one control point to another; without points, all the way round."""

    start: float = Field(0, ge=0, lt=64, alias="from")
    end: float = Field(0, ge=0, lt=64, alias="to")
    side: Literal["left", "right", "both"] = "both"


class Circuit(_Table):
    """All that a circuit's file says."""

    title: str = Field(pattern=rf"^[A-Z0-9 ]{{1,{TITLE}}}$")
    kind: KIND
    points: tuple[Point, ...] = Field(min_length=4, max_length=64)
    corners: Literal["round", "right"] = "round"  # a smooth curve through the points, or straight pieces between them
    sections: int | None = Field(None, ge=24, le=64)
    walls: tuple[tuple[Whole, Whole, Whole, Whole], ...] = ()
    rails: tuple[Rail, ...] = ()
    trees: tuple[Spot, ...] = ()
    scenery: float = Field(0.5, ge=0, le=1)
    coins: tuple[Coins, ...] = ()
    boosts: tuple[Plate, ...] = ()
    jumps: tuple[Jump, ...] = ()
    patches: tuple[Patch, ...] = ()

    @model_validator(mode="after")
    def _points_are_apart(self) -> "Circuit":
        for number, ((ax, ay, _), (bx, by, _)) in enumerate(zip(self.points, self.points[1:] + self.points[:1], strict=True)):
            if (ax - bx) ** 2 + (ay - by) ** 2 < APART * APART:
                raise ValueError(f"points {number} and {(number + 1) % len(self.points)} are less than {APART} pixels apart")
        return self

    @model_validator(mode="after")
    def _points_are_there(self) -> "Circuit":
        for key in ("coins", "boosts", "jumps", "patches"):
            for number, found in enumerate(getattr(self, key)):
                if found.at is not None and found.at >= len(self.points):
                    raise ValueError(f"{key}.{number}.at is {found.at:g}, but the points are numbered 0 to {len(self.points) - 1}")
        for number, rail in enumerate(self.rails):
            if max(rail.start, rail.end) >= len(self.points):
                raise ValueError(f"rails.{number} goes beyond the points, which are numbered 0 to {len(self.points) - 1}")
        return self


def parse(text: str, source: str) -> Circuit:
    """The circuit that a file's text describes.

    Raises:
        UserError: it is not TOML, or a key is missing, unknown or out of its bounds; `source` names the file.
    """
    try:
        return Circuit.model_validate(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UserError(f"{source}: not a TOML file: {error}") from error
    except ValidationError as errors:
        found = [_worded(error["loc"], error["type"], error["msg"]) for error in errors.errors(include_url=False, include_input=False)]
        more = f" (and {len(found) - 3} more)" if len(found) > 3 else ""
        raise UserError(f"{source}: {'; '.join(found[:3])}{more}") from errors


def _worded(place: tuple[int | str, ...], kind: str, message: str) -> str:
    key = ".".join(map(str, place))
    if kind == "extra_forbidden":
        return f"unknown key {key}"
    if kind == "missing":
        return f"{key} is missing"
    if key == "title":
        return f"title must be 1 to {TITLE} capitals, figures and spaces"
    return f"{key}: {message}" if key else re.sub("^Value error, ", "", message)


def read(path: Path) -> Circuit:
    """The circuit in a file.

    Raises:
        UserError: it cannot be read, or is not a circuit.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from error
    return parse(text, str(path))


def written(circuit: Circuit) -> str:
    """The text of a circuit's file, values that are the defaults left out."""
    lines = []
    for key, value in circuit.model_dump(mode="json", by_alias=True, exclude_defaults=True).items():
        if isinstance(value, list) and value and isinstance(value[0], list | dict):
            lines += [f"{key} = [", *(f"    {_toml(item)}," for item in value), "]"]
        else:
            lines.append(f"{key} = {_toml(value)}")
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, float):
        return f"{value:g}"
    return f'"{value}"' if isinstance(value, str) else str(value)
