"""CLEAR's terms and LASER's mask, with their gradients, against loops over single steps in float64."""

import copy

import numpy as np
import pytest
import torch
from trajectories import ACTIONS, DISCRETE, kind, random_trajectory, slow_kl

from kartrl.algorithms import state_of
from kartrl.algorithms.algorithm import Batch, Loss
from kartrl.algorithms.appo import APPO
from kartrl.algorithms.clear import Cloning
from kartrl.algorithms.impala import Impala
from kartrl.algorithms.laser import Relevance
from kartrl.algorithms.rewards import TRANSFORMS
from kartrl.algorithms.vtrace import vtrace
from kartrl.config import Model, read
from kartrl.config.algorithms import APPO as AppoSection
from kartrl.config.algorithms import Impala as ImpalaSection
from kartrl.config.replay import Clear, Laser
from kartrl.config.schedule import constant
from kartrl.envs.observation_spec import plain
from kartrl.models import Output, make_distribution, make_network
from kartrl.trajectory import split_decision

T, B = 7, 5
ONLINE = [True, False, False, True, False]


def heads(action, seed=0):
    torch.manual_seed(seed)
    size = make_distribution(action).parameter_size
    head = (torch.randn(T + 1, B, size, dtype=torch.float64) * 0.5).requires_grad_()
    return head, torch.randn(T + 1, B, dtype=torch.float64).requires_grad_()


def nothing(trajectory):
    return Loss(torch.zeros((), dtype=torch.float64), {}, {}, trajectory.valid)


@pytest.mark.parametrize("action", ACTIONS, ids=kind)
@pytest.mark.parametrize("form", ["paper", "seed", "masked seed"])
def test_cloning_and_its_gradient_equal_loops_over_steps(action, form):
    distribution = make_distribution(action)
    importance = torch.rand(B, dtype=torch.float64) + 0.5
    trajectory = random_trajectory(action)._replace(online=torch.tensor(ONLINE), importance=importance)
    steps, section = int(trajectory.valid.sum()), Clear(policy_cost=0.3, value_cost=0.7, form=form.split()[-1])
    head, value = heads(action)
    batch, policy = Batch(trajectory, {}, steps), distribution.normalise(head)
    behaviour = split_decision(trajectory.decision, action.columns).parameters
    divergence = distribution.kl(policy[:-1], behaviour).detach()  # KL(pi || mu)
    threshold = divergence[trajectory.valid].median().item() if form == "masked seed" else 0.0
    loss = Cloning(section, distribution, threshold).added(nothing(trajectory), Output(policy, value), batch)
    loss.total.backward()

    def left_out(t, b):
        return ONLINE[b] if form == "paper" else bool(threshold and divergence[t, b] >= threshold)

    other_head, other_value = heads(action)
    policy, decision = distribution.normalise(other_head), split_decision(trajectory.decision, action.columns)
    policies, squares = 0.0, dict.fromkeys(range(B), 0.0)
    for t, b in np.argwhere(trajectory.valid.numpy()):
        if not left_out(t, b):
            both = decision.parameters[t, b], policy[t, b]
            policies += importance[b] * slow_kl(action, *(both if form == "paper" else both[::-1])) / steps
            squares[b] += (other_value[t, b] - decision.value[t, b]) ** 2
    values = sum(
        importance[b] * (square if form == "paper" else square**0.5) / steps
        for b, square in squares.items()
        if isinstance(square, torch.Tensor)
    )
    (0.3 * policies + 0.7 * values).backward()
    assert loss.terms["policy_cloning"].item() == pytest.approx(policies.item())
    assert loss.terms["value_cloning"].item() == pytest.approx(values.item())
    torch.testing.assert_close(head.grad, other_head.grad)
    torch.testing.assert_close(value.grad, other_value.grad)
    assert (head.grad[:, ONLINE].abs().sum() == 0) == (form == "paper"), "the paper clones replayed steps alone"


@pytest.mark.parametrize("form", ["paper", "seed"])
def test_cloning_parts_add_up_and_perfect_clone_costs_nothing(form):
    distribution, section = make_distribution(DISCRETE), Clear(policy_cost=0.3, value_cost=0.7, form=form)
    trajectory = random_trajectory(DISCRETE)._replace(online=torch.zeros(B, dtype=torch.bool))
    head, value = heads(DISCRETE)
    batch, cloning = Batch(trajectory, {}, 20), Cloning(section, distribution)

    def loss(policy, value, part):
        return cloning.added(nothing(trajectory), Output(policy[:, part], value[:, part]), batch.unrolls(part)).total

    policy = distribution.normalise(head)
    whole = loss(policy, value, slice(None))
    torch.testing.assert_close(loss(policy, value, slice(0, 2)) + loss(policy, value, slice(2, B)), whole)
    behaviour = split_decision(trajectory.decision, 1)
    same = torch.cat([behaviour.parameters, behaviour.parameters[:1]]).requires_grad_()
    value = torch.cat([behaviour.value, behaviour.value[:1]]).requires_grad_()
    perfect = loss(same, value, slice(None))
    assert perfect.item() == pytest.approx(0, abs=1e-12)
    perfect.backward()
    assert bool(value.grad.isfinite().all())


