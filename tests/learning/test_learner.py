"""An update against the same arithmetic by hand, on the whole batch at once."""

import itertools
import math

import pytest
import torch
from trajectories import ACTIONS, DISCRETE, kind, random_trajectory

from kartrl.algorithms import ALGORITHMS, heads_of, make_algorithm
from kartrl.config import read
from kartrl.envs.observation_spec import plain
from kartrl.learning.diagnostics import describe
from kartrl.learning.learner import MOST_IMAGES, Learner, clip_norm, make_learner, observed
from kartrl.learning.optimizers import make_optimizer
from kartrl.learning.update_threads import RETRY_SECONDS, SECONDS, UPDATES, UpdateThreads
from kartrl.models import for_inference, make_distribution, make_network, run
from kartrl.models.encoders import ENCODERS

RATE = 0.01
LENGTH = 7  # of random unrolls
by_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS)
PAIRS = [(name, action) for name in ALGORITHMS for action in ACTIONS if ALGORITHMS[name].accepts(action)]
by_pair = pytest.mark.parametrize(
    ("algorithm", "action"), PAIRS, ids=[f"{name}-{kind(action)}" for name, action in PAIRS]
)


def configured(algorithm, *overrides):
    single = ["optimizer.name=rmsprop", "optimizer.decay=0.99", "ppo.epochs=1", "appo.epochs=1"]  # as by hand
    overrides = (
        *single,
        "model.hidden_size=8",
        "a2c.normalise_advantages=true",
        "a3c.normalise_advantages=true",
        "optimizer.gradient_clip=0.05",
        f"optimizer.learning_rate={RATE}",
        *overrides,
    )
    return read(overrides=[f"algorithm.name={algorithm}", *overrides])


def batch_of(action, seed=0, size=5):
    trajectory = random_trajectory(action, seed, size=size, dtype=torch.float32)
    return trajectory, int(trajectory.valid.sum())


def learner_of(config, action, part, threads=None):
    torch.manual_seed(1)
    network = make_network(config.model, plain(3), action, heads_of(config))
    return Learner(
        network,
        make_algorithm(config, make_distribution(action)),
        make_optimizer(config.optimizer, network.parameters()),
        learning_rate=config.optimizer.learning_rate,
        kl_target=config.optimizer.kl_target,
        gradient_clip=config.optimizer.gradient_clip or math.inf,
        part_steps=LENGTH * part,
        threads=threads,
    )


def update(learner, trajectory, steps, laps=None):
    torch.manual_seed(2)  # of the order of minibatches, and of ACER's draws
    return learner.update(trajectory, steps, 0.0, (laps if laps is not None else []).append)


def assert_same(one, other, **tolerance):
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, other[name], **tolerance)


def by_hand(config, action, updates):
    """Weights after these updates, the last loss, and its explained variance, without any part of the learner."""
    torch.manual_seed(1)
    network = make_network(config.model, plain(3), action, heads_of(config))
    algorithm = make_algorithm(config, make_distribution(action))
    optimizer = torch.optim.RMSprop(network.parameters(), lr=RATE, alpha=0.99, eps=1e-5)
    for number in range(updates):
        trajectory, steps = batch_of(action, number)
        torch.manual_seed(2)  # of ACER's draws
        with torch.no_grad():
            batch = algorithm.prepare(network, trajectory, steps)
        output, _ = network(trajectory.observation, trajectory.first, trajectory.initial_state)
        loss = algorithm.loss(output, batch)
        optimizer.zero_grad()
        loss.total.backward()
        gradient = torch.cat([parameter.grad.flatten() for parameter in network.parameters()])
        norm = gradient.norm().item()
        for parameter in network.parameters():
            parameter.grad *= min(1.0, config.optimizer.gradient_clip / (norm + 1e-6))
        optimizer.step()
        algorithm.after_step(network)
    return network.state_dict(), loss, norm


