"""PPO's and APPO's targets, loss and gradient against loops over single steps in float64, and their special cases."""

import copy

import numpy as np
import pytest
import torch
from trajectories import ACTIONS, DISCRETE, kind, random_trajectory, said

from kartrl.algorithms import make_algorithm
from kartrl.algorithms.a2c import A2C
from kartrl.algorithms.appo import APPO
from kartrl.algorithms.ppo import PPO
from kartrl.algorithms.rewards import TRANSFORMS
from kartrl.config import Model, read
from kartrl.config.algorithms import A2C as A2CSection
from kartrl.config.algorithms import APPO as APPOSection
from kartrl.config.algorithms import PPO as PPOSection
from kartrl.config.schedule import constant
from kartrl.envs.observation_spec import plain
from kartrl.models import Output, make_distribution, make_network
from kartrl.trajectory import split_decision

GAMMA = 0.875  # exact in float32, in which discounts are
by_kind = pytest.mark.parametrize("action", ACTIONS, ids=kind)
by_algorithm = pytest.mark.parametrize("algorithm", [PPO, APPO])


def made(algorithm, action, **settings):
    section = {PPO: PPOSection, APPO: APPOSection, A2C: A2CSection}[algorithm](**settings)
    return algorithm(section, constant(GAMMA), TRANSFORMS["clip"], make_distribution(action))


def network_for(action, core="lstm"):
    torch.manual_seed(11)
    return make_network(Model(hidden_size=8, core=core), plain(3), action)


def acted_with(network, trajectory, distribution):
    """The same steps, with the decisions that this network would have noted of the same actions."""
    with torch.no_grad():
        output, _ = network(trajectory.observation, trajectory.first, trajectory.initial_state)
    action = split_decision(trajectory.decision, distribution.action_columns).action
    policy, value = output.policy[:-1], output.value[:-1]
    log_prob = distribution.log_prob(policy, action)
    return trajectory._replace(
        decision=torch.cat([action, log_prob.unsqueeze(2), value.unsqueeze(2), policy], 2)
    ), output


def prepared(algorithm, network, trajectory):
    with torch.no_grad():
        return algorithm.prepare(network, trajectory, int(trajectory.valid.sum()))


def only_minibatch(algorithm, batch):
    return next(algorithm.minibatches(batch, []))


def heads(action, trajectory, seed=0):
    torch.manual_seed(seed)
    steps, size = trajectory.first.shape
    head = torch.randn(steps, size, make_distribution(action).parameter_size, dtype=torch.float64) * 0.5
    return head.requires_grad_(), torch.randn(steps, size, dtype=torch.float64).requires_grad_()


@by_kind
@by_algorithm
@pytest.mark.parametrize("value_clip_range", [0.0, 0.3])
def test_loss_and_its_gradient_equal_loops_over_single_steps(algorithm, action, value_clip_range):
    settings = {"value_cost": 0.7, "entropy_cost": 0.03, "clip_range": 0.25, "value_clip_range": value_clip_range}
    agent = made(algorithm, action, minibatch_size=1000, **settings)
    distribution, trajectory = make_distribution(action), random_trajectory(action)
    batch = only_minibatch(agent, prepared(agent, network_for(action), trajectory))
    head, value = heads(action, trajectory)
    loss = agent.loss(Output(distribution.normalise(head), value), batch)
    loss.total.backward()

    targets = {name: target.double().numpy() for name, target in batch.targets.items()}
    behaviour = split_decision(batch.trajectory.decision, action.columns)
    taken, old_log_prob = behaviour.action.numpy(), behaviour.log_prob.numpy()
    valid = batch.trajectory.valid.numpy()
    terms = dict.fromkeys(loss.terms, 0.0)
    head_gradient, value_gradient = np.zeros(head.shape), np.zeros(value.shape)
    outside = 0
    for t, b in np.argwhere(valid):
        new = said(action, head[t, b].detach().numpy(), taken[t, b])
        ratio, advantage = np.exp(new.log_prob - old_log_prob[t, b]), targets["advantage"][t, b]
        plain, clipped = ratio * advantage, np.clip(ratio, 0.75, 1.25) * advantage
        error = targets["value_target"][t, b] - value[t, b].item()
        near = targets["old_value"][t, b] + np.clip(value[t, b].item() - targets["old_value"][t, b], -0.3, 0.3)
        held = value_clip_range > 0 and (targets["value_target"][t, b] - near) ** 2 > error**2
        terms["policy_gradient"] -= min(plain, clipped)
        terms["value"] += 0.5 * ((targets["value_target"][t, b] - near) ** 2 if held else error**2)
        terms["entropy"] += new.entropy
        terms["clip_fraction"] += abs(ratio - 1) > 0.25
        outside += plain > clipped
        surrogate_gradient = 0.0 if plain > clipped else plain * new.log_prob_gradient
        head_gradient[t, b] = -surrogate_gradient - 0.03 * new.entropy_gradient
        value_gradient[t, b] = 0.0 if held else -0.7 * error
    assert 0 < outside < valid.sum()
    steps = valid.sum()
    for name in ("policy_gradient", "value", "entropy", "clip_fraction"):
        assert loss.terms[name].item() == pytest.approx(terms[name] / steps, rel=1e-5, abs=1e-6), name
    total = loss.terms["policy_gradient"] + 0.7 * loss.terms["value"] - 0.03 * loss.terms["entropy"]
    torch.testing.assert_close(loss.total, total)
    np.testing.assert_allclose(head.grad.numpy(), head_gradient / steps, atol=1e-6)
    np.testing.assert_allclose(value.grad.numpy(), value_gradient / steps, atol=1e-6)


