"""The trainer: goes on exactly where it was saved, and steps over what is not finite."""

import math

import pytest
import torch
from gymnasium.spaces import Discrete

from kartrl.config import read
from kartrl.envs.observation_spec import plain
from kartrl.envs.spec import ActionSpec
from kartrl.learning import checkpoint
from kartrl.learning.checkpoint import Checkpoint
from kartrl.learning.counters import Counters
from kartrl.learning.divergence_guard import Diverged
from kartrl.learning.learner import make_learner
from kartrl.learning.optimizers import set_state
from kartrl.learning.schedules import Progress
from kartrl.metrics.stopwatch import TRAINER_STAGES, Stopwatch
from kartrl.models import make_network
from kartrl.training.trainer import Trainer
from kartrl.trajectory import Trajectory

T, B, A = 5, 4, 3
ACTION = ActionSpec.of(Discrete(A))
ALGORITHMS = ["algorithm.name=impala", "algorithm.name=a2c", "algorithm.name=appo"]
IMAGE, VECTOR = (54, 54, 1), (4,)
OPTIMIZERS = {
    "rmsprop": ["optimizer.name=rmsprop"],
    "rmsprop with momentum": [
        "optimizer.name=rmsprop",
        "optimizer.momentum=0.9",
        "optimizer.learning_rate=polynomial 0.0007 1e-05",
    ],
    "adam": ["optimizer.name=adam", "optimizer.learning_rate=0.001"],
    "normalisers": ["model.normalise_observations=true", "model.normalise_returns=true"],
    "schedules": [
        "algorithm.name=ppo",
        "algorithm.discount=linear 0.9 0.99",
        "ppo.clip_range=linear 0.2 0",
        "ppo.entropy_cost=linear 0.1 0",
    ],
    "sgd": ["optimizer.name=sgd"],
    "sgd with momentum": ["optimizer.name=sgd", "optimizer.momentum=0.9"],
}


def configure(*overrides):
    return read([], ["model.hidden_size=16", f"algorithm.unroll_length={T}", "run.agent_steps=1000", *overrides])


def make_trainer(config, shape=VECTOR, seed=1, stored=None):
    """A new one, or one that goes on from a checkpoint, as the server makes it."""
    torch.manual_seed(seed)
    network = make_network(config.model, plain(*shape), ACTION)
    if stored is not None:
        checkpoint.fit(network, stored.network)
    learner = make_learner(config, network, ACTION)
    if stored is not None:
        set_state(learner.optimizer, stored.optimizer)
        learner.algorithm.load_state_dict(stored.algorithm)
    counters = stored.counters if stored is not None else Counters()
    return Trainer(learner, config.optimizer, Progress(config.run, counters), counters)


def make_batch(network, seed, shape=VECTOR, reward=None):
    """Random unrolls; with `reward`, one of their rewards is that."""
    random = torch.Generator().manual_seed(seed)
    if len(shape) == 3:
        observation = torch.randint(256, (T + 1, B, *shape), generator=random, dtype=torch.uint8)
    else:
        observation = torch.randn(T + 1, B, *shape, generator=random)
    first = torch.rand(T + 1, B, generator=random) < 0.1
    rewards = torch.randn(T, B, generator=random)
    if reward is not None:
        rewards[2, 3] = reward
    action = torch.randint(A, (T, B, 1), generator=random).float()
    uniform = torch.full((T, B, 1 + 1 + A), -math.log(A))  # log-probability, value and parameters
    return Trajectory(
        observation=observation,
        first=first,
        initial_state=network.initial_state(B),
        decision=torch.cat([action, uniform], -1),
        reward=rewards,
        terminated=first[1:],
        valid=torch.ones(T, B, dtype=torch.bool),
        version=torch.zeros(T, B, dtype=torch.int64),
        online=torch.ones(B, dtype=torch.bool),
        importance=torch.ones(B),
        serial=torch.full((B,), -1),
    )