def slow_masked_vtrace(ratio, reward, discount, valid, value, bootstrap, trusted, whole):
    """The sum over later steps, each weighted by the masked traces up to it; one unroll, bars of 1."""
    values = np.append(value, bootstrap)
    targets = []
    for s in range(len(reward)):
        total = values[s]
        for t in range(s, len(reward)):
            weight = np.prod([discount[i] * min(1, ratio[i]) * valid[i] * trusted[i] for i in range(s, t)])
            difference = min(1, ratio[t]) * valid[t] * (trusted[t] if whole else 1)
            total += weight * difference * (reward[t] + discount[t] * values[t + 1] - values[t])
        targets.append(total)
    return np.array(targets)


@pytest.mark.parametrize("whole", [False, True])
def test_masked_targets_are_the_masked_sums(whole):
    random = np.random.default_rng(0)
    trajectory = random_trajectory(DISCRETE, 1)
    mu = split_decision(trajectory.decision, 1).log_prob
    pi = mu + torch.from_numpy(random.normal(size=(T, B)))
    value, bootstrap = torch.from_numpy(random.normal(size=(T, B))), torch.from_numpy(random.normal(size=B))
    trusted = torch.from_numpy((random.random((T, B)) < 0.6).astype(float))
    discount = 0.9 * (~trajectory.terminated & trajectory.valid).double()
    inputs = mu, pi, trajectory.reward, discount, trajectory.valid, value, bootstrap, 1.0, 1.0, 1.0
    targets = vtrace(*inputs, trusted, whole)
    for b in range(B):
        own = [x[:, b].numpy() for x in ((pi - mu).exp(), trajectory.reward, discount, trajectory.valid, value)]
        reference = slow_masked_vtrace(*own, bootstrap[b].item(), trusted[:, b].numpy(), whole)
        np.testing.assert_allclose(targets.value_target[:, b].numpy(), reference, atol=1e-10)
    everything = vtrace(*inputs, torch.ones(T, B, dtype=torch.float64), whole)
    torch.testing.assert_close(everything.value_target, vtrace(*inputs).value_target)


def impala(form, threshold, **settings):
    relevance = Relevance(Laser(threshold=threshold, form=form, **settings), make_distribution(DISCRETE))
    section = ImpalaSection(entropy_cost=0.0)
    return Impala(section, constant(0.875), TRANSFORMS["none"], make_distribution(DISCRETE), relevance)


@pytest.mark.parametrize("form", ["seed", "paper"])
def test_the_gradient_of_a_masked_loss_equals_loops_over_steps(form):
    distribution, trajectory = make_distribution(DISCRETE), random_trajectory(DISCRETE)
    behaviour, steps = split_decision(trajectory.decision, 1), int(trajectory.valid.sum())
    (head, value), (other_head, other_value) = heads(DISCRETE), heads(DISCRETE)
    lagged = distribution.normalise(heads(DISCRETE, seed=1)[0].detach())[:-1]
    compared = lagged if form == "paper" else distribution.normalise(head.detach())[:-1]
    divergence = distribution.kl(compared, behaviour.parameters)
    threshold = float(divergence[trajectory.valid].median())
    algorithm, targets = impala(form, threshold), {"lagged_policy": lagged} if form == "paper" else {}
    algorithm.loss(Output(distribution.normalise(head), value), Batch(trajectory, targets, steps)).total.backward()

    log_prob = distribution.log_prob(distribution.normalise(other_head)[:-1], behaviour.action)
    ratio, values = (log_prob - behaviour.log_prob).exp().detach().numpy(), other_value.detach().numpy()
    trusted, valid = (divergence < threshold).numpy().astype(float), trajectory.valid.numpy().astype(float)
    reward, total = trajectory.reward.numpy(), 0.0
    discount = 0.875 * (~trajectory.terminated & trajectory.valid).double().numpy()
    for b in range(B):
        inputs = ratio[:, b], reward[:, b], discount[:, b], valid[:, b], values[:-1, b], values[-1, b], trusted[:, b]
        target = slow_masked_vtrace(*inputs, form == "paper")
        for t in range(T):
            weight = trusted[t, b] * valid[t, b] / steps
            after = target[t + 1] if t + 1 < T and valid[t + 1, b] else values[t + 1, b]
            advantage = reward[t, b] + discount[t, b] * after - values[t, b]
            total -= weight * min(1, ratio[t, b]) * advantage * log_prob[t, b]
            total += weight * algorithm.section.value_cost * 0.5 * (target[t] - other_value[t, b]) ** 2
    total.backward()
    torch.testing.assert_close(head.grad, other_head.grad)
    torch.testing.assert_close(value.grad, other_value.grad)


