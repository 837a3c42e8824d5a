"""V-trace and the loss against slow float64 references written from the paper's sums."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kartrl.algorithms.impala import impala_loss
from kartrl.algorithms.vtrace import vtrace


def paper_vtrace(log_mu, log_pi, reward, discount, value, bootstrap, rho_bar, c_bar):
    """Equation 1 of arXiv:1802.01561 as the sum over t and the products it is written as; one sequence, float64 [T]."""
    length = len(reward)
    values = np.append(value, bootstrap)
    ratio = np.exp(np.asarray(log_pi, np.float64) - log_mu)
    rho, c = np.minimum(rho_bar, ratio), np.minimum(c_bar, ratio)
    targets = []
    for s in range(length):
        total = values[s]
        for t in range(s, length):
            weight = np.prod([discount[i] * c[i] for i in range(s, t)])
            total += weight * rho[t] * (reward[t] + discount[t] * values[t + 1] - values[t])
        targets.append(total)
    following = np.append(targets[1:], bootstrap)
    advantage = [rho[s] * (reward[s] + discount[s] * following[s] - values[s]) for s in range(length)]
    return np.array(targets), np.array(advantage)


def pieces(terminated, truncated):
    """Steps of an unroll cut into episodes: (first, last + 1, index of the observation to bootstrap from or None)."""
    first = 0
    for step in range(len(terminated)):
        if truncated[step]:  # the step only carries the last observation
            if step > first:
                yield first, step, step
            first = step + 1
        elif terminated[step]:
            yield first, step + 1, None
            first = step + 1
    if first < len(terminated):
        yield first, len(terminated), len(terminated)


def reference(batch, rho_bar, c_bar):
    """Each episode's piece of each unroll on its own, with no masks."""
    length, size = batch["reward"].shape
    values = np.vstack([batch["value"], batch["bootstrap_value"]])
    targets, advantages = batch["value"].copy(), np.zeros((length, size))
    for b in range(size):
        for first, end, bootstrap in pieces(batch["terminated"][:, b], ~batch["valid"][:, b]):
            discount = np.full(end - first, batch["gamma"])
            if bootstrap is None:
                discount[-1] = 0.0
            targets[first:end, b], advantages[first:end, b] = paper_vtrace(
                batch["behaviour_log_prob"][first:end, b],
                batch["target_log_prob"][first:end, b],
                batch["reward"][first:end, b],
                discount,
                batch["value"][first:end, b],
                0.0 if bootstrap is None else values[bootstrap, b],
                rho_bar,
                c_bar,
            )
    return targets, advantages


def random_batch(seed, length, size, ends=0.25, on_policy=False):
    random = np.random.default_rng(seed)
    mu = np.log(random.uniform(0.05, 0.95, (length, size)))
    terminated = random.random((length, size)) < ends
    valid = np.ones((length, size), bool)
    for step in range(1, length):  # a truncation follows a step that acted and did not terminate
        valid[step] = ~((random.random(size) < ends) & valid[step - 1] & ~terminated[step - 1])
    return {
        "behaviour_log_prob": mu,
        "target_log_prob": mu if on_policy else np.log(random.uniform(0.05, 0.95, (length, size))),
        "reward": random.normal(size=(length, size)) * valid,
        "terminated": terminated | ~valid,
        "valid": valid,
        "value": random.normal(size=(length, size)),
        "bootstrap_value": random.normal(size=size),
        "gamma": random.uniform(0.5, 1.0),
    }