def update(trainer, seeds, shape=VECTOR, reward=None):
    for seed in seeds:
        batch = make_batch(trainer.learner.network, seed, shape, reward)
        torch.manual_seed(seed)  # of the order of minibatches, as a checkpoint keeps it
        trainer.update(batch, Trajectory(*(tensor.numpy() for tensor in batch)), Stopwatch(TRAINER_STAGES))


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    torch.set_num_threads(1)  # more are far slower where the cores are busy


def assert_same(one, other):
    """Bit for bit, but for the progress of the moment."""
    assert one.counters._replace(progress=0) == other.counters._replace(progress=0)
    for a, b in zip(one[:3], other[:3], strict=True):
        assert a.keys() == b.keys()
        for name, tensor in a.items():
            assert torch.equal(tensor, b[name]), name


@pytest.mark.parametrize("shape", [IMAGE, VECTOR], ids=["images", "vectors"])
@pytest.mark.parametrize(
    "overrides", [*OPTIMIZERS.values(), *([name] for name in ALGORITHMS)], ids=[*OPTIMIZERS, *ALGORITHMS]
)
def test_saved_trainer_continues_as_if_never_stopped(tmp_path, overrides, shape):
    config = configure(*overrides)
    straight = make_trainer(config, shape)
    update(straight, range(7), shape)

    first = make_trainer(config, shape)
    update(first, range(3), shape)
    state = first.state()
    content = Checkpoint(config, state.network, state.optimizer, state.counters, plain(*shape), ACTION)
    checkpoint.save(tmp_path / "a.pt", content._replace(algorithm=state.algorithm))
    stored = checkpoint.load(tmp_path / "a.pt")
    second = make_trainer(stored.config, shape, seed=99, stored=stored)
    assert_same(second.state(), first.state())
    update(second, range(3, 7), shape)

    assert_same(second.state(), straight.state())
    done = straight.counters._replace(progress=0)
    assert done == Counters(agent_steps=7 * T * B, updates=7)
    rates = [trainer.learner.optimizer.param_groups[0]["lr"] for trainer in (straight, second)]
    assert rates[0] == rates[1], "the schedule goes on"


@pytest.mark.parametrize("reward", [float("nan"), float("inf")])
def test_a_poisoned_batch_changes_nothing_and_is_counted(reward):
    config = configure()
    clean, poisoned = make_trainer(config), make_trainer(config)
    update(clean, range(6))
    update(poisoned, range(3))
    version = poisoned.weights.version
    update(poisoned, [100, 101], reward=reward)
    assert poisoned.weights.version == version, "nothing is published"
    update(poisoned, range(3, 6))
    assert_same(poisoned.state(), clean.state())
    assert poisoned.guard.skipped == 2
    assert not poisoned.messages


def test_trainer_rolls_back_again_after_recovery():
    trainer = make_trainer(configure("optimizer.max_skipped_updates=2"))
    nothing = float("nan")
    for burst in range(3):
        update(trainer, range(10 * burst, 10 * burst + 4))
        good = trainer.state()
        assert_same(trainer.good, good)
        update(trainer, [0], reward=nothing)
        assert trainer.state() is not trainer.good, "the newest update was not finite"
        update(trainer, [1], reward=nothing)
        assert_same(trainer.state(), good._replace(counters=trainer.state().counters))
    assert len(trainer.messages) == 3
    update(trainer, [0], reward=nothing)
    with pytest.raises(Diverged):
        update(trainer, [1], reward=nothing)
    assert_same(trainer.good, good._replace(counters=trainer.good.counters))