@by_kind
@by_algorithm
@pytest.mark.parametrize("core", ["lstm", "none"])
def test_on_policy_targets_are_gae_and_gradient_is_a2c(algorithm, action, core):
    network, distribution = network_for(action, core), make_distribution(action)
    trajectory, _ = acted_with(
        network, random_trajectory(action, state_size=network.state_size, dtype=torch.float32), distribution
    )
    shared = {"gae_lambda": 0.9, "normalise_advantages": True, "entropy_cost": 0.02}
    gradients = []
    for agent in (made(algorithm, action, minibatch_size=1000, **shared), made(A2C, action, **shared)):
        batch = only_minibatch(agent, prepared(agent, network, trajectory))
        ordered = batch.trajectory
        network.zero_grad()
        agent.loss(network(ordered.observation, ordered.first, ordered.initial_state)[0], batch).total.backward()
        gradients.append({name: parameter.grad.clone() for name, parameter in network.named_parameters()})
    for name, gradient in gradients[1].items():
        torch.testing.assert_close(gradients[0][name], gradient, atol=1e-6, rtol=1e-4)


@by_kind
def test_off_policy_appo_uses_learner_values_and_acting_clip(action):
    network, distribution = network_for(action), make_distribution(action)
    trajectory = random_trajectory(action, dtype=torch.float32)
    agent = made(APPO, action, normalise_advantages=False, minibatch_size=1000)
    batch = prepared(agent, network, trajectory)
    _, output = acted_with(network, trajectory, distribution)
    torch.testing.assert_close(batch.targets["old_value"], output.value[:-1])
    last = trajectory.terminated & trajectory.valid  # where nothing follows, r - V is all of it
    assert last.any()
    expected = trajectory.reward.clamp(-1, 1) - output.value[:-1]
    torch.testing.assert_close(batch.targets["advantage"][last], expected[last])
    behaviour = split_decision(trajectory.decision, distribution.action_columns)
    ratio = (distribution.log_prob(output.policy[:-1], behaviour.action) - behaviour.log_prob).exp()
    outside = (ratio - 1).abs() > 0.2
    assert outside[trajectory.valid].any()
    clipped = agent.loss(output, only_minibatch(agent, batch)).terms["clip_fraction"]
    torch.testing.assert_close(clipped, outside[trajectory.valid].float().mean())


@by_algorithm
def test_each_epoch_takes_every_unroll_once_in_another_order(algorithm):
    agent = made(algorithm, DISCRETE, epochs=3, minibatch_size=21)
    trajectory = random_trajectory(DISCRETE, size=6)
    trajectory = trajectory._replace(reward=torch.arange(6.0).expand(7, 6).contiguous())
    batch = prepared(agent, network_for(DISCRETE), trajectory)
    torch.manual_seed(0)
    drawn = []
    for minibatch in agent.minibatches(batch, []):
        assert minibatch.steps == int(minibatch.trajectory.valid.sum())
        assert minibatch.targets["advantage"].shape[1] == 3
        drawn.append([int(number) for number in minibatch.trajectory.reward[0]])
    epochs = [drawn[0] + drawn[1], drawn[2] + drawn[3], drawn[4] + drawn[5]]
    assert len(drawn) == 6
    assert all(sorted(epoch) == [0, 1, 2, 3, 4, 5] for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) > 1


