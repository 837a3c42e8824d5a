"""The kart's levels are circuits: the syntax of the keys of [levels].

A key is one of

- the name of one of the game's own circuits, such as `MarioCircuit.Act1`, or a glob of such names, such as `*.Act1`;
  `*` cancels all keys before it, including paths and generated circuits;
- a path of a start state (`.state`), of a circuit file (`.toml`), of a folder (all start states in it), or a glob of
  these. A path contains a /, or ends in .state or .toml; it is relative to the current folder;
- `random:100`: the generated circuits with the numbers 0 to 99; `random:100-119`: those with these numbers. Number n
  has the kind n modulo 8; `random:100:ice` and `random:100-119:ice` are all of one kind. A number and a kind always
  give the same circuit, so ranges that do not overlap have no circuit in common.

If several keys name the same circuit, the last one counts.
"""

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, ClassVar, NamedTuple

from kartrl.config.levels import Levels, LevelSyntax, NamedLevels, Use, fits_file

KINDS = (
    "asphalt",
    "dirt",
    "planks",
    "castle",
    "mud",
    "beach",
    "ice",
    "rainbow",
)  # of circuits, in the order of their numbers in the ROM
CIRCUITS = tuple(
    f"{kind}.Act{act}"
    for kind, acts in (
        ("BowserCastle", 3),
        ("ChocoIsland", 2),
        ("DonutPlains", 3),
        ("GhostValley", 3),
        ("KoopaBeach", 2),
        ("MarioCircuit", 4),
        ("RainbowRoad", 1),
        ("VanillaLake", 2),
    )
    for act in range(1, acts + 1)
)
LEVELS: dict[str, Use] = {
    "MarioCircuit.Act1": "train",
    "MarioCircuit.Act2": "train",
    "MarioCircuit.Act3": "train",
    "MarioCircuit.Act4": "test",
    "random:3:asphalt": "train",  # without it, the policy memorises the others in long runs (results/)
}
_OWN = NamedLevels(dict.fromkeys(CIRCUITS, "none"))
HIGHEST = 999_999  # number of a generated circuit
MOST_RANDOM = 10_000  # generated circuits per key; twice as many in all, to train and to test on
MOST_WILD = 2  # parts of a path that may have a wildcard: each multiplies the number of folders searched
_GENERATED = re.compile(r"random\.[a-z]+\.(\d{4,6})", re.ASCII)
_RANDOM = re.compile(r"random:(\d{1,6})(?:-(\d{1,6}))?(?::([a-z]+))?", re.ASCII)