@by_pair
@pytest.mark.parametrize("part", [1, 2, 100])
def test_update_equals_whole_batch_by_hand_however_divided(algorithm, action, part):
    config = configured(algorithm)
    learner = learner_of(config, action, part)
    for number in range(3):
        result = update(learner, *batch_of(action, number))
    weights, loss, norm = by_hand(config, action, 3)
    assert norm > config.optimizer.gradient_clip, "it is clipped"
    state = learner.state()[0]
    if (bias := "advantage.last.bias") in weights:  # its gradient is 0, and RMSprop enlarges the rounding of that
        torch.testing.assert_close(state.pop(bias), weights.pop(bias), atol=1e-5, rtol=1e-4)
    assert_same(state, weights, atol=2e-6, rtol=1e-4)
    scalars = result.scalars()
    assert result.finite
    assert result.steps[-1].gradient_norm == pytest.approx(norm, rel=1e-3)
    assert scalars["losses/total"] == pytest.approx(loss.total.item(), rel=1e-3, abs=1e-5)
    for name, term in loss.terms.items():
        assert scalars[f"losses/{name}"] == pytest.approx(term.item(), rel=1e-3, abs=1e-5)
    expected = describe([loss.detach()])["losses/explained_variance"]
    assert scalars["losses/explained_variance"] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("action", ACTIONS, ids=kind)
@pytest.mark.parametrize("algorithm", ["ppo", "appo"])
def test_single_steps_make_the_update_of_whole_unrolls(algorithm, action):
    states = []
    for shuffle, part in (("unrolls", 100), ("steps", 100), ("steps", 1)):
        settings = f"{algorithm}.shuffle={shuffle}", f"{algorithm}.minibatch_size=1000", "model.core=none"
        learner = learner_of(configured(algorithm, *settings), action, part)
        for number in range(2):
            update(learner, *batch_of(action, number))
        states.append(learner.state().network)
    assert_same(states[1], states[0], atol=2e-6, rtol=1e-4)
    assert_same(states[2], states[0], atol=2e-6, rtol=1e-4)


@pytest.mark.parametrize(("part", "sizes"), [(100, [5]), (4, [3, 2]), (3, [3, 2]), (2, [2, 2, 1]), (1, [1] * 5)])
def test_the_parts_of_a_batch_are_alike(part, sizes):
    learner = learner_of(configured("impala"), DISCRETE, part)
    (step,) = update(learner, *batch_of(DISCRETE, size=5)).steps
    assert [loss.valid.shape[1] for loss in step.losses] == sizes


@pytest.mark.parametrize("algorithm", [name for name in ALGORITHMS if name != "a2c"])  # which has no ratio
@pytest.mark.parametrize("encoder", [name for name in ENCODERS if name != "mlp"])
def test_without_a_policy_lag_ratios_in_bf16_are_one(encoder, algorithm):
    """Within rounding of float32: the heads see another number of rows; tests/models has equality bit for bit."""
    single = [f"model.encoder={encoder}", "model.precision=bf16", "optimizer.kl_target=0", "ppo.clip_range=1e-5"]
    config, shape = configured(algorithm, "model.core=none", "ppo.shuffle=unrolls", *single), (54, 52, 1)
    torch.manual_seed(1)
    network = make_network(config.model, plain(*shape), DISCRETE, heads_of(config))
    trajectory = random_trajectory(DISCRETE, length=1, size=8, state_size=0, ends=0, dtype=torch.float32)
    trajectory = trajectory._replace(observation=torch.randint(0, 256, (2, 8, *shape), dtype=torch.uint8))
    noise, acting = make_distribution(DISCRETE).noise(8, torch.device("cpu"), None), for_inference(network)
    decision, _ = acting.act(trajectory.observation[0], trajectory.first[0], trajectory.initial_state, noise, False)
    trajectory = trajectory._replace(decision=decision.detach()[None])
    (step,) = make_learner(config, network, DISCRETE).update(trajectory, 8, 0.0, lambda stage: None).steps
    (loss,) = step.losses
    if algorithm == "ppo":
        assert float(loss.terms["clip_fraction"]) == 0
    else:
        torch.testing.assert_close(loss.steps["importance_weight"], torch.ones(1, 8), atol=1e-5, rtol=0)


@by_algorithm
def test_a_part_without_a_valid_step_is_no_trouble(algorithm):
    learner = learner_of(configured(algorithm), DISCRETE, part=1)
    trajectory, _ = batch_of(DISCRETE)
    trajectory.valid[:, 2] = False
    result = update(learner, trajectory, int(trajectory.valid.sum()))
    assert result.finite
    assert all(math.isfinite(value) for value in result.scalars().values())


