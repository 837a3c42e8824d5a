"""The learner: goes on exactly where it was saved, and steps over what is not finite."""

import numpy as np
import pytest
import torch

from kartrl.config import read
from kartrl.learning import checkpoint
from kartrl.learning.checkpoint import Checkpoint
from kartrl.learning.counters import Counters
from kartrl.metrics.stopwatch import TRAINER_STAGES, Stopwatch
from kartrl.models import make_model
from kartrl.runtime.trainer_thread import Batch, Diverged, Learner
from kartrl.trajectory import Unrolls

T, B, A = 5, 8, 3
IMAGE, VECTOR = (54, 54, 1), (4,)
OPTIMIZERS = {
    "rmsprop": ["optimizer.name=rmsprop"],
    "rmsprop with momentum": ["optimizer.name=rmsprop", "optimizer.momentum=0.9", "optimizer.schedule=polynomial"],
    "adam": ["optimizer.name=adam", "optimizer.schedule=constant"],
    "sgd": ["optimizer.name=sgd"],
    "sgd with momentum": ["optimizer.name=sgd", "optimizer.momentum=0.9"],
}


def configure(*overrides):
    return read([], ["model.hidden_size=16", f"impala.unroll_length={T}", "run.agent_steps=1000", *overrides])


def make_learner(config, shape=VECTOR, seed=1):
    torch.manual_seed(seed)
    return Learner(config, make_model(config.model, shape, A), torch.device("cpu"), Counters())


def make_batch(learner, seed, shape=VECTOR, reward=None):
    """Random unrolls; with `reward`, one of their rewards is that."""
    random = torch.Generator().manual_seed(seed)
    if len(shape) == 3:
        observation = torch.randint(256, (T + 1, B, *shape), generator=random, dtype=torch.uint8)
    else:
        observation = torch.randn(T + 1, B, *shape, generator=random)
    reset = torch.rand(T + 1, B, generator=random) < 0.1
    rewards = torch.randn(T, B, generator=random)
    if reward is not None:
        rewards[2, 3] = reward
    unrolls = Unrolls(
        observation=observation,
        reset=reset,
        action=torch.randint(A, (T, B), generator=random),
        behaviour_log_prob=torch.full((T, B), -np.log(A)),
        reward=rewards,
        terminated=reset[1:],
        valid=torch.ones(T, B, dtype=torch.bool),
        version=torch.zeros(T, B, dtype=torch.int64),
    )
    return Batch(unrolls, learner.model.initial_state(B), np.zeros((T, B), np.int64), T * B)


def update(learner, seeds, shape=VECTOR, reward=None):
    for seed in seeds:
        learner.update(make_batch(learner, seed, shape, reward), Stopwatch(TRAINER_STAGES))


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """TorchScript specialises a function in its first calls, and rounds otherwise from then on: they are made here."""
    torch.set_num_threads(1)  # more are far slower where the cores are busy
    for shape in (IMAGE, VECTOR):
        update(make_learner(configure(), shape), range(4), shape)


def assert_same(one, other):
    """Bit for bit."""
    assert one.counters == other.counters
    for a, b in ((one.model, other.model), (one.optimizer, other.optimizer)):
        assert a.keys() == b.keys()
        for name, tensor in a.items():
            assert torch.equal(tensor, b[name]), name


@pytest.mark.parametrize("shape", [IMAGE, VECTOR], ids=["images", "vectors"])
@pytest.mark.parametrize("overrides", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_a_saved_learner_goes_on_as_if_never_stopped(tmp_path, overrides, shape):
    config = configure(*overrides)
    straight = make_learner(config, shape)
    update(straight, range(7), shape)

    first = make_learner(config, shape)
    update(first, range(3), shape)
    checkpoint.save(tmp_path / "a.pt", Checkpoint(config, *first.state(), shape, A))
    stored = checkpoint.load(tmp_path / "a.pt")
    torch.manual_seed(99)
    model = make_model(stored.config.model, shape, A)
    checkpoint.fit(model, stored.model)
    second = Learner(stored.config, model, torch.device("cpu"), stored.counters, stored.optimizer)
    assert_same(second.state(), first.state())
    update(second, range(3, 7), shape)

    assert_same(second.state(), straight.state())
    assert straight.counters == Counters(agent_steps=7 * T * B, updates=7)
    rates = [learner.optimizer.param_groups[0]["lr"] for learner in (straight, second)]
    assert rates[0] == rates[1], "the schedule goes on"


@pytest.mark.parametrize("reward", [float("nan"), float("inf")])
def test_a_poisoned_batch_changes_nothing_and_is_counted(reward):
    config = configure()
    clean, poisoned = make_learner(config), make_learner(config)
    update(clean, range(6))
    update(poisoned, range(3))
    version = poisoned.weights.version
    update(poisoned, [100, 101], reward=reward)
    assert poisoned.weights.version == version, "nothing is published"
    update(poisoned, range(3, 6))
    assert_same(poisoned.state(), clean.state())
    assert poisoned.skipped_updates == 2
    assert not poisoned.messages


def test_after_many_poisoned_batches_it_goes_back_once_and_then_gives_up():
    learner = make_learner(configure("optimizer.max_skipped_updates=3"))
    update(learner, range(2))
    good = learner.state()  # as at a save
    update(learner, range(2, 5))
    version, counters = learner.weights.version, learner.counters
    update(learner, [100, 101, 102], reward=float("nan"))

    back = learner.state()
    assert_same(back, good._replace(counters=counters))
    assert learner.weights.version == version + 1, "the predictors go back too"
    assert "go back to those of 80 agent steps" in learner.messages[0]
    update(learner, [5])
    update(learner, [103, 104], reward=float("nan"))
    with pytest.raises(Diverged, match="again after going back"):
        update(learner, [105], reward=float("nan"))
    assert learner.skipped_updates == 6


def test_it_goes_back_to_the_start_where_nothing_was_saved():
    learner = make_learner(configure("optimizer.max_skipped_updates=2"))
    start = learner.state()
    fresh = make_learner(configure("optimizer.max_skipped_updates=2"))
    with torch.no_grad():
        next(iter(learner.model.parameters())).fill_(float("nan"))
    assert not all(tensor.isfinite().all() for tensor in learner.state().model.values()), (
        "a copy that is not gone back to"
    )
    update(learner, [0, 1])
    assert_same(learner.state(), start)
    update(learner, range(3))
    update(fresh, range(3))
    assert_same(learner.state(), fresh.state())