class CircuitSyntax(LevelSyntax):
    """See the module."""

    hints: ClassVar = (
        "keys: the game's own circuits by name or glob (*.Act1), start states and circuit files by path, folder or",
        "glob (mine/, a/*.state), generated ones: random:100 (numbers 0 to 99), random:100-119, random:100:ice; the",
        "last key that names a circuit counts; * is all of the game's own circuits, and cancels all keys before it",
    )
    defaults: ClassVar[Mapping[str, Use]] = {name: LEVELS.get(name, "none") for name in CIRCUITS} | LEVELS

    def mistake(self, key: str, in_file: bool = True) -> str | None:
        return mistake(key, in_file)

    def is_path(self, key: str) -> bool:
        return is_path(key)

    def complete(self, uses: dict[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, use in super().complete(uses).items():
            if key == "*":
                result = {name: value for name, value in result.items() if not (is_random(name) or is_path(name))}
            result[key] = use
        if (number := generated(result)) > 2 * MOST_RANDOM:
            raise ValueError(f"{number:,} generated circuits; at most {2 * MOST_RANDOM:,} are possible")
        return result


class Numbers(NamedTuple):
    """The circuits that `random:...` stands for."""

    numbers: range
    kind: str | None  # None: all kinds in turn


def is_random(key: str) -> bool:
    """Whether a key of [levels] stands for generated circuits."""
    return key.startswith("random:")


def is_path(key: str) -> bool:
    """Whether a key of [levels] is a path rather than a name."""
    return not is_random(key) and ("/" in key or "\\" in key or key.endswith((".state", ".toml")))


def numbers_of(key: str) -> Numbers:
    """The generated circuits that a key `random:...` stands for.

    Raises:
        ValueError: it is malformed; the message is one line.
    """
    match = _RANDOM.fullmatch(key)
    if match is None:
        raise ValueError(
            "expected random:COUNT or random:FIRST-LAST, optionally followed by :KIND, as in random:100-119:ice"
        )
    first, last, kind = match.groups()
    numbers = range(int(first)) if last is None else range(int(first), int(last) + 1)
    if not 1 <= len(numbers) <= MOST_RANDOM:
        raise ValueError(f"asks for {max(0, numbers.stop - numbers.start)} circuits; 1 to {MOST_RANDOM:,} are possible")
    if kind is not None and kind not in KINDS:
        raise ValueError(f"unknown kind {kind[:20]!r}; choose from {', '.join(KINDS)}")
    return Numbers(numbers, kind)


def mistake(key: str, in_file: bool = True) -> str | None:
    """What is wrong with a key of [levels], in one line; None if it is valid. Does not check that files exist.

    Args:
        in_file: whether it must be fit for a configuration file.
    """
    if is_random(key):
        try:
            numbers_of(key)
        except ValueError as error:
            return str(error)
        return None
    if is_path(key) or _is_glob(key):
        if in_file and not fits_file(key):
            return "not allowed in a configuration; begin paths with ./ and rename files with = or special characters"
        if sum(map(_is_glob, PurePath(key).parts)) > MOST_WILD or "**" in key:
            return f"at most {MOST_WILD} parts of a path may contain wildcards, and none may be **"
        if is_path(key):
            return None
    wrong = _OWN.mistake(key)
    return wrong and f"{wrong} (a path has a / in it; generated ones are random:COUNT)"


def generated(uses: Mapping[str, Any]) -> int:
    """Number of generated circuits that keys stand for; those named twice count twice."""
    return sum(len(numbers_of(key).numbers) for key in uses if is_random(key))


def single_keys(levels: Levels) -> list[str]:
    """The circuits in use, a key for each, but for those that a path stands for."""
    uses = {single: use for key, use in levels.uses.items() for single in _singles(key)}
    return [key for key, use in uses.items() if use != "none"]


def named(levels: Mapping[str, Use]) -> dict[str, Use]:
    """The game's own circuits that the keys name, each with the value of the last such key."""
    return {name: use for key, use in levels.items() for name in names_of(key)}


def names_of(key: str) -> list[str]:
    """The game's own circuits that a key stands for; it must not be a path."""
    return _OWN.expand(key) if _is_glob(key) else [key]


def _singles(key: str) -> list[str]:
    if not is_random(key):
        return [key] if is_path(key) else names_of(key)
    numbers, kind = numbers_of(key)
    return [f"random:{number}-{number}:{kind_of(number, kind)}" for number in numbers]


def circuit_name(circuit: str) -> str:
    """Name of a circuit in logs and tables: its own, or that of its start state's file, without special characters."""
    return re.sub(r"[^\w.+-]+", "_", PurePath(circuit).name.removesuffix(".state")) if is_path(circuit) else circuit


def kind_of(number: int, kind: str | None) -> str:
    """The kind of a generated circuit: the given one or, if None, each in turn."""
    return kind or KINDS[number % len(KINDS)]


def random_name(number: int, kind: str | None) -> str:
    """Name of a generated circuit."""
    return f"random.{kind_of(number, kind)}.{number:04}"


def is_generated(name: str, numbers: Numbers | None = None) -> bool:
    """Whether this is the name of a generated circuit, and of one of those that `random:...` stands for, if given."""
    match = _GENERATED.fullmatch(name)
    if match is None or numbers is None:
        return match is not None
    number = int(match[1])
    return number in numbers.numbers and name == random_name(number, numbers.kind)


def group_of(name: str) -> str:
    """The group of a circuit, where there are too many for a row each: its name without the last part."""
    return name.rpartition(".")[0] or "own"


def _is_glob(key: str) -> bool:
    return any(letter in key for letter in "*?[")
