"""Which levels an evaluation drives on, if there are too many for each."""

import itertools
from collections import defaultdict
from collections.abc import Sequence

from kartrl.envs.world import World


class Turns:
    """Levels that take turns, at most so many at a time."""

    def __init__(self, levels: Sequence[str], limit: int) -> None:
        self.levels, self._limit = tuple(levels), limit
        self._next = 0

    def take(self) -> list[str]:
        """The levels whose turn it is."""
        count = max(1, len(self.levels))
        taken = [self.levels[(self._next + index) % count] for index in range(min(len(self.levels), self._limit))]
        self._next = (self._next + len(taken)) % count
        return taken


def mixed(world: World, levels: Sequence[str]) -> list[str]:
    """The levels, alternating between groups, so that any few neighbours are from several groups."""
    groups: dict[str, list[str]] = defaultdict(list)
    for level in levels:
        groups[world.group_of(world.name_level(level))].append(level)
    return [level for row in itertools.zip_longest(*groups.values()) for level in row if level is not None]
