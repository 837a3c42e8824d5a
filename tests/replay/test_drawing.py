"""What each replay draws is distributed as it says, and is of what it holds."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy import stats
from trajectories import DISCRETE, random_trajectory

from kartrl.config.replay import Replay
from kartrl.config.schedule import constant
from kartrl.envs.observation_spec import plain
from kartrl.replay import MemoryShape, UnrollMemory, make_mixture
from kartrl.replay.mixture import Mixture, Part
from kartrl.replay.prioritised import SMALLEST, PrioritisedReplay
from kartrl.replay.uniform import UniformReplay
from kartrl.trajectory import Trajectory

T, CAPACITY = 7, 12


def memory_of(unrolls):
    return UnrollMemory(MemoryShape(unrolls, T, plain(3), 1, 7, 2))


def batch(seed, size=1):
    tensors = random_trajectory(DISCRETE, seed, size=size, state_size=2, dtype=torch.float32)
    return Trajectory(*(tensor.numpy() for tensor in tensors))


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def uniform(memory, capacity):
    return UniformReplay(memory, capacity, generator())


def prioritised(memory, capacity):
    return PrioritisedReplay(memory, capacity, generator(), 0.6, lambda: 0.4)


def configured(alpha, beta):
    """As `prioritised`, by the configuration."""
    section = Replay(
        methods=("queue", "prioritised"),
        capacities=(CAPACITY * T,),
        priority_exponent=alpha,
        importance_exponent=constant(beta),
    )
    shape = MemoryShape(CAPACITY + 1, T, plain(3), 1, 7, 2)
    mixture = make_mixture(section, section.drawn("none"), shape, generator(), lambda: 0.0, embed=None)
    return mixture.parts[0].replay, fill(mixture, 30)


def filled(make, number=30):
    memory = memory_of(CAPACITY + 1)
    replay = make(memory, CAPACITY)
    return replay, fill(Mixture(memory, [Part("it", replay, Fraction(1))]), number)


def uniforms(number, **parts):
    """A mixture of uniform replays, each of this capacity and share, after so many batches of three."""
    memory = memory_of(40)
    replays = [Part(name, uniform(memory, capacity), share) for name, (capacity, share) in parts.items()]
    return fill(Mixture(memory, replays), number, size=3)


def fill(mixture, number, size=1):
    for seed in range(number):
        mixture.insert(batch(seed, size))
    return mixture


@pytest.mark.parametrize("make", [uniform, prioritised])
def test_the_newest_are_held_and_drawn_and_how_often_is_counted(make):
    replay, mixture = filled(make)
    drawn = np.concatenate([mixture.sample(5).serial for _ in range(40)])
    assert set(drawn) <= set(range(30 - CAPACITY, 30))
    counts = replay.counts[replay.slots()]
    np.testing.assert_array_equal(counts, [(drawn == serial).sum() for serial in range(30 - CAPACITY, 30)])
    assert replay.scalars()["drawn_max"] == counts.max()
    mixture.insert(batch(99))
    assert replay.counts[replay.slots()][-1] == 0, "a new unroll begins at nothing"


def test_a_uniform_replay_draws_evenly_from_what_it_holds():
    _, mixture = filled(uniform)
    drawn = np.concatenate([mixture.sample(50).serial for _ in range(100)])
    _, counts = np.unique(drawn, return_counts=True)
    assert len(counts) == CAPACITY
    assert stats.chisquare(counts).pvalue > 0.001


@pytest.mark.parametrize(("alpha", "beta"), [(0.6, 0.4), (1.0, 1.0), (0.0, 1.0)])
def test_prioritised_draws_follow_errors_and_are_reweighted(alpha, beta):
    replay, mixture = configured(alpha, beta)
    serials = np.arange(30 - CAPACITY, 30)
    errors = np.linspace(0.1, 3.0, CAPACITY).astype(np.float32)
    mixture.learn(np.append(serials, [3, 999]), np.append(errors, [1e6, 1e6]).astype(np.float32))  # two are not there
    samples = [mixture.sample(100) for _ in range(200)]  # half of the batch
    drawn = np.concatenate([sample.serial for sample in samples])
    assert len(drawn) == 50 * 200
    probability = errors.astype(np.float64) ** alpha
    probability /= probability.sum()
    counts = [(drawn == serial).sum() for serial in serials]
    assert stats.chisquare(counts, probability * len(drawn)).pvalue > 0.001
    for sample in samples[:20]:
        weight = (CAPACITY * probability[sample.serial - serials[0]]) ** -beta
        np.testing.assert_allclose(sample.importance, weight / weight.max(), rtol=1e-5)
    assert replay.scalars()["priority_max"] == pytest.approx(3.0)


def test_new_unrolls_have_top_priority_and_zero_errors_are_drawn():
    replay, mixture = filled(prioritised)
    mixture.learn(np.arange(30 - CAPACITY, 30), np.zeros(CAPACITY, np.float32))
    assert (replay.priorities[replay.slots()] == SMALLEST).all()
    mixture.learn(np.array([25]), np.array([4.0], np.float32))
    mixture.insert(batch(50))
    assert replay.priorities[replay.slots()][-1] == 4.0


def test_forgotten_replay_learns_from_each_new_unroll():
    replay, mixture = filled(prioritised, CAPACITY // 2)
    mixture.forget()
    fill(mixture, CAPACITY)
    mixture.learn(np.arange(CAPACITY), np.full(CAPACITY, 4.0, np.float32))
    assert (replay.priorities[replay.slots()] == 4.0).all()


def test_a_mixture_draws_each_share_from_its_replay():
    mixture = uniforms(6, long=(30, Fraction(7, 10)), short=(2, Fraction(2, 10)))
    for _ in range(20):
        sample = mixture.sample(10)
        assert len(sample.online) == 9
        assert set(sample.serial[7:]) <= {16, 17}
    times = mixture.scalars()
    assert all(times[f"time/replay_{name}_seconds"] > 0 for name in ("long", "short", "read", "insert"))
    assert times["speed/replayed_steps_per_second"] > 0
    assert mixture.scalars()["speed/replayed_steps_per_second"] == 0, "since the last call"
    scalars = {"system/replay_long_drawn_mean", "system/replay_short_drawn_max", "system/replay_gigabytes"}
    assert scalars <= mixture.scalars().keys()


def test_a_replay_smaller_than_a_batch_keeps_its_newest_unrolls():
    mixture = uniforms(15, short=(2, Fraction(1, 2)), long=(30, Fraction(1, 2)))
    assert set(mixture.sample(40).serial[:20]) <= {43, 44}
    assert mixture.serials().tolist() == list(range(15, 45)), "what no replay holds is deleted"


def test_the_same_seed_draws_the_same():
    for make in (uniform, prioritised):
        (_, one), (_, other) = filled(make), filled(make)
        for _ in range(5):
            for a, b in zip(one.sample(6), other.sample(6), strict=True):
                np.testing.assert_array_equal(a, b)
