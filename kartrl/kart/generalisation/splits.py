"""The fixed splits of the circuits into training circuits and held-out circuits."""

from collections.abc import Sequence
from typing import NamedTuple

from kartrl.config.levels import CIRCUITS
from kartrl.errors import UserError


class Split(NamedTuple):
    """Training circuits, and the sets of circuits to evaluate on.

    Circuits are named as in [levels]. Each labelled set is a row of the table.
    """

    name: (
        str  # the part before a dash is the family: folds of the same question, whose unseen circuits are put together
    )
    train: tuple[str, ...]
    seen: tuple[str, ...]  # training circuits to evaluate on
    unseen: dict[str, tuple[str, ...]]  # label -> circuits

    @property
    def family(self) -> str:
        """Name of the family that this fold belongs to."""
        return self.name.partition("-")[0]

    def sets(self) -> dict[str, tuple[str, ...]]:
        """All sets to evaluate on."""
        return {SEEN: self.seen, **self.unseen}


SEEN = "trained on"
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


SPLITS = (
    _within(),
    *(_across(number, kinds) for number, kinds in enumerate(FOLDS, 1)),
    Split(
        "random", ("random:100",), ("random:20",), {"unseen generated": ("random:100-119",), "unseen by hand": CIRCUITS}
    ),
)
QUICK = (
    SPLITS[0],
    SPLITS[1],
    Split(
        "random", ("random:16",), ("random:8",), {"unseen generated": ("random:100-107",), "unseen by hand": CIRCUITS}
    ),
)


def chosen(names: Sequence[str], splits: Sequence[Split]) -> list[Split]:
    """The splits with these names or of these families; all if there are no names.

    Raises:
        UserError: unknown split.
    """
    known = [split.name for split in splits] + [split.family for split in splits]
    for name in names:
        if name not in known:
            raise UserError(f"--splits {name[:80]}: unknown split; choose from {', '.join(dict.fromkeys(known))}")
    return [split for split in splits if not names or split.name in names or split.family in names]