@pytest.mark.parametrize("algorithm", ["ppo", "appo"])
def test_a_minibatch_without_a_valid_step_is_no_trouble(algorithm):
    config = configured(algorithm, f"{algorithm}.minibatch_size=1", f"{algorithm}.shuffle=unrolls")
    learner = learner_of(config, DISCRETE, part=100)
    trajectory, _ = batch_of(DISCRETE)
    for silent in (0, 2):  # whichever comes first, some minibatch after another has none
        trajectory.valid[:, silent] = False
    result = update(learner, trajectory, int(trajectory.valid.sum()))
    assert result.finite
    assert len(result.steps) == 5
    assert math.isfinite(result.scalars()["losses/explained_variance"])


@pytest.mark.parametrize("algorithm", ["ppo", "appo"])
def test_a_batch_without_a_valid_step_changes_nothing(algorithm):
    settings = f"{algorithm}.shuffle=steps", f"{algorithm}.normalise_advantages=false", "model.core=none"
    learner = learner_of(configured(algorithm, *settings), DISCRETE, part=100)
    before = learner.state().network
    trajectory, _ = batch_of(DISCRETE)
    trajectory.valid[:] = False
    result = update(learner, trajectory, 0)
    assert result.finite
    assert len(result.steps) == getattr(configured(algorithm), algorithm).epochs
    assert_same(learner.state().network, before, atol=0, rtol=0)


@by_pair
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_non_finite_update_is_skipped_and_changes_nothing(algorithm, action, value):
    config = configured(algorithm, "model.normalise_observations=true", "optimizer.name=adam")
    learner, other = learner_of(config, action, part=2), learner_of(config, action, part=2)
    assert update(learner, *batch_of(action)).finite
    before = learner.state()
    trajectory, steps = batch_of(action, 1)
    trajectory.reward[
        torch.nonzero(trajectory.valid)[-1].tolist()[0], torch.nonzero(trajectory.valid)[-1].tolist()[1]
    ] = value
    assert not update(learner, trajectory, steps).finite
    for one, kept in zip(learner.state(), before, strict=True):
        assert_same(one, kept, atol=0, rtol=0)
    assert update(learner, *batch_of(action, 2)).finite
    update(other, *batch_of(action))
    update(other, *batch_of(action, 2))
    for one, expected in zip(learner.state(), other.state(), strict=True):
        assert_same(one, expected, atol=0, rtol=0)


@pytest.mark.parametrize("largest", [0.1, 100.0, math.inf])
def test_norms_are_clipped_as_by_pytorch_bit_for_bit(largest):
    ours = [torch.nn.Parameter(torch.zeros(size)) for size in ((3, 4), (5,), (2, 3, 4, 4))]
    for parameter in ours:
        parameter.grad = torch.randn_like(parameter)
    gradients = [parameter.grad.clone() for parameter in ours]
    norm = torch.nn.utils.clip_grad_norm_(ours, largest)
    assert torch.equal(clip_norm(gradients, largest), norm)
    assert all(torch.equal(parameter.grad, gradient) for parameter, gradient in zip(ours, gradients, strict=True))


@pytest.mark.parametrize("settings", [[], ["model.core=lstm"], ["model.critic=separate"]], ids=str)
def test_steps_of_unrolls_have_the_same_output_without_the_last(settings):
    network = make_network(read(overrides=settings).model, plain(3), DISCRETE)
    trajectory = random_trajectory(DISCRETE, dtype=torch.float32, state_size=network.state_size)
    length = len(trajectory.reward)
    expected, found = run(network, trajectory), run(network, trajectory, ahead=False)
    torch.testing.assert_close(found.policy[:length], expected.policy[:length])
    torch.testing.assert_close(found.value[:length], expected.value[:length])


