"""Losses and gradients by NumPy's operations are PyTorch's."""

import pytest
import torch
from learners import CASES, NAMES, SETTINGS, noise_of_the_cpu, with_replayed
from trajectories import DISCRETE, random_trajectory

from kartrl.acting.recorded_work import RecordedWork, capture_for
from kartrl.algorithms import heads_of
from kartrl.config import read
from kartrl.envs.observation_spec import plain
from kartrl.learning.graphed_loss import Unrecorded
from kartrl.learning.learner import make_learner
from kartrl.models import make_network

UPDATES = 9
OURS = ["model.hidden_size=8", "optimizer.name=sgd", "optimizer.gradient_clip=0", "optimizer.learning_rate=0.05"]


class Counted(RecordedWork):
    """Counts what was recorded and what was not."""

    def __init__(self):
        self.recorded, self.left = 0, 0

    def __call__(self, work):
        try:
            result = super().__call__(work)
        except Unrecorded:
            self.left += 1
            raise
        self.recorded += 1
        return result


def updated(config, action, settings, capture):
    """The scalars of each update, and the weights after the last one."""
    torch.manual_seed(1)
    network = make_network(config.model, plain(3), action, heads_of(config))
    learner = make_learner(config, network, action, capture=capture)
    learner.algorithm.distribution.noise = noise_of_the_cpu(learner.algorithm.distribution)
    torch.manual_seed(2)
    scalars = []
    for number in range(UPDATES):
        trajectory = with_replayed(random_trajectory(action, number, dtype=torch.float32), settings)
        update = learner.update(
            trajectory, int(trajectory.valid.sum()), number / UPDATES, lambda stage: None, probe=True
        )
        scalars.append(update.scalars())
    return scalars, network.state_dict()


@pytest.mark.parametrize(("algorithm", "action", "settings"), CASES, ids=NAMES)
def test_updates_by_recorded_work_are_those_without(algorithm, action, settings):
    config = read(overrides=[f"algorithm.name={algorithm}", *OURS, *SETTINGS[settings]])
    capture = Counted()
    scalars, weights = updated(config, action, settings, capture)
    expected_scalars, expected = updated(config, action, settings, None)
    for one, other in zip(expected_scalars, scalars, strict=True):
        assert other == pytest.approx(one, rel=1e-3, abs=1e-5, nan_ok=True)
    for name, tensor in expected.items():
        torch.testing.assert_close(weights[name], tensor, rtol=1e-3, atol=1e-5)
    if algorithm != "acer" and "lstm" not in settings and settings != "laser":
        assert (capture.recorded > 0, capture.left) == (True, 0)


@pytest.mark.parametrize(
    ("settings", "shape", "recorded"),
    [
        (["model.hidden_size=64"], (4,), True),
        (["model.hidden_size=256"], (4,), False),
        (["model.hidden_size=64", "model.core=lstm"], (4,), False),
        ([], (40, 40, 1), False),
    ],
    ids=["small", "large", "recurrent", "images"],
)
def test_small_networks_for_vectors_learn_by_recorded_work(settings, shape, recorded):
    config = read(overrides=settings)
    network = make_network(config.model, plain(*shape), DISCRETE)
    assert (capture_for(network) is not None) == recorded
