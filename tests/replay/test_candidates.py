"""Attentive and elite replay: candidates by lambda, features of then and now, elite insertion."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from trajectories import DISCRETE, random_trajectory

from kartrl.envs.observation_spec import plain
from kartrl.replay import MemoryShape, UnrollMemory
from kartrl.replay.attentive import AttentiveReplay
from kartrl.replay.candidates import Choice
from kartrl.replay.distances import make_distance
from kartrl.replay.elite import EliteReplay
from kartrl.replay.mixture import Mixture, Part
from kartrl.trajectory import Trajectory

T, CAPACITY = 7, 12


class Network:
    """Features that drift away from what they were, and note how many were asked for."""

    def __init__(self):
        self.drift, self.asked = 0.0, 0

    def __call__(self, observation):
        self.asked += len(observation)
        return np.concatenate([observation, observation + self.drift * np.abs(observation)], 1).astype(np.float32)


def batch(seed, size=1):
    tensors = random_trajectory(DISCRETE, seed, size=size, state_size=2, dtype=torch.float32)
    return Trajectory(*(tensor.numpy() for tensor in tensors))


def filled(kind, number=30, ratio=3.0, strategy=1, challengers=0, drift=0.1, capacity=CAPACITY):
    network, annealing = Network(), [ratio]
    memory = UnrollMemory(MemoryShape(capacity + 4, T, plain(3), 1, 7, 2, scattered=capacity))
    choice = Choice(network, make_distance("norm", 2.0), strategy, lambda: annealing[0], challengers)
    replay = kind(memory, capacity, torch.Generator().manual_seed(0), choice)
    mixture = Mixture(memory, [Part("it", replay, Fraction(1))])
    for seed in range(number):
        mixture.insert(batch(seed))
        network.drift += drift
    return replay, mixture, network, annealing


@pytest.mark.parametrize("kind", [AttentiveReplay, EliteReplay])
@pytest.mark.parametrize("strategy", [1, 2, 3, 4])
@pytest.mark.parametrize("ratio", [1.0, 1.3, 6.0])
def test_as_many_as_are_wanted_are_drawn_of_what_is_held(kind, strategy, ratio):
    replay, mixture, _, _ = filled(kind, strategy=strategy, ratio=ratio)
    for unrolls in (1, 3, 5, 40):  # of 12: fewer are different than wanted, at times
        sample = mixture.sample(unrolls)
        assert len(sample.serial) == unrolls
        assert set(sample.serial) <= set(replay.serials[replay.slots()])
    assert replay.counts.sum() == 49


def test_lambda_candidates_are_embedded_until_lambda_is_1():
    replay, mixture, network, annealing = filled(EliteReplay, capacity=300, number=300)
    for ratio, most in ((6.0, 24), (2.5, 10), (1.2, 0), (1.0, 0)):
        annealing[0], network.asked = ratio, 0
        mixture.sample(4)
        assert most - 4 <= network.asked / T <= most or network.asked == most == 0
        assert replay.scalars()["candidates"] == ratio


def test_unchanged_network_has_distance_0_changed_one_ranks_age():
    replay, _, _, _ = filled(EliteReplay, drift=0.0)
    assert (replay.measure(replay.slots()) == 0).all()
    replay, mixture, _, _ = filled(EliteReplay, drift=0.1)
    distances = replay.measure(replay.slots())
    scale = np.array([np.linalg.norm(mixture.memory.read(np.array([s])).observation[:-1]) for s in range(18, 30)])
    assert (np.diff(distances / scale) < 0).all(), "the oldest first, and so the farthest"
    np.testing.assert_allclose(distances / scale, 0.1 * np.arange(12, 0, -1), rtol=1e-4)
    mixture.sample(2)
    assert replay.scalars()["distance"] > 0


def test_a_full_strategy_1_takes_the_nearest():
    replay, mixture, _, _ = filled(EliteReplay, ratio=50.0)  # all are candidates
    nearest = replay.serials[replay.slots()][np.argmin(replay.measure(replay.slots()))]
    assert set(mixture.sample(2).serial) == {nearest}


def test_attentive_compares_states_with_newest_unrolls_last():
    replay, mixture, network, _ = filled(AttentiveReplay, drift=0.2)
    held = mixture.memory.read(replay.serials[replay.slots()])
    last = network(held.observation[-1, -1:])
    reference = [np.linalg.norm(network(held.observation[:-1, b]) - last) for b in range(CAPACITY)]
    np.testing.assert_allclose(replay.measure(replay.slots()), reference, rtol=1e-5)


@pytest.mark.parametrize("kind", [AttentiveReplay, EliteReplay])
def test_elite_insertion_replaces_the_farthest_challenger(kind):
    replay, mixture, _, _ = filled(kind, number=CAPACITY, challengers=CAPACITY)
    held = set(replay.serials[replay.slots()])
    replay.distances[:] = np.arange(CAPACITY) % 7
    farthest = replay.serials[6]
    mixture.insert(batch(50))
    assert held - set(replay.serials[replay.slots()]) == {farthest}
    assert replay.distances[6] == replay.counts[6] == 0
    replay.distances[:] = 0
    mixture.insert(batch(51))
    assert replay.serials.min() == 1, "where nothing is known the oldest goes"
    assert len(replay) == len(mixture.memory) == CAPACITY
    for _ in range(5):
        mixture.sample(3)


def test_elite_insertion_asks_only_some():
    replay, mixture, _, _ = filled(EliteReplay, number=CAPACITY, challengers=3)
    replay.distances[5] = 100.0
    fates = []
    for seed in range(30):
        replay.distances[5] = 100.0
        before = replay.serials[5]
        mixture.insert(batch(100 + seed))
        fates.append(replay.serials[5] != before)
    assert 0 < sum(fates) < 20


@pytest.mark.parametrize("ratio", [1.0, 6.0])
def test_elite_insertion_measures_samples_for_any_lambda(ratio):
    replay, mixture, _, _ = filled(EliteReplay, ratio=ratio, challengers=CAPACITY, drift=0.1)
    sampled = set(mixture.sample(CAPACITY).serial)
    measured = replay.distances[np.isin(replay.serials, list(sampled))]
    assert (measured > 0).all()