@pytest.mark.parametrize("algorithm", ["appo", "ppo"])
def test_terms_that_are_only_logged_change_no_update(algorithm):
    weights = []
    for describes in (False, True):
        torch.manual_seed(1)
        config = read(overrides=[f"algorithm.name={algorithm}", "model.hidden_size=8"])
        learner = make_learner(config, make_network(config.model, plain(3), DISCRETE), DISCRETE)
        learner.algorithm.describes = describes
        trajectory = random_trajectory(DISCRETE, dtype=torch.float32)
        scalars = learner.update(trajectory, int(trajectory.valid.sum()), 0.0, lambda stage: None).scalars()
        assert ("losses/clip_fraction" in scalars) == describes
        weights.append(torch.cat([parameter.flatten() for parameter in learner.network.parameters()]))
    assert torch.equal(*weights)


def test_statistics_are_of_valid_steps_and_sampled_images():
    config = configured("a2c", "model.normalise_observations=true")
    learner = learner_of(config, DISCRETE, part=2)
    trajectory, steps = batch_of(DISCRETE, size=40)
    update(learner, trajectory, steps)
    normaliser = learner.network.trunk.encoder.normaliser
    assert int(normaliser.count) == steps > MOST_IMAGES
    torch.testing.assert_close(normaliser.mean, trajectory.observation[:-1][trajectory.valid].mean(0))
    pixels = torch.arange(40, dtype=torch.uint8).view(40, 1, 1, 1).expand(LENGTH + 1, 40, 54, 54, 1)  # each its own
    images = trajectory._replace(observation=pixels)
    network = make_network(config.model, plain(54, 54, 1), DISCRETE, heads_of(config))
    make_learner(config, network, DISCRETE).update(images, steps, 0.0, lambda stage: None)
    normaliser = network.trunk.encoder.normaliser
    assert MOST_IMAGES / 2 <= int(normaliser.count) <= MOST_IMAGES
    assert normaliser.mean.min() == normaliser.mean.max()
    assert float(normaliser.var.max()) == pytest.approx((39 * 41 / 12) / 255**2, rel=0.1), "of all environments"


def test_some_of_many_images_are_of_all_environments():
    trajectory = random_trajectory(DISCRETE, length=64, size=16)
    pixels = torch.arange(16, dtype=torch.uint8).view(16, 1, 1, 1).expand(65, 16, 4, 4, 1)  # each its own
    images = observed(trajectory._replace(observation=pixels, valid=torch.ones(64, 16, dtype=torch.bool)))
    assert len(images) == MOST_IMAGES
    assert images[:, 0, 0, 0].unique().tolist() == list(range(16))


def test_learner_steps_at_the_scheduled_learning_rate():
    overrides = ("optimizer.name=sgd", "optimizer.gradient_clip=0", "optimizer.learning_rate=linear 0.03 0.01")
    config = configured("impala", *overrides)
    moved = []
    for progress in (1.0, 0.5):
        learner = learner_of(config, DISCRETE, part=100)
        before = learner.state()[0]
        learner.update(*batch_of(DISCRETE), progress, lambda stage: None)
        moved.append({name: tensor - before[name] for name, tensor in learner.state()[0].items()})
    assert_same(moved[1], {name: 2 * tensor for name, tensor in moved[0].items()}, atol=1e-6, rtol=1e-3)


@by_algorithm
def test_kl_target_adapts_rate_to_policy_movement(algorithm):
    config = configured(algorithm, "optimizer.kl_target=1000000", "optimizer.learning_rate=linear 0.03 0.01")
    learner = learner_of(config, DISCRETE, part=100)
    made = update(learner, *batch_of(DISCRETE))
    assert made.policy_kl is not None
    assert learner.learning_rate(0.5) == pytest.approx(0.02 * 1.5), "far from the target"
    careful = learner_of(configured(algorithm, "optimizer.kl_target=1e-8"), DISCRETE, part=100)
    careful.load_state(learner.state())
    assert careful.learning_rate(0.0) == pytest.approx(1.5 * RATE), "it goes on from a state"
    update(careful, *batch_of(DISCRETE))
    assert careful.optimizer.param_groups[0]["lr"] == pytest.approx(1.5 * RATE), "what the step was made with"
    assert careful.learning_rate(0.0) == pytest.approx(RATE)

    for _ in range(10):
        update(learner, *batch_of(DISCRETE))
    assert learner.learning_rate(0.0) == pytest.approx(0.03 * 30), "its bound"