@by_kind
@by_algorithm
def test_shuffled_steps_have_loss_and_gradient_of_unrolls(algorithm, action):
    network = network_for(action, "none")
    trajectory = random_trajectory(action, state_size=0, dtype=torch.float32)
    trajectory = trajectory._replace(importance=torch.arange(1.0, 6.0))
    losses, gradients = [], []
    for shuffle in ("unrolls", "steps"):
        agent = made(algorithm, action, minibatch_size=1000, shuffle=shuffle, value_clip_range=0.1)
        batch = only_minibatch(agent, prepared(agent, network, trajectory))
        chosen = batch.trajectory
        if shuffle == "steps":
            policy, value, _ = network.step(chosen.observation[0], chosen.first[0], chosen.initial_state)
            output = Output(policy[None], value[None])
        else:
            output, _ = network(chosen.observation, chosen.first, chosen.initial_state)
        loss = agent.loss(output, batch)
        losses.append({"total": loss.total.detach(), **loss.terms})
        gradients.append(torch.autograd.grad(loss.total, list(network.parameters())))
    assert batch.trajectory.reward.shape == (1, int(trajectory.valid.sum()))
    torch.testing.assert_close(losses[0], losses[1])
    torch.testing.assert_close(gradients[0], gradients[1])


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        (["algorithm.name=ppo"], 1),
        (["algorithm.name=appo"], 1),
        (["appo.shuffle=unrolls"], 7),
        (["model.core=gru"], 7),
        (["algorithm.name=ppo", "model.core=lstm"], 7),
        (["replay.methods=queue uniform"], 7),
    ],
)
def test_minibatches_are_steps_unless_unrolls_are_needed(settings, steps):
    agent = make_algorithm(read(overrides=settings), make_distribution(DISCRETE))
    trajectory = random_trajectory(DISCRETE, state_size=0, dtype=torch.float32)
    batch = only_minibatch(agent, prepared(agent, network_for(DISCRETE, "none"), trajectory))
    assert len(batch.trajectory.reward) == steps


@by_algorithm
def test_each_epoch_takes_each_valid_step_once_with_its_targets(algorithm):
    agent = made(algorithm, DISCRETE, epochs=2, minibatch_size=8, shuffle="steps")
    trajectory = random_trajectory(DISCRETE, size=6, state_size=0)
    number = torch.arange(42.0).reshape(7, 6)
    batch = prepared(agent, network_for(DISCRETE, "none"), trajectory)
    batch = batch._replace(
        trajectory=trajectory._replace(reward=number, serial=torch.arange(6)), targets={"advantage": number + 100}
    )
    valid = number[trajectory.valid].tolist()
    assert len(valid) < 42
    torch.manual_seed(0)
    drawn = list(agent.minibatches(batch, []))
    sizes = [minibatch.steps for minibatch in drawn]
    assert len(drawn) == 2 * round(len(valid) / 8)
    assert max(sizes) - min(sizes) <= 1
    half = len(drawn) // 2
    orders = []
    for epoch in (drawn[:half], drawn[half:]):
        orders.append(torch.cat([minibatch.trajectory.reward[0] for minibatch in epoch]))
        assert sorted(orders[-1].tolist()) == valid
    assert not torch.equal(*orders)
    for minibatch in drawn:
        torch.testing.assert_close(minibatch.targets["advantage"], minibatch.trajectory.reward + 100)
        torch.testing.assert_close(minibatch.trajectory.serial, minibatch.trajectory.reward[0].long() % 6)


@by_algorithm
@pytest.mark.parametrize(("kl_limit", "passes"), [(0.0, 4), (1e-9, 1), (1e9, 4)])
def test_kl_limit_ends_the_update_after_the_exceeding_epoch(algorithm, kl_limit, passes):
    agent = made(algorithm, DISCRETE, epochs=4, minibatch_size=1000, kl_limit=kl_limit)
    network = network_for(DISCRETE)
    batch = prepared(agent, network, random_trajectory(DISCRETE, dtype=torch.float32))
    other = copy.deepcopy(network)
    with torch.no_grad():
        other.policy.bias += torch.randn(4)
    losses = []
    for minibatch in agent.minibatches(batch, losses):
        ordered = minibatch.trajectory
        losses.append(agent.loss(other(ordered.observation, ordered.first, ordered.initial_state)[0], minibatch))
    assert len(losses) == passes