def test_untrusted_steps_have_no_gradient_and_are_reported():
    distribution, trajectory = make_distribution(DISCRETE), random_trajectory(DISCRETE)
    head, value = heads(DISCRETE)
    behaviour = split_decision(trajectory.decision, 1)
    divergence = distribution.kl(distribution.normalise(head.detach())[:-1], behaviour.parameters)  # KL(pi || mu)
    threshold = float(divergence[trajectory.valid].median())
    batch = impala("seed", threshold).prepare(None, trajectory, int(trajectory.valid.sum()))
    loss = impala("seed", threshold).loss(Output(distribution.normalise(head), value), batch)
    loss.total.backward()
    masked = (divergence >= threshold) | ~trajectory.valid
    assert (head.grad[:-1][masked] == 0).all()
    assert (value.grad[:-1][masked] == 0).all()
    assert (head.grad[:-1][~masked] != 0).any(-1).all()
    share = (masked & trajectory.valid).sum() / trajectory.valid.sum()
    assert loss.terms["masked"].item() == pytest.approx(share.item())


@pytest.mark.parametrize("algorithm", ["impala", "appo"])
def test_a_threshold_that_nothing_reaches_changes_nothing(algorithm):
    distribution = make_distribution(DISCRETE)
    torch.manual_seed(3)
    network = make_network(Model(hidden_size=8), plain(3), DISCRETE)
    trajectory = random_trajectory(DISCRETE, state_size=0, dtype=torch.float32)
    made = {"impala": (Impala, ImpalaSection()), "appo": (APPO, AppoSection(normalise_advantages=False))}[algorithm]
    gradients = []
    for threshold in (None, 1e9, 1e-9):
        relevance = None if threshold is None else Relevance(Laser(threshold=threshold, form="paper"), distribution)
        learns = made[0](made[1], constant(0.875), TRANSFORMS["none"], distribution, relevance)
        with torch.no_grad():
            batch = learns.prepare(network, trajectory, int(trajectory.valid.sum()))
        output, _ = network(trajectory.observation, trajectory.first, trajectory.initial_state)
        network.value.zero_grad()
        learns.loss(output, batch).total.backward()
        gradients.append(network.value.weight.grad.clone())
    torch.testing.assert_close(gradients[0], gradients[1])
    assert (gradients[2] == 0).all()


def test_the_lagged_policy_follows_and_is_kept_in_checkpoints():
    torch.manual_seed(3)
    network = make_network(Model(hidden_size=8), plain(3), DISCRETE)
    trajectory = random_trajectory(DISCRETE, state_size=0, dtype=torch.float32)
    assert impala("seed", 0.3).state_dict() == {}
    algorithm, old = impala("paper", 0.3, target_decay=0.75), copy.deepcopy(network.state_dict())
    with torch.no_grad():
        before = algorithm.prepare(network, trajectory, 1).targets["lagged_policy"]
        for parameter in network.parameters():
            parameter += torch.randn_like(parameter)
        algorithm.after_step(network)
        for name, tensor in algorithm.state_dict().items():
            torch.testing.assert_close(tensor, 0.75 * old[name] + 0.25 * network.state_dict()[name])
        after = algorithm.prepare(network, trajectory, 1).targets["lagged_policy"]
        resumed = impala("paper", 0.3)
        resumed.load_state_dict({name: tensor.clone() for name, tensor in algorithm.state_dict().items()})
        assert torch.equal(resumed.prepare(network, trajectory, 1).targets["lagged_policy"], after)
        output, _ = network(trajectory.observation, trajectory.first, trajectory.initial_state)
    assert 0 < (after - before).abs().max() < (output.policy[:-1] - before).abs().max()
    paper = read([], ["algorithm.name=impala", "laser.threshold=0.3", "laser.form=paper"])
    assert algorithm.state_dict().keys() == state_of(paper, network.state_dict()).keys()
    assert state_of(read([], ["algorithm.name=impala", "laser.threshold=0.3"]), network.state_dict()) == {}
    other = impala("seed", 0.3)
    other.load_state_dict(algorithm.state_dict())
    assert other.state_dict() == {}, "what another form would save could not be read again"