def test_a_batch_without_a_valid_step_changes_no_learning_rate():
    learner = learner_of(configured("ppo", "optimizer.kl_target=1e6", "ppo.normalise_advantages=false"), DISCRETE, 100)
    trajectory, _ = batch_of(DISCRETE)
    made = update(learner, trajectory._replace(valid=torch.zeros_like(trajectory.valid)), 0)
    assert made.policy_kl is None
    assert learner.learning_rate(0.0) == pytest.approx(RATE)


def test_kl_target_keeps_rate_within_its_tolerance():
    measured = update(learner_of(configured("ppo", "optimizer.kl_target=1"), DISCRETE, part=100), *batch_of(DISCRETE))
    for times, factor in ((0.4, 1 / 1.5), (0.6, 1), (1.9, 1), (2.1, 1.5)):
        learner = learner_of(configured("ppo", f"optimizer.kl_target={times * measured.policy_kl}"), DISCRETE, part=100)
        update(learner, *batch_of(DISCRETE))
        assert learner.learning_rate(0.0) == pytest.approx(RATE * factor)


@by_algorithm
def test_algorithms_use_their_scheduled_values(algorithm):
    """As if the value at half of the run had been there from the beginning."""
    schedules = {"algorithm.discount": ("linear 0.9 0.8", 0.85), f"{algorithm}.entropy_cost": ("linear 2 1", 1.5)}
    if algorithm in ("ppo", "appo"):
        schedules[f"{algorithm}.clip_range"] = ("polynomial 0.04 0", 0.01)
    for key, (schedule, value) in schedules.items():
        made = []
        for setting, progress in ((schedule, 0.5), (value, 0.0), (schedule, 0.0)):
            settings = [f"{name}={fixed}" for name, (_, fixed) in schedules.items() if name != key]
            single = ["ppo.epochs=6", "appo.epochs=6"]
            config = configured(algorithm, *settings, *single, f"{key}={setting}")
            learner = learner_of(config, DISCRETE, part=100)
            torch.manual_seed(2)
            learner.update(*batch_of(DISCRETE), progress, lambda stage: None)
            made.append(learner.state()[0])
        assert_same(made[0], made[1])
        assert any(not torch.equal(tensor, made[2][name]) for name, tensor in made[0].items()), key


def with_own_values(network, trajectory, unit=1.0):
    """The trajectory as if the network itself had acted, with values in a unit that many times as small."""
    with torch.no_grad():
        value = network(trajectory.observation, trajectory.first, trajectory.initial_state)[0].value[:-1]
    decision = trajectory.decision.clone()
    decision[..., DISCRETE.columns + 1] = value * unit
    return trajectory._replace(decision=decision)


@pytest.mark.parametrize("algorithm", [name for name, each in ALGORITHMS.items() if not each.synchronous])
def test_values_of_another_unit_change_no_asynchronous_update(algorithm):
    """Those of unrolls that began before the statistics of returns changed."""
    config, states = configured(algorithm, "model.normalise_returns=true"), []
    for unit in (1.0, 7.0):
        learner = learner_of(config, DISCRETE, part=2)
        trajectory, steps = batch_of(DISCRETE)
        update(learner, trajectory._replace(reward=50 * trajectory.reward), steps)
        trajectory, steps = batch_of(DISCRETE, 1)
        update(learner, with_own_values(learner.network, trajectory, unit), steps)
        states.append(learner.state().network)
    assert_same(*states, atol=0, rtol=0)


