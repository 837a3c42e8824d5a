"""V-trace against a slow float64 reference written from the paper's sums."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from trajectories import pieces, random_ends

from kartrl.algorithms.gae import generalised_advantage
from kartrl.algorithms.vtrace import vtrace


def paper_vtrace(log_mu, log_pi, reward, discount, value, bootstrap, rho_bar, c_bar, trace_lambda):
    """Equation 1 of arXiv:1802.01561 as the sum over t and the products it is written as; one sequence, float64 [T].

    With lambda, c is that of remark 2, and values ahead are mixed into the advantage.
    """
    length = len(reward)
    values = np.append(value, bootstrap)
    ratio = np.exp(np.asarray(log_pi, np.float64) - log_mu)
    rho, c = np.minimum(rho_bar, ratio), trace_lambda * np.minimum(c_bar, ratio)
    targets = []
    for s in range(length):
        total = values[s]
        for t in range(s, length):
            weight = np.prod([discount[i] * c[i] for i in range(s, t)])
            total += weight * rho[t] * (reward[t] + discount[t] * values[t + 1] - values[t])
        targets.append(total)
    following = trace_lambda * np.append(targets[1:], bootstrap) + (1 - trace_lambda) * values[1:]
    advantage = [reward[s] + discount[s] * following[s] - values[s] for s in range(length)]
    return np.array(targets), np.array(advantage)


def reference(batch, rho_bar, c_bar, trace_lambda=1.0):
    """Each episode's piece of each unroll on its own, with no masks."""
    length, size = batch["reward"].shape
    values = np.vstack([batch["value"], batch["bootstrap_value"]])
    targets, advantages = batch["value"].copy(), np.zeros((length, size))
    for b in range(size):
        for first, end, bootstrap in pieces(batch["terminated"][:, b], batch["valid"][:, b]):
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
                trace_lambda,
            )
    return targets, advantages


def random_batch(seed, length, size, ends=0.25, on_policy=False):
    random = np.random.default_rng(seed)
    mu = np.log(random.uniform(0.05, 0.95, (length, size)))
    terminated, valid = random_ends(random, length, size, ends)
    return {
        "behaviour_log_prob": mu,
        "target_log_prob": mu if on_policy else np.log(random.uniform(0.05, 0.95, (length, size))),
        "reward": random.normal(size=(length, size)) * valid,
        "terminated": terminated,
        "valid": valid,
        "value": random.normal(size=(length, size)),
        "bootstrap_value": random.normal(size=size),
        "gamma": random.uniform(0.5, 1.0),
    }


def run(batch, rho_bar=1.0, c_bar=1.0, trace_lambda=1.0, dtype=torch.float64):
    def tensor(name):
        return torch.tensor(batch[name], dtype=dtype)

    return vtrace(
        tensor("behaviour_log_prob"),
        tensor("target_log_prob"),
        tensor("reward"),
        batch["gamma"] * torch.tensor(~batch["terminated"] & batch["valid"]).to(dtype),
        torch.tensor(batch["valid"]),
        tensor("value"),
        tensor("bootstrap_value"),
        rho_bar,
        c_bar,
        trace_lambda,
    )


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    length=st.integers(1, 12),
    size=st.integers(1, 4),
    ends=st.sampled_from([0.0, 0.2, 0.6]),
    rho_bar=st.sampled_from([0.3, 1.0, 4.0]),
    c_bar=st.sampled_from([0.3, 1.0, 2.0]),
    trace_lambda=st.sampled_from([0.0, 0.9, 1.0]),
)
def test_equals_the_papers_sums_piece_by_piece(seed, length, size, ends, rho_bar, c_bar, trace_lambda):
    batch = random_batch(seed, length, size, ends)
    targets, advantages = reference(batch, rho_bar, c_bar, trace_lambda)
    result = run(batch, rho_bar, c_bar, trace_lambda)
    np.testing.assert_allclose(result.value_target.numpy(), targets, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(result.advantage.numpy(), advantages, rtol=1e-9, atol=1e-9)


def test_float32_stays_close_to_float64():
    batch = random_batch(7, 20, 16)
    targets, advantages = reference(batch, 1.0, 1.0)
    result = run(batch, dtype=torch.float32)
    np.testing.assert_allclose(result.value_target.numpy(), targets, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(result.advantage.numpy(), advantages, rtol=1e-4, atol=1e-4)


def test_on_policy_vtrace_is_the_n_step_return():
    batch = random_batch(3, 10, 5, ends=0.0, on_policy=True)
    returns, following = np.zeros((10, 5)), batch["bootstrap_value"]
    for step in reversed(range(10)):
        returns[step] = following = batch["reward"][step] + batch["gamma"] * following
    np.testing.assert_allclose(run(batch).value_target.numpy(), returns, rtol=1e-9)


def test_on_policy_vtrace_advantage_with_lambda_is_gae():
    batch = random_batch(4, 10, 5, on_policy=True)
    result = run(batch, trace_lambda=0.9)
    expected = generalised_advantage(
        torch.tensor(batch["reward"]),
        batch["gamma"] * torch.tensor(~batch["terminated"] & batch["valid"]).double(),
        *(torch.tensor(batch[name]) for name in ("valid", "value", "bootstrap_value")),
        0.9,
    )
    torch.testing.assert_close(result.advantage, expected)
    torch.testing.assert_close(result.value_target, expected + torch.tensor(batch["value"]))


def test_termination_lets_nothing_through():
    batch = random_batch(5, 8, 1, ends=0.0)
    batch["terminated"][3] = True
    before = run(batch).value_target[:4].clone()
    batch["reward"][4:] += 100.0
    batch["value"][4:] -= 50.0
    batch["bootstrap_value"] += 1000.0
    torch.testing.assert_close(run(batch).value_target[:4], before)


def test_truncation_bootstraps_from_the_last_observation_only():
    batch = random_batch(6, 8, 1, ends=0.0, on_policy=True)
    batch["valid"][4], batch["reward"][4] = False, 0.0
    result = run(batch).value_target.clone()
    expected = batch["reward"][3] + batch["gamma"] * batch["value"][4]
    np.testing.assert_allclose(result[3].numpy(), expected, rtol=1e-9)
    batch["reward"][5:] += 100.0
    torch.testing.assert_close(run(batch).value_target[:5], result[:5])