def run(batch, rho_bar=1.0, c_bar=1.0, dtype=torch.float64):
    def tensor(name):
        return torch.tensor(batch[name], dtype=dtype)

    return vtrace(
        tensor("behaviour_log_prob"),
        tensor("target_log_prob"),
        tensor("reward"),
        batch["gamma"] * (~torch.tensor(batch["terminated"])).to(dtype),
        torch.tensor(batch["valid"]),
        tensor("value"),
        tensor("bootstrap_value"),
        rho_bar,
        c_bar,
    )


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    length=st.integers(1, 12),
    size=st.integers(1, 4),
    ends=st.sampled_from([0.0, 0.2, 0.6]),
    rho_bar=st.sampled_from([0.3, 1.0, 4.0]),
    c_bar=st.sampled_from([0.3, 1.0, 2.0]),
)
def test_equals_the_papers_sums_piece_by_piece(seed, length, size, ends, rho_bar, c_bar):
    batch = random_batch(seed, length, size, ends)
    targets, advantages = reference(batch, rho_bar, c_bar)
    result = run(batch, rho_bar, c_bar)
    np.testing.assert_allclose(result.value_target.numpy(), targets, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(result.advantage.numpy(), advantages, rtol=1e-9, atol=1e-9)


def test_float32_stays_close_to_float64():
    batch = random_batch(7, 20, 16)
    targets, advantages = reference(batch, 1.0, 1.0)
    result = run(batch, dtype=torch.float32)
    np.testing.assert_allclose(result.value_target.numpy(), targets, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(result.advantage.numpy(), advantages, rtol=1e-4, atol=1e-4)


def test_on_policy_it_is_the_n_step_return():
    batch = random_batch(3, 10, 5, ends=0.0, on_policy=True)
    returns, following = np.zeros((10, 5)), batch["bootstrap_value"]
    for step in reversed(range(10)):
        returns[step] = following = batch["reward"][step] + batch["gamma"] * following
    np.testing.assert_allclose(run(batch).value_target.numpy(), returns, rtol=1e-9)


def test_termination_lets_nothing_through():
    batch = random_batch(5, 8, 1, ends=0.0)
    batch["terminated"][3] = True
    before = run(batch).value_target[:4].clone()
    batch["reward"][4:] += 100.0
    batch["value"][4:] -= 50.0
    batch["bootstrap_value"] += 1000.0
    torch.testing.assert_close(run(batch).value_target[:4], before)


def test_truncation_bootstraps_from_the_last_observation_and_no_further():
    batch = random_batch(6, 8, 1, ends=0.0, on_policy=True)
    batch["valid"][4], batch["terminated"][4], batch["reward"][4] = False, True, 0.0
    result = run(batch).value_target.clone()
    expected = batch["reward"][3] + batch["gamma"] * batch["value"][4]
    np.testing.assert_allclose(result[3].numpy(), expected, rtol=1e-9)
    batch["reward"][5:] += 100.0
    torch.testing.assert_close(run(batch).value_target[:5], result[:5])


def loss_inputs(seed=0, length=6, size=3, actions=4):
    torch.manual_seed(seed)
    return {
        "logits": torch.randn(length + 1, size, actions, dtype=torch.float64, requires_grad=True),
        "baseline": torch.randn(length + 1, size, dtype=torch.float64, requires_grad=True),
        "action": torch.randint(0, actions, (length, size)),
        "behaviour_log_prob": -torch.rand(length, size, dtype=torch.float64) - 0.2,
        "reward": torch.randn(length, size, dtype=torch.float64),
        "discount": 0.9 * (torch.rand(length, size) > 0.2).double(),
        "valid": (valid := torch.rand(length, size) > 0.2),
        "steps": float(valid.sum()),
    }


COSTS = {"rho_bar": 1.0, "c_bar": 1.0, "baseline_cost": 0.5, "entropy_cost": 0.01}


def test_loss_and_its_gradient_equal_loops_over_single_steps():
    inputs = loss_inputs()
    loss = impala_loss(**inputs, **COSTS)
    loss.total.backward()
    logits = inputs["logits"].detach().numpy()
    log_policy = logits - np.log(np.exp(logits).sum(2, keepdims=True))
    policy = np.exp(log_policy)
    length, size = inputs["action"].shape
    action, valid = inputs["action"].numpy(), inputs["valid"].numpy()
    log_pi = np.take_along_axis(log_policy[:-1], action[..., None], 2)[..., 0]
    targets = vtrace(
        inputs["behaviour_log_prob"],
        torch.tensor(log_pi),
        inputs["reward"],
        inputs["discount"],
        inputs["valid"],
        inputs["baseline"][:-1].detach(),
        inputs["baseline"][-1].detach(),
        1.0,
        1.0,
    )
    count, total = valid.sum(), 0.0
    gradient = np.zeros_like(logits)
    for t in range(length):
        for b in range(size):
            if not valid[t, b]:
                continue
            advantage, pi = targets.advantage[t, b].item(), policy[t, b]
            entropy = -(pi * log_policy[t, b]).sum()
            error = targets.value_target[t, b].item() - inputs["baseline"][t, b].item()
            total += -advantage * log_pi[t, b] + 0.5 * 0.5 * error**2 - 0.01 * entropy
            chosen = np.eye(len(pi))[action[t, b]]
            gradient[t, b] = -advantage * (chosen - pi) + 0.01 * pi * (log_policy[t, b] + entropy)
    assert loss.total.item() == pytest.approx(total / count)
    np.testing.assert_allclose(inputs["logits"].grad.numpy(), gradient / count, atol=1e-12)


def test_invalid_steps_have_no_gradient():
    inputs = loss_inputs(1)
    inputs["valid"][2] = False
    impala_loss(**inputs, **COSTS).total.backward()
    assert torch.all(inputs["logits"].grad[2] == 0)
    assert torch.all(inputs["baseline"].grad[2] == 0)
    assert torch.all(inputs["baseline"].grad[-1] == 0)


def test_the_parts_of_a_batch_add_up_to_the_whole():
    whole, parts = loss_inputs(4, size=5), loss_inputs(4, size=5)
    loss = impala_loss(**whole, **COSTS)
    loss.total.backward()
    total, ratio = 0.0, 0.0
    for columns in (slice(0, 2), slice(2, 5)):
        part = impala_loss(
            **{name: value if name == "steps" else value[:, columns] for name, value in parts.items()}, **COSTS
        )
        part.total.backward()
        total, ratio = total + part.total.item(), ratio + part.importance_ratio.item()
    assert total == pytest.approx(loss.total.item())
    assert ratio == pytest.approx(loss.importance_ratio.item())
    for name in ("logits", "baseline"):
        torch.testing.assert_close(parts[name].grad, whole[name].grad)


def test_costs_weigh_their_terms():
    inputs = loss_inputs(2)
    loss = impala_loss(**inputs, rho_bar=1.0, c_bar=1.0, baseline_cost=3.0, entropy_cost=0.7)
    assert loss.total.item() == pytest.approx((loss.policy_gradient + 3.0 * loss.baseline - 0.7 * loss.entropy).item())
    assert 0 < loss.entropy.item() <= np.log(4)