@pytest.mark.parametrize("algorithm", ["acer", "appo", "impala"])
def test_statistics_count_no_replayed_step(algorithm):
    """Of a batch that is replayed in part, and of one that is replayed as a whole, as acer's are."""
    normalising = ("model.normalise_observations=true", "model.normalise_returns=true")
    learner = learner_of(configured(algorithm, *normalising), DISCRETE, part=2)
    trajectory, steps = batch_of(DISCRETE)
    trajectory.online[2:] = False
    trajectory.observation[:, 2:] = trajectory.reward[:, 2:] = 1e3
    update(learner, trajectory, steps)
    network, fresh = learner.network, trajectory.valid[:, :2]
    normaliser = network.trunk.encoder.normaliser
    assert int(normaliser.count) == int(network.returns.count) == int(fresh.sum())
    torch.testing.assert_close(normaliser.mean, trajectory.observation[:-1, :2][fresh].mean(0))
    assert float(network.returns.mean.abs()) < 10
    before = [
        {name: tensor.clone() for name, tensor in part.state_dict().items()} for part in (network.returns, normaliser)
    ]
    trajectory.online[:] = False
    update(learner, trajectory, steps)
    assert_same(network.returns.state_dict(), before[0], atol=0, rtol=0)
    assert_same(normaliser.state_dict(), before[1], atol=0, rtol=0)


@pytest.mark.parametrize("algorithm", ["ppo", "appo"])
@pytest.mark.parametrize("shuffle", ["steps", "unrolls"])
def test_statistics_count_each_step_of_several_passes_once(algorithm, shuffle):
    states = []
    for epochs in (1, 3):
        sizes = f"{algorithm}.epochs={epochs}", f"{algorithm}.minibatch_size=10", f"{algorithm}.shuffle={shuffle}"
        learner = learner_of(configured(algorithm, "model.normalise_returns=true", *sizes), DISCRETE, part=100)
        trajectory, steps = batch_of(DISCRETE)
        update(learner, trajectory, steps)
        states.append(learner.network.returns.state_dict())
        assert int(learner.network.returns.count) == steps
    assert_same(*states)


def test_td_errors_are_in_the_unit_of_rewards():
    """So that priorities from before and after a change of the statistics of returns can be compared."""
    errors = []
    for scale in (1.0, 50.0):
        learner = learner_of(configured("impala", "model.normalise_returns=true", "optimizer.name=sgd"), DISCRETE, 2)
        with torch.no_grad():
            learner.network.value.weight.zero_()  # the same returns are predicted in any unit
        trajectory, steps = batch_of(DISCRETE)
        trajectory = trajectory._replace(serial=torch.arange(5))
        learner.network.observe_returns(scale * torch.tensor([-1.0, 1.0]), 1.0)
        errors.append(update(learner, trajectory, steps).td_errors())
    (serials, one), (_, other) = errors
    assert serials.tolist() == list(range(5))
    torch.testing.assert_close(torch.from_numpy(one), torch.from_numpy(other), rtol=1e-4, atol=1e-6)


@by_algorithm
def test_rewards_are_divided_by_deviation_of_earlier_returns(algorithm):
    normalising = configured(algorithm, "model.normalise_returns=true")
    learner = learner_of(normalising, DISCRETE, part=2)
    trajectory, steps = batch_of(DISCRETE)
    update(learner, trajectory._replace(reward=50 * trajectory.reward), steps)
    deviation = float(learner.network.return_deviation())
    assert deviation > 10
    plain = learner_of(configured(algorithm), DISCRETE, part=2)
    state = learner.state()
    weights, average = (
        {name: tensor for name, tensor in group.items() if not name.startswith("returns.")}
        for group in (state.network, state.algorithm)
    )
    plain.load_state(state._replace(network=weights, algorithm=average))

    trajectory, steps = batch_of(DISCRETE, 1)
    trajectory = with_own_values(learner.network, trajectory)  # of which a3c, with normalised returns, takes no others
    update(learner, trajectory, steps)
    update(plain, trajectory._replace(reward=trajectory.reward / deviation), steps)
    change = deviation / float(learner.network.return_deviation())
    expected = {
        name: tensor * change if name.startswith("value.") else tensor for name, tensor in plain.state()[0].items()
    }
    assert_same({name: tensor for name, tensor in learner.state()[0].items() if name in expected}, expected)
    before = {name: tensor.clone() for name, tensor in learner.network.state_dict().items()}
    learner.network.act(
        trajectory.observation[0], trajectory.first[0], trajectory.initial_state, torch.ones(5, 4), True
    )
    assert_same(learner.network.state_dict(), before, atol=0, rtol=0)