def test_agents_get_changes_before_a_non_finite_minibatch():
    one_by_one = ["ppo.shuffle=unrolls", f"ppo.minibatch_size={T}", "ppo.normalise_advantages=false"]
    trainer = make_trainer(configure("algorithm.name=ppo", *one_by_one))
    version = trainer.weights.version
    for seed in range(100, 109):  # until the poisoned unroll is not in the first minibatch
        before = trainer.state().network
        update(trainer, [seed], reward=float("nan"))
        if any(not torch.equal(tensor, before[name]) for name, tensor in trainer.state().network.items()):
            break
        assert trainer.weights.version == version
    assert trainer.weights.version == version + 1
    assert trainer.weights.relative_change() == 0.0, "the agents' weights are the learner's"
    assert trainer.counters.updates == 0


def test_replayed_unrolls_update_without_counting_as_steps():
    trainer = make_trainer(configure("run.agent_steps=100000"))
    batch = make_batch(trainer.learner.network, 7)
    for online, steps, fresh in (([True] * 4, 20, True), ([False] * 4, 20, False), ([True, False] * 2, 30, True)):
        before = trainer.state()
        age = torch.where(torch.tensor(online), 3, 9)
        part = batch._replace(online=torch.tensor(online), version=(trainer.weights.version - age).expand(T, B))
        trainer.update(part, Trajectory(*(tensor.numpy() for tensor in part)), Stopwatch(TRAINER_STAGES))
        assert trainer.counters.agent_steps == steps
        assert trainer.counters.updates == before.counters.updates + 1
        assert not fresh or trainer.lag == 3.0, "that of fresh unrolls alone"
        assert any(not torch.equal(tensor, before.network[name]) for name, tensor in trainer.state().network.items())


def test_losses_of_one_replayed_batch_are_read_each_time():
    trainer = make_trainer(configure("run.agent_steps=100000"))
    trainer.counters = trainer.counters._replace(agent_steps=2990)
    for online, version in ((True, 0), (False, -4), (False, -9), (True, 0)):
        batch = make_batch(trainer.learner.network, 7)
        batch = batch._replace(
            online=torch.full((B,), online), version=torch.full((T, B), trainer.weights.version + version)
        )
        trainer.update(batch, Trajectory(*(tensor.numpy() for tensor in batch)), Stopwatch(TRAINER_STAGES))
        if not online:
            trainer.counters = trainer.counters._replace(agent_steps=5990)
    first, second = trainer.records
    assert not any(tag.startswith("replay/") for tag in first.scalars)
    assert second.scalars["replay/age_mean"] == second.scalars["replay/age_max"] == 4.0
    assert math.isfinite(second.scalars["replay/total"])
    assert (first.attempts, second.attempts) == (1, 2), "rounds are counted by fresh batches"


def test_many_poisoned_batches_roll_back_once_then_fail():
    trainer = make_trainer(configure("optimizer.max_skipped_updates=3"))
    update(trainer, range(2))
    good = trainer.state()  # as at a save
    update(trainer, range(2, 5))
    version, counters = trainer.weights.version, trainer.counters
    update(trainer, [100, 101, 102], reward=float("nan"))

    back = trainer.state()
    assert_same(back, good._replace(counters=counters))
    assert trainer.weights.version == version + 1, "the predictors go back too"
    assert "rolling back weights and optimizer to 40 agent steps" in trainer.messages[0]
    update(trainer, [5])
    update(trainer, [103, 104], reward=float("nan"))
    with pytest.raises(Diverged, match="again after a rollback"):
        update(trainer, [105], reward=float("nan"))
    assert trainer.guard.skipped == 6


def test_trainer_without_a_save_rolls_back_to_the_start():
    trainer = make_trainer(configure("optimizer.max_skipped_updates=2"))
    start = trainer.state()
    fresh = make_trainer(configure("optimizer.max_skipped_updates=2"))
    with torch.no_grad():
        next(iter(trainer.learner.network.parameters())).fill_(float("nan"))
    assert not all(tensor.isfinite().all() for tensor in trainer.state().network.values()), (
        "a copy that is not gone back to"
    )
    update(trainer, [0, 1])
    assert_same(trainer.state(), start)
    update(trainer, range(3))
    update(fresh, range(3))
    assert_same(trainer.state(), fresh.state())
