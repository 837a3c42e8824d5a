"""The TOML format of circuits: parsing, validation and writing; docs/reference/circuit-files.md is for users."""

import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from kartrl.config.wording import nearest, word
from kartrl.errors import UserError
from kartrl.files import explained, read_text
from kartrl.kart.block import SIZE, TITLE

KIND = Literal["asphalt", "dirt", "planks", "castle", "mud", "beach", "ice", "rainbow"]
OWN = Path(__file__).with_name("bundled")  # the files of the bundled game's own circuits
SHOWN = 3  # maximum faults in a one-line message
APART = 16  # minimum pixels between two control points
Pixel = Annotated[float, Field(ge=0, lt=SIZE)]
Point = tuple[Pixel, Pixel, Annotated[float, Field(ge=32, le=160)]]
"""x, y and width of the road."""
Whole = Annotated[int, Field(ge=0, lt=SIZE)]
Spot = tuple[Whole, Whole]
Wall = tuple[Whole, Whole, Whole, Whole]
_PARTS = {
    "points": ("x", "y", "width"),
    "walls": ("x0", "y0", "x1", "y1"),
    "trees": ("x", "y"),
}  # names of the numbers in a list


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class OnRoad(_Table):
    """An object on the road: `at` counts control points (2.5: half way from point 2 to point 3), `across` is -1 (left
    edge) to 1 (right edge)."""

    at: float = Field(ge=0)
    across: float = Field(0, ge=-1, le=1)


class Coins(OnRoad):
    """A row of coins along the road."""

    count: int = Field(1, ge=1, le=8)


class Plate(OnRoad):
    """A boost plate."""


class Jump(_Table):
    """A ramp across the whole road."""

    at: float = Field(ge=0)


class Patch(_Table):
    """A round patch of other ground: on the road (`at`, `across`) or anywhere (`x`, `y`)."""

    ground: Literal["mud", "soil", "water", "shallows", "sand", "ice", "snow", "grass", "lava"]
    size: int = Field(16, ge=8, le=160)  # radius, pixels
    at: float | None = Field(None, ge=0)
    across: float = Field(0, ge=-1, le=1)
    x: Pixel | None = None
    y: Pixel | None = None

    @model_validator(mode="after")
    def _has_one_place(self) -> "Patch":
        if (self.at is None) == (self.x is None) or (self.x is None) != (self.y is None):
            raise ValueError("needs either at (and across) or x and y")
        return self


class Rail(_Table):
    """A wall along the road from one control point to another, also across the start line; by default all round."""

    start: float = Field(0, ge=0, alias="from")
    end: float = Field(0, ge=0, alias="to")
    side: Literal["left", "right", "both"] = "both"


class Circuit(_Table):
    """The contents of a circuit's file."""

    title: str = Field(pattern=rf"^[A-Z0-9 ]{{1,{TITLE}}}$")
    kind: KIND
    points: tuple[Point, ...] = Field(min_length=4, max_length=64)
    corners: Literal["round", "right"] = "round"  # a smooth curve through the points, or straight pieces between them
    sections: int | None = Field(None, ge=24, le=64)
    walls: tuple[Wall, ...] = ()
    rails: tuple[Rail, ...] = ()
    trees: tuple[Spot, ...] = ()
    scenery: float = Field(0.5, ge=0, le=1)
    coins: tuple[Coins, ...] = ()
    boosts: tuple[Plate, ...] = ()
    jumps: tuple[Jump, ...] = ()
    patches: tuple[Patch, ...] = ()

    @model_validator(mode="after")
    def _points_fit(self) -> "Circuit":
        if found := [*self._close_points(), *self._out_of_range()]:
            raise ValueError("; ".join(found))
        return self

    def _close_points(self) -> Iterator[str]:
        for number, ((ax, ay, _), (bx, by, _)) in enumerate(
            zip(self.points, self.points[1:] + self.points[:1], strict=True)
        ):
            if (ax - bx) ** 2 + (ay - by) ** 2 < APART * APART:
                yield f"points {number} and {(number + 1) % len(self.points)} are less than {APART} pixels apart"

    def _out_of_range(self) -> Iterator[str]:
        places = [
            (f"{key}.{number}.at", thing.at)
            for key in ("coins", "boosts", "jumps", "patches")
            for number, thing in enumerate(getattr(self, key))
            if thing.at is not None
        ]
        for number, rail in enumerate(self.rails):
            places += [(f"rails.{number}.from", rail.start), (f"rails.{number}.to", rail.end)]
        for key, at in places:
            if at >= len(self.points):
                yield f"{key} is {at:g}, but the points are numbered 0 to {len(self.points) - 1}"


class CircuitError(UserError):
    """A file that is not a circuit.

    Attributes:
        faults: one sentence each.
    """

    def __init__(self, source: str, faults: list[str]) -> None:
        more = f" (and {len(faults) - SHOWN} more: kartrl circuit check)" if len(faults) > SHOWN else ""
        super().__init__(f"{source}: {'; '.join(faults[:SHOWN])}{more}")
        self.faults = faults


def parse(text: str, source: str) -> Circuit:
    """Parse and validate the text of a circuit's file; `source` names the file in errors.

    Raises:
        CircuitError: not TOML, or a key is missing, unknown or out of bounds.
    """
    try:
        return Circuit.model_validate(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise CircuitError(source, [f"not a TOML file: {error}"]) from error
    except ValidationError as errors:
        raise CircuitError(source, _messages(errors)) from errors


def _messages(errors: ValidationError) -> list[str]:
    found = errors.errors(include_url=False, include_input=False)
    # a list with invalid entries is also reported as too short: drop that
    inside = {error["loc"][:1] for error in found if len(error["loc"]) > 1}
    return [_message(error) for error in found if error["type"] != "too_short" or error["loc"] not in inside]


def _message(error: ErrorDetails) -> str:
    place = [*error["loc"]]
    if len(place) > 2 and place[0] in _PARTS:
        place[2] = _PARTS[str(place[0])][int(place[2])]
    key = ".".join(map(str, place))
    if error["type"] == "extra_forbidden":
        return f"unknown key {key}; the nearest valid one is {nearest(str(place[-1]), _keys(place[:-1]))}"
    if key == "title" and error["type"] != "missing":
        return f"title must be 1 to {TITLE} capitals, digits and spaces"
    return f"{key} {word(error)}".lstrip()


def _keys(place: Sequence[int | str]) -> list[str]:
    """The valid keys of a table in a circuit's file; `place` is its path, [] for the file itself."""
    table: type[BaseModel] = Circuit
    if place:
        (table, _) = get_args(Circuit.model_fields[str(place[0])].annotation)  # tuple[Coins, ...]
    return [field.alias or name for name, field in table.model_fields.items()]


def title_of(name: str) -> str:
    """The title of one of the bundled game's own circuits, "Crown Heights"; "" for other names."""
    file = OWN / f"{name}.toml"
    return read(file).title.title() if file.is_file() else ""


def read(path: Path) -> Circuit:
    """Read a circuit from a file.

    Raises:
        UserError: the file cannot be read; or, as `CircuitError`, it is not a circuit.
    """
    try:
        with explained(path, "read this circuit"):
            text = read_text(path)
    except UnicodeDecodeError as error:
        raise CircuitError(str(path), [f"cannot read: {error}"]) from error
    return parse(text, str(path))


def to_toml(circuit: Circuit) -> str:
    """The text of a circuit's file, without values that equal the defaults."""
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
