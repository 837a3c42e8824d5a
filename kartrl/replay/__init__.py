"""Replays: what they keep of unrolls, and which of them they draw again; and the one table of their methods."""

from collections.abc import Callable, Sequence

import torch

from kartrl.config.replay import Drawn
from kartrl.config.replay import Replay as Section
from kartrl.replay.mixture import Mixture, Part
from kartrl.replay.prioritised import PrioritisedReplay
from kartrl.replay.replay import Replay
from kartrl.replay.uniform import UniformReplay
from kartrl.replay.unroll_memory import MemoryShape, UnrollMemory

__all__ = ["MemoryShape", "Mixture", "Replay", "UnrollMemory", "make_mixture"]


def make_mixture(
    section: Section,
    drawn: Sequence[Drawn],
    shape: MemoryShape,
    generator: torch.Generator,
    progress: Callable[[], float],
) -> Mixture:
    """The replays of a run.

    Args:
        drawn: which they are.
        shape: of their memory.
        generator: draws.
        progress: of the run's schedules, 0 to 1.
    """
    memory = UnrollMemory(shape)

    def make(method: str, capacity: int) -> Replay:
        if method == "uniform":
            return UniformReplay(memory, capacity, generator)
        beta = section.importance_exponent
        return PrioritisedReplay(memory, capacity, generator, section.priority_exponent, lambda: beta.at(progress()))

    parts = [Part(each.name, make(each.method, each.capacity // shape.unroll_length), each.share) for each in drawn]
    return Mixture(memory, parts)