def test_learner_resumes_from_a_state_without_changing_it():
    config = configured("impala", "optimizer.name=adam")
    learner, other = learner_of(config, DISCRETE, part=100), learner_of(config, DISCRETE, part=100)
    update(learner, *batch_of(DISCRETE))
    state = learner.state()
    kept = [{name: tensor.clone() for name, tensor in group.items()} for group in state]
    other.load_state(state)
    update(learner, *batch_of(DISCRETE, 1))
    update(other, *batch_of(DISCRETE, 1))
    for one, expected, before, given in zip(learner.state(), other.state(), kept, state, strict=True):
        assert_same(one, expected, atol=0, rtol=0)
        assert_same(given, before, atol=0, rtol=0)


def test_the_stages_of_each_part_are_timed():
    laps = []
    update(learner_of(configured("a2c"), DISCRETE, part=3), *batch_of(DISCRETE), laps)
    assert laps == ["forward", "loss", "backward"] * 2 + ["optimizer"]


@pytest.mark.parametrize("algorithm", ["appo", "acer"])
def test_threads_share_the_parts_and_change_no_bit(algorithm):
    """Eleven unrolls in parts of at most three, on one thread and on three; two updates, one after the other."""
    weights, laps = {}, []
    for threads in (1, 3):
        learner = learner_of(configured(algorithm), DISCRETE, part=3, threads=UpdateThreads(threads))
        for seed in (0, 1):
            update(learner, *batch_of(DISCRETE, seed, size=11), laps if threads == 3 else None)
        weights[threads] = torch.cat([parameter.detach().flatten() for parameter in learner.network.parameters()])
    assert torch.equal(weights[1], weights[3])
    assert "forward" not in laps
    assert laps.count("backward") == laps.count("optimizer") >= 2


def run_updates(threads, now, number, seconds, pause=0.01, shared=True):
    """The time after so many updates, which all threads share or which take as long as ever, each with a pause."""
    for _ in range(number):
        length = seconds / threads.number if shared else seconds
        now += length * (1 + pause)
        threads.record(now - length * pause - length, now - length * pause)
    return now


def test_only_updates_without_pauses_get_more_threads():
    """Decided after `UPDATES` long ones, or after `SECONDS` of short ones."""
    for update in (3.0, SECONDS / UPDATES / 8):
        for pause, numbers in ((0.01, [1, 2, 3]), (0.2, [1, 1, 1])):
            threads, now, known = UpdateThreads(1, most=3), 100.0, []
            for _ in range(3):
                known.append(threads.number)
                needed = max(UPDATES, math.ceil(SECONDS / update * threads.number / (1 + pause)))
                now = run_updates(threads, now, needed, update, pause)
                assert threads.number == known[-1], "the first one with these threads, which compiles, does not count"
                now = run_updates(threads, now, 1, update, pause)
            assert known == numbers
            assert threads.least_parts == threads.number


def test_useless_threads_are_removed_and_retried_less_often():
    threads, now, tried = UpdateThreads(1, most=4), 0.0, []
    while now < 500:
        before = threads.number
        now = run_updates(threads, now, 1, 0.5, shared=False)
        assert threads.number <= 2
        assert threads.least_parts == threads.number
        if threads.number > before:
            tried.append(now)
    assert threads.number == 1
    assert len(tried) == 4
    for (one, other), pause in zip(itertools.pairwise(tried), (1, 2, 4), strict=True):
        assert RETRY_SECONDS * pause < other - one < RETRY_SECONDS * pause + 12


def test_added_threads_divide_a_batch_of_one_part():
    """As many parts as threads, with the same result; a number that was given leaves a single part whole."""
    weights = {}
    for added in (False, True):
        threads, laps = UpdateThreads(1, most=3) if added else UpdateThreads(1), []
        run_updates(threads, 0.0, 50, 1.0)
        assert threads.number == (3 if added else 1)
        learner = learner_of(configured("a2c"), DISCRETE, part=11, threads=threads)
        update(learner, *batch_of(DISCRETE, size=11), laps)
        assert ("forward" in laps) is not added
        weights[added] = torch.cat([parameter.detach().flatten() for parameter in learner.network.parameters()])
    torch.testing.assert_close(weights[True], weights[False])
    laps = []
    learner = learner_of(configured("a2c"), DISCRETE, part=11, threads=UpdateThreads(3))
    update(learner, *batch_of(DISCRETE, size=11), laps)
    assert "forward" in laps


