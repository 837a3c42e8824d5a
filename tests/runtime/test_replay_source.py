"""Replayed batches follow fresh ones, as many as the ratio says; what the source holds is given back after them."""

import threading
from collections import Counter

import numpy as np
import torch
from trajectories import DISCRETE, random_trajectory

from kartrl.config.algorithms import Replaying
from kartrl.metrics.stopwatch import TRAINER_STAGES, Stopwatch
from kartrl.replay import MemoryShape, UniformReplay, UnrollMemory
from kartrl.runtime.replay_source import ReplaySource
from kartrl.trajectory import Trajectory

T, B = 7, 3


class Fresh:
    """A source of numbered batches that notes when they are given back."""

    dropped = 5

    def __init__(self, number=10_000):
        self.left, self.given, self.back = number, 0, 0

    def next(self, stopwatch):
        if not self.left:
            return None
        self.left -= 1
        self.given += 1
        tensors = random_trajectory(DISCRETE, self.given % 7, size=B, state_size=2, dtype=torch.float32)
        batch = Trajectory(*(tensor.numpy() for tensor in tensors))
        return batch._replace(version=np.full((T, B), self.given))

    def published(self):
        self.back += 1


def mixed(fresh, stop=None, seed=0, **settings):
    section = Replaying(**{"replay_capacity": 50 * T, "replay_start": 1, **settings})
    memory = UnrollMemory(MemoryShape(section.replay_capacity, T, (3,), "float32", 1, 7, 2))
    generator = torch.Generator().manual_seed(seed)
    return ReplaySource(fresh, UniformReplay(memory, generator), section, generator, stop or threading.Event())


def take(source, number):
    watch, batches = Stopwatch(TRAINER_STAGES), []
    for _ in range(number):
        batches.append(source.next(watch))
        source.published()
    return batches


def test_the_number_of_replayed_batches_is_poisson_distributed():
    source = mixed(Fresh(), replay_ratio=2.0)
    kinds = "".join("f" if batch.online.all() else "r" for batch in take(source, 3000))
    runs = [len(run) for run in kinds.split("f")[1:-1]]
    assert abs(np.mean(runs) - 2.0) < 0.2
    assert abs(np.var(runs) - 2.0) < 0.4
    assert Counter(runs)[0] > 0


def test_replayed_unrolls_are_older_ones_marked_as_such_and_as_many_as_a_fresh_batch_has():
    batches = take(mixed(Fresh(), replay_ratio=3.0), 200)
    newest = 0
    for batch in batches:
        assert batch.online.all() or not batch.online.any()
        assert len(batch.online) == B
        if batch.online.all():
            newest = int(batch.version.max())
        else:
            assert batch.version.max() <= newest
            assert newest - batch.version.min() <= 50 // B + 1, "the oldest are overwritten"


def test_nothing_is_replayed_before_the_replay_holds_enough():
    source = mixed(Fresh(), replay_ratio=100.0, replay_start=10 * B * T)
    batches = take(source, 12)
    assert all(batch.online.all() for batch in batches[:10])
    assert not batches[10].online.any()


def test_blocks_are_given_back_only_when_the_last_replayed_batch_was_learned_from():
    fresh = Fresh()
    source, watch = mixed(fresh, replay_ratio=2.0), Stopwatch(TRAINER_STAGES)
    for _ in range(200):
        source.next(watch)
        before = fresh.back
        source.published()
        assert fresh.back in (before, before + 1)
        assert fresh.given - fresh.back in (0, 1)
        following = source._to_come
        assert (fresh.back == fresh.given) == (following == 0)


def test_it_ends_with_the_run_also_in_the_middle_of_replayed_batches():
    stop = threading.Event()
    source, watch = mixed(Fresh(), stop, replay_ratio=100.0), Stopwatch(TRAINER_STAGES)
    assert source.next(watch).online.all()
    assert not source.next(watch).online.any()
    stop.set()
    assert source.next(watch) is None
    ended = mixed(Fresh(1), replay_ratio=0.0)
    assert ended.next(watch) is not None
    assert ended.next(watch) is None
    assert ended.dropped == 5


def test_the_same_seed_draws_the_same():
    one, other = (take(mixed(Fresh(), seed=4, replay_ratio=2.0), 40) for _ in range(2))
    for a, b in zip(one, other, strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)
