"""What Procgen brings to the configuration: ranges of level numbers to train and to test on."""

import itertools
import re
from collections.abc import Mapping
from typing import Any, ClassVar

from kartrl.config.levels import LevelSyntax, Use
from kartrl.config.worlds import WorldSettings

ALL = "all"
USES = ("train", "test")
LEVELS = 2**31 - 1  # EnvPool's numbers are int32
_RANGE = re.compile(r"(0|[1-9]\d{0,9})-(0|[1-9]\d{0,9})", re.ASCII)


class RangeSyntax(LevelSyntax):
    """A key is a range of level numbers, such as `0-199`, or `all`; each is one level of kartrl, drawn from evenly."""

    hints: ClassVar = (
        "keys: ranges of level numbers, such as 0-199, from which each episode draws one; all: all 2 billion, of which",
        "practically none is in another range, so that they test on unseen levels, as in Procgen's paper",
    )
    defaults: ClassVar[Mapping[str, Use]] = {"0-199": "train", ALL: "test"}

    def mistake(self, key: str, in_file: bool = True) -> str | None:
        match = _RANGE.fullmatch(key)
        if key == ALL or (match and int(match[1]) <= int(match[2]) < LEVELS):
            return None
        return f"expected {ALL}, or a range FIRST-LAST of level numbers below {LEVELS:,}, as in 0-199"

    def complete(self, uses: dict[str, Any]) -> dict[str, Any]:
        """See `LevelSyntax`; levels of a range to train on must not be in one to test on."""
        found = super().complete(uses)
        train, test = ({key: bounds(key) for key, of in found.items() if of == use and key != ALL} for use in USES)
        for (one, (first, last)), (other, (start, end)) in itertools.product(train.items(), test.items()):
            if first <= end and start <= last:
                raise ValueError(f"{one} to train on and {other} to test on have levels in common")
        return found


def bounds(key: str) -> tuple[int, int]:
    """First and last number of a range of levels."""
    first, last = map(int, key.split("-")) if key != ALL else (0, LEVELS - 1)
    return first, last


SETTINGS = WorldSettings("kartrl.procgen.world:ProcgenWorld", levels=RangeSyntax())