def test_a_number_of_threads_that_was_given_stays():
    threads = UpdateThreads(2)
    for second in range(3 * UPDATES):
        threads.record(second, second + 1)
    assert threads.number == 2


def test_an_error_on_a_thread_ends_the_update(monkeypatch):
    learner = learner_of(configured("a2c"), DISCRETE, part=1, threads=UpdateThreads(2))

    def fail(*_):
        raise RuntimeError("broken")

    monkeypatch.setattr(learner.algorithm, "loss", fail)
    with pytest.raises(RuntimeError, match="broken"):
        update(learner, *batch_of(DISCRETE))


@by_pair
def test_the_configuration_chooses_the_algorithm(algorithm, action):
    config = configured(algorithm)
    learner = make_learner(config, make_network(config.model, plain(3), action, heads_of(config)), action)
    assert type(learner.algorithm) is ALGORITHMS[algorithm]
    assert learner.algorithm.synchronous is (algorithm in ("a2c", "ppo"))
    assert update(learner, *batch_of(action)).finite


def test_rewards_are_scaled_and_transformed_as_configured():
    config = configured("a2c", "algorithm.reward_scale=0.25", "algorithm.reward_transform=clip")
    algorithm = make_algorithm(config, make_distribution(DISCRETE))
    assert torch.equal(algorithm.transform(torch.tensor([[8.0, -2.0]])), torch.tensor([[1.0, -0.5]]))


def test_terms_are_minibatch_means_except_explained_variance():
    learner = learner_of(configured("appo", "appo.minibatch_size=1", "appo.epochs=2"), DISCRETE, part=100)
    trajectory, _ = batch_of(DISCRETE)
    result = update(learner, trajectory, int(trajectory.valid.sum()))
    losses = [step.losses[0] for step in result.steps]
    assert learner.optimizer_steps == len(losses) > 4
    value, target = (torch.cat([x.steps[name][x.valid] for x in losses]) for name in ("value", "value_target"))
    expected = 1 - ((target - value).var() / target.var()).item()
    assert result.scalars()["losses/explained_variance"] == pytest.approx(expected, abs=1e-4)
    entropies = [loss.terms["entropy"].item() for loss in losses]
    assert result.scalars()["losses/entropy"] == pytest.approx(sum(entropies) / len(entropies), rel=1e-5)
    apart = [describe([loss])["losses/explained_variance"] for loss in losses]
    assert abs(sum(apart) / len(apart) - expected) > 0.05


@pytest.mark.parametrize("algorithm", [name for name, kind in ALGORITHMS.items() if kind.replays])
def test_importance_weighs_losses_but_no_logged_shares(algorithm):
    """The entropy of a random policy is that of one, however small the weights of a prioritised replay's unrolls."""
    overrides = ["replay.methods=queue prioritised", "laser.threshold=1e-9", "optimizer.learning_rate=1e-12"]
    config = read(overrides=[f"algorithm.name={algorithm}", "model.hidden_size=8", *overrides])
    trajectory = random_trajectory(DISCRETE, dtype=torch.float32)
    every = []
    for importance in (1.0, 0.25):
        torch.manual_seed(1)
        learner = make_learner(config, make_network(config.model, plain(3), DISCRETE, heads_of(config)), DISCRETE)
        weighed = trajectory._replace(importance=torch.full((trajectory.online.shape[0],), importance))
        update = learner.update(weighed, int(trajectory.valid.sum()), 0.0, lambda stage: None)
        every.append({name.removeprefix("losses/"): value for name, value in update.scalars().items()})
    full, weighed = every
    logged = {
        "entropy",
        "rho_clipped",
        "behaviour_kl",
        "masked",
        "old_kl",
        "clip_fraction",
        "trust_region",
        "average_kl",
    }
    assert {"entropy", "rho_clipped", "behaviour_kl"} <= logged & full.keys()
    for name in logged & full.keys():
        assert weighed[name] == pytest.approx(full[name], rel=1e-5), name
    for name in ("policy_gradient", "value"):
        assert weighed[name] == pytest.approx(0.25 * full[name], rel=1e-4), name
