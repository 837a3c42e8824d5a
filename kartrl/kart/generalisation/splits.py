"""The fixed splits of the circuits into training circuits and held-out circuits."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kartrl.errors import UserError
from kartrl.kart.levels import CIRCUITS, KINDS


class Split(NamedTuple):
    """Training circuits, and the sets of circuits to evaluate on.

    Circuits are named as in [levels]. Each labelled set is a row of the table.
    """

    name: str  # the part before a dash is the family: folds of the same question, whose unseen circuits are pooled
    train: tuple[str, ...]
    seen: tuple[str, ...]  # training circuits to evaluate on
    unseen: Mapping[str, tuple[str, ...]]  # label -> circuits
    steps: float = 1.0  # factor of the benchmark's agent steps

    @property
    def group(self) -> str:
        """The question that it answers: within, across, random or kinds."""
        return "kinds" if self.name in KINDS else self.name.partition("-")[0].rstrip("0123456789")

    def sets(self) -> dict[str, tuple[str, ...]]:
        return {SEEN: self.seen, **self.unseen}


SEEN, UNSEEN = "trained on", "unseen generated"
COUNTS = (1, 3, 10, 30, 100, 300)  # generated circuits to train on, for the curve
FIRST_UNSEEN = 1000  # generated circuits with this number or a higher one are never trained on
FOLDS = (
    ("MarioCircuit", "GhostValley"),
    ("DonutPlains", "VanillaLake"),
    ("ChocoIsland", "RainbowRoad"),
    ("BowserCastle", "KoopaBeach"),
)
"""Kinds that are held out together. Of similar kinds (void beside the road: GhostValley, RainbowRoad; slow soft ground:
DonutPlains, ChocoIsland) one is always trained on."""


def kind_of(circuit: str) -> str:
    """The kind of a bundled circuit, from its name."""
    return circuit.partition(".")[0]


def _within() -> Split:
    """Holds out the last act of each kind; skips kinds with a single act."""
    acts: dict[str, list[str]] = {}
    for circuit in CIRCUITS:
        acts.setdefault(kind_of(circuit), []).append(circuit)
    held = tuple(circuits[-1] for circuits in acts.values() if len(circuits) > 1)
    train = tuple(circuit for circuits in acts.values() if len(circuits) > 1 for circuit in circuits[:-1])
    return Split("within", train, train, {"unseen acts": held})


def _across(number: int, kinds: Sequence[str]) -> Split:
    held = tuple(circuit for circuit in CIRCUITS if kind_of(circuit) in kinds)
    train = tuple(circuit for circuit in CIRCUITS if circuit not in held)
    return Split(f"across-{number}", train, train, {"unseen kinds": held})


def _random(count: int, driven: int = 200) -> Split:
    """Generated circuits of all kinds in turn; the largest split also holds out the game's own circuits."""
    unseen: dict[str, tuple[str, ...]] = {UNSEEN: (f"random:{FIRST_UNSEEN}-{FIRST_UNSEEN + driven - 1}",)}
    unseen |= {"unseen by hand": CIRCUITS} if count == COUNTS[-1] else {}
    return Split(f"random{count}", (f"random:{count}",), (f"random:{min(count, driven)}",), unseen)


def _only(kind: str, count: int = 10, driven: int = 3) -> Split:
    """Trains on generated circuits of one kind; unseen ones of every kind."""
    unseen = {other: (f"random:{FIRST_UNSEEN}-{FIRST_UNSEEN + driven - 1}:{other}",) for other in KINDS}
    return Split(kind, (f"random:{count}:{kind}",), (f"random:{driven}:{kind}",), unseen, 0.5)


SPLITS = (
    _within(),
    *(_across(number, kinds) for number, kinds in enumerate(FOLDS, 1)),
    *map(_random, COUNTS),
    *map(_only, KINDS),
)
QUICK = (SPLITS[0], SPLITS[1], _random(3, 8), _random(16, 8), _only("ice", 3, 1))


def chosen(names: Sequence[str], splits: Sequence[Split]) -> list[Split]:
    """The splits with these names or of these groups; all if there are no names.

    Raises:
        UserError: unknown split.
    """
    known = [split.name for split in splits] + [split.group for split in splits]
    for name in names:
        if name not in known:
            raise UserError(f"--splits {name[:80]}: unknown split; choose from {', '.join(dict.fromkeys(known))}")
    return [split for split in splits if not names or split.name in names or split.group in names]
