"""Updates by graphs of a few shapes: those that a learner makes without any, whatever changes from one to the next."""

import pytest
import torch
from gpu import GPU
from gymnasium import spaces
from learners import CASES, NAMES, SETTINGS, noise_of_the_cpu, with_replayed
from torch.utils._pytree import tree_leaves
from trajectories import DISCRETE, random_trajectory

from kartrl.algorithms import heads_of
from kartrl.config import read
from kartrl.envs.observation_spec import plain
from kartrl.envs.spec import ActionSpec
from kartrl.hardware.streams import RoleStream
from kartrl.learning import graphed_loss
from kartrl.learning.graphed_loss import CudaCapture
from kartrl.learning.learner import make_learner
from kartrl.models import make_network
from kartrl.trajectory import Trajectory

UPDATES = 9
CHANGING = [
    "optimizer.name=sgd",
    "optimizer.gradient_clip=0",
    "optimizer.learning_rate=linear 0.05 0.01",
    "algorithm.discount=linear 0.9 0.99",
    *(f"{name}.entropy_cost=linear 0.05 0" for name in ("a2c", "a3c", "acer", "impala", "ppo", "appo")),
    *(f"{name}.clip_range=linear 0.3 0.05" for name in ("ppo", "appo")),
]


class Recorder:
    """Records by CUDA graphs, or, on a CPU, by repeating the work and writing over its results."""

    def __init__(self, device):
        self.graphs = 0
        self._capture = CudaCapture() if device == "cuda" else self._repeat

    def __call__(self, work):
        self.graphs += 1
        return self._capture(work)

    def _repeat(self, work):
        kept = work()

        def replay():
            for old, new in zip(tree_leaves(kept), tree_leaves(work()), strict=True):
                if old is not None:
                    old.copy_(new)

        return kept, replay


def updated(config, action, place, capture, trajectories):
    """The scalars of each update, and the weights after the last one."""
    torch.manual_seed(1)
    network = make_network(config.model, plain(3), action, heads_of(config)).to(place)
    learner = make_learner(config, network, action, capture=capture)
    learner.algorithm.distribution.noise = noise_of_the_cpu(learner.algorithm.distribution)
    torch.manual_seed(2)
    scalars, stream = [], RoleStream(torch.device(place))
    for number, trajectory in enumerate(trajectories):
        moved = Trajectory(*(tensor.to(place) for tensor in trajectory))
        steps, progress = int(trajectory.valid.sum()), number / UPDATES
        with stream.current():
            scalars.append(learner.update(moved, steps, progress, lambda stage: None, probe=True).scalars())
    return scalars, {name: tensor.cpu() for name, tensor in network.state_dict().items()}


def alike(expected, got):
    """Assert that two results of `updated` are."""
    for one, other in zip(expected[0], got[0], strict=True):
        assert other == pytest.approx(one, rel=1e-3, abs=1e-5, nan_ok=True)
    for name, tensor in expected[1].items():
        torch.testing.assert_close(got[1][name], tensor, rtol=1e-3, atol=1e-5)


@pytest.mark.usefixtures("exact_products")
@pytest.mark.parametrize("device", ["cpu", GPU])
@pytest.mark.parametrize(("algorithm", "action", "settings"), CASES, ids=NAMES)
def test_updates_by_graphs_are_those_without(algorithm, action, settings, device):
    config = read(overrides=[f"algorithm.name={algorithm}", "model.hidden_size=8", *SETTINGS[settings], *CHANGING])
    trajectories = [
        with_replayed(random_trajectory(action, seed, dtype=torch.float32), settings) for seed in range(UPDATES)
    ]
    capture = Recorder(device)
    graphed = updated(config, action, device, capture, trajectories)
    assert 1 <= capture.graphs <= 2, "one for each shape of minibatches"
    alike(updated(config, action, "cpu", None, trajectories), graphed)


@pytest.mark.parametrize("device", ["cpu", GPU])
def test_padding_keeps_nothing_of_a_batch_that_was_not_finite(device):
    config = read(overrides=["algorithm.name=impala", "model.hidden_size=8"])
    capture = Recorder(device)
    learner = make_learner(config, make_network(config.model, plain(3), DISCRETE).to(device), DISCRETE, capture=capture)

    def is_finite(size, factor=1.0):
        trajectory = random_trajectory(DISCRETE, size=size, dtype=torch.float32)
        trajectory = trajectory._replace(reward=factor * trajectory.reward)
        moved = Trajectory(*(tensor.to(device) for tensor in trajectory))
        with RoleStream(torch.device(device)).current():
            return learner.update(moved, int(trajectory.valid.sum()), 0.0, lambda stage: None).finite

    assert all(is_finite(8) for _ in range(graphed_loss.SEEN + 1))
    assert not is_finite(8, float("nan"))
    assert is_finite(5)
    assert capture.graphs == 1


@pytest.mark.parametrize("algorithm", ["impala", "appo"])
def test_padding_is_finite_for_precise_actions_of_many_numbers(algorithm):
    action = ActionSpec.of(spaces.Box(-1, 1, (30,)))  # the density of the mean is beyond float32
    overrides = [f"algorithm.name={algorithm}", "model.hidden_size=8", "model.deviation=free"]
    config, capture = read(overrides=[*overrides, "model.core=gru"]), Recorder("cpu")
    network = make_network(config.model, plain(3), action)
    with torch.no_grad():
        network.policy.weight.zero_()
        network.policy.log_deviation.fill_(-5.0)
    learner = make_learner(config, network, action, capture=capture)
    trajectory = random_trajectory(action, state_size=8, dtype=torch.float32)
    for _ in range(graphed_loss.SEEN + 1):
        assert learner.update(trajectory, int(trajectory.valid.sum()), 0.0, lambda stage: None).finite
    assert capture.graphs >= 1


def test_only_frequent_shapes_get_graphs_up_to_a_limit(monkeypatch):
    config = read(overrides=["algorithm.name=impala", "model.hidden_size=8", "model.core=lstm"])
    capture = Recorder("cpu")
    network = make_network(config.model, plain(3), DISCRETE)
    learner = make_learner(config, network, DISCRETE, capture=capture)
    monkeypatch.setattr(graphed_loss, "MOST", 2)

    def update(size, times):
        for _ in range(times):
            trajectory = random_trajectory(DISCRETE, length=40, size=size, dtype=torch.float32)
            assert learner.update(trajectory, int(trajectory.valid.sum()), 0.0, lambda stage: None).finite
        return capture.graphs

    assert update(2, graphed_loss.SEEN) == 0
    assert update(2, 3) == 1, "one graph serves all that follow"
    assert update(3, graphed_loss.SEEN + 2) == 2
    assert update(5, graphed_loss.SEEN + 2) == 2, "no more than MOST"
