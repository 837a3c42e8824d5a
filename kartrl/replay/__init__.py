"""Replays: which unrolls are kept, and which are sampled again; and the table of the methods."""

from collections.abc import Callable, Sequence

import torch

from kartrl.config.replay import Drawn
from kartrl.config.replay import Replay as Section
from kartrl.replay.attentive import AttentiveReplay
from kartrl.replay.candidates import Choice, Embed
from kartrl.replay.distances import make_distance
from kartrl.replay.elite import EliteReplay
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
    embed: Embed,
) -> Mixture:
    """Make the replays of a run.

    Args:
        drawn: which replays to make.
        shape: of their memory.
        progress: returns the progress of the run's schedules, 0 to 1.
        embed: computes the features of observations.
    """
    memory = UnrollMemory(shape)
    choice = Choice(
        embed,
        make_distance(section.distance, section.norm),
        section.strategy,
        lambda: section.candidates.at(progress()),
        section.challengers if section.insertion == "elite" else 0,
    )

    def make(method: str, capacity: int) -> Replay:
        if method == "uniform":
            return UniformReplay(memory, capacity, generator)
        if method == "prioritised":
            alpha, beta = section.priority_exponent, section.importance_exponent
            return PrioritisedReplay(memory, capacity, generator, alpha, lambda: beta.at(progress()))
        by_distance = AttentiveReplay if method == "attentive" else EliteReplay
        return by_distance(memory, capacity, generator, choice)

    parts = [Part(each.name, make(each.method, each.capacity // shape.unroll_length), each.share) for each in drawn]
    return Mixture(memory, parts)
