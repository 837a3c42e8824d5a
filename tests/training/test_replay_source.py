"""Replayed batches follow fresh ones, as many as the ratio says; what the source holds is given back after them."""

import threading
from collections import Counter

import numpy as np
import torch
from trajectories import DISCRETE, random_trajectory

from kartrl.config.replay import Replay
from kartrl.envs.observation_spec import plain
from kartrl.metrics.stopwatch import TRAINER_STAGES, Stopwatch
from kartrl.replay import MemoryShape, make_mixture
from kartrl.training.replay_source import AlternatingSource, MixedSource
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

    def published(self, update=None):
        self.back += 1


def mixture_of(section, by_default, seed):
    drawn = section.drawn(by_default)
    shape = MemoryShape(50 + B, T, plain(3), 1, 7, 2)
    return make_mixture(section, drawn, shape, torch.Generator().manual_seed(seed), lambda: 0.0, embed=None)


def alternating(fresh, ratio, start=1, stop=None, seed=0):
    section = Replay(capacities=(50 * T,), start=start)
    generator = torch.Generator().manual_seed(seed)
    stop = stop or threading.Event()
    return AlternatingSource(fresh, mixture_of(section, "uniform", seed), start, stop, ratio, generator)


def mixed(fresh, start=1, seed=0, **settings):
    section = Replay(capacities=(50 * T,), start=start, **settings)
    queue = 1 - sum(each.share for each in section.drawn("none"))
    return MixedSource(fresh, mixture_of(section, "none", seed), start, threading.Event(), queue)


def take(source, number):
    watch, batches = Stopwatch(TRAINER_STAGES), []
    for _ in range(number):
        batches.append(source.next(watch))
        source.published()
    return batches


def test_the_number_of_replayed_batches_is_poisson_distributed():
    source = alternating(Fresh(), 2.0)
    kinds = "".join("f" if batch.online.all() else "r" for batch in take(source, 3000))
    runs = [len(run) for run in kinds.split("f")[1:-1]]
    assert abs(np.mean(runs) - 2.0) < 0.2
    assert abs(np.var(runs) - 2.0) < 0.4
    assert Counter(runs)[0] > 0


def test_replayed_unrolls_are_marked_older_and_of_batch_size():
    batches = take(alternating(Fresh(), 3.0), 200)
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
    source = alternating(Fresh(), 100.0, start=10 * B * T)
    batches = take(source, 12)
    assert all(batch.online.all() for batch in batches[:10])
    assert not batches[10].online.any()


def test_blocks_are_released_after_the_last_replayed_batch():
    fresh = Fresh()
    source, watch = alternating(fresh, 2.0), Stopwatch(TRAINER_STAGES)
    for _ in range(200):
        source.next(watch)
        before = fresh.back
        source.published()
        assert fresh.back in (before, before + 1)
        assert fresh.given - fresh.back in (0, 1)
        following = source.to_come
        assert (fresh.back == fresh.given) == (following == 0)


def test_replay_source_ends_with_the_run_between_batches():
    stop = threading.Event()
    source, watch = alternating(Fresh(), 100.0, stop=stop), Stopwatch(TRAINER_STAGES)
    assert source.next(watch).online.all()
    assert not source.next(watch).online.any()
    stop.set()
    assert source.next(watch) is None
    ended = alternating(Fresh(1), 0.0)
    assert ended.next(watch) is not None
    assert ended.next(watch) is None
    assert ended.dropped == 5


def test_the_same_seed_draws_the_same():
    one, other = (take(alternating(Fresh(), 2.0, seed=4), 40) for _ in range(2))
    for a, b in zip(one, other, strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)


def test_a_mixed_batch_holds_each_share_beside_the_fresh_unrolls():
    fresh = Fresh()
    source = mixed(fresh, start=10 * B * T, methods=("uniform", "queue", "prioritised"), shares=(0.5, 0.3, 0.2))
    batches = take(source, 20)
    for number, batch in enumerate(batches, 1):
        assert (batch.version[:, batch.online] == number).all(), "what is fresh comes first"
        assert batch.online.sum() == B
        assert len(batch.online) == (B if number < 10 else 10)
        assert (batch.importance[:B] == 1).all()
        assert (batch.importance > 0).all()
        assert len(set(batch.serial[batch.online])) == B
    assert fresh.given == fresh.back == 20


class Update:
    """What came of an update, as far as a source asks."""

    def __init__(self, batch, errors):
        self.batch, self.errors = batch, errors

    def td_errors(self):
        return self.batch.serial, self.errors


def test_errors_of_updates_become_priorities():
    source = mixed(Fresh(), methods=("queue", "prioritised"))
    watch, part = Stopwatch(TRAINER_STAGES), source.mixture.parts[0].replay
    for _ in range(20):
        batch = source.next(watch)
        source.published(Update(batch, np.full(len(batch.serial), 3.0, np.float32)))
    source.next(watch)
    assert (part.priorities[part.slots()] == 3.0).all(), "before anything is drawn again"
    source.published(None)  # an update that was skipped


def test_an_update_is_published_while_another_thread_draws():
    source = mixed(Fresh(), methods=("queue", "prioritised"))
    batch = source.next(Stopwatch(TRAINER_STAGES))
    with source.mixture.lock:
        learner = threading.Thread(target=source.published, args=(Update(batch, np.ones(B, np.float32)),), daemon=True)
        learner.start()
        learner.join(60)
        assert not learner.is_alive()


def test_uniform_replay_asks_for_no_errors():
    source = mixed(Fresh(), methods=("queue", "uniform"))
    source.next(Stopwatch(TRAINER_STAGES))
    source.published(Update(None, None))
