"""Generalised advantages against a slow float64 reference written from the paper's sum."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from trajectories import pieces, random_ends

from kartrl.algorithms.gae import generalised_advantage


def paper_gae(reward, gamma, gae_lambda, value, bootstrap):
    """Equation 16 of arXiv:1506.02438 as the sum it is; one piece of an episode, float64 [n]."""
    values = np.append(value, bootstrap)
    delta = [reward[t] + gamma * values[t + 1] - values[t] for t in range(len(reward))]
    length = len(reward)
    return [sum((gamma * gae_lambda) ** (k - t) * delta[k] for k in range(t, length)) for t in range(length)]


def n_step_advantage(reward, gamma, value, bootstrap):
    """r_t + gamma r_{t+1} + ... + gamma^n V(x_{t+n}), less V(x_t)."""
    length = len(reward)
    returns = [
        sum(gamma ** (k - t) * reward[k] for k in range(t, length)) + gamma ** (length - t) * bootstrap
        for t in range(length)
    ]
    return np.array(returns) - value


def one_step_error(reward, gamma, value, bootstrap):
    return reward + gamma * np.append(value[1:], bootstrap) - value


def by_pieces(batch, advantage_of):
    """Each episode's piece of each unroll on its own, with no masks; 0 where no action was taken."""
    values = np.vstack([batch["value"], batch["bootstrap"]])
    advantages = np.zeros_like(batch["reward"])
    for b in range(advantages.shape[1]):
        for first, end, bootstrap in pieces(batch["terminated"][:, b], batch["valid"][:, b]):
            after = 0.0 if bootstrap is None else values[bootstrap, b]
            advantages[first:end, b] = advantage_of(batch["reward"][first:end, b], values[first:end, b], after)
    return advantages


def random_batch(seed, length, size, ends=0.25):
    random = np.random.default_rng(seed)
    terminated, valid = random_ends(random, length, size, ends)
    return {
        "reward": random.normal(size=(length, size)),  # of invalid steps too: it must not count
        "terminated": terminated,
        "valid": valid,
        "value": random.normal(size=(length, size)),
        "bootstrap": random.normal(size=size),
        "gamma": random.uniform(0.5, 1.0),
    }


def run(batch, gae_lambda, dtype=torch.float64):
    discount = batch["gamma"] * (~batch["terminated"] & batch["valid"])
    reward, discount, value, bootstrap = (
        torch.tensor(array, dtype=dtype) for array in (batch["reward"], discount, batch["value"], batch["bootstrap"])
    )
    return generalised_advantage(reward, discount, torch.tensor(batch["valid"]), value, bootstrap, gae_lambda).numpy()


BATCHES = {
    "seed": st.integers(0, 2**32 - 1),
    "length": st.integers(1, 12),
    "size": st.integers(1, 4),
    "ends": st.sampled_from([0.0, 0.2, 0.6]),
}


@settings(max_examples=60, deadline=None)
@given(gae_lambda=st.sampled_from([0.0, 0.3, 0.95, 1.0]), **BATCHES)
def test_equals_the_papers_sum_piece_by_piece(gae_lambda, **of):
    batch = random_batch(**of)
    expected = by_pieces(
        batch, lambda reward, value, after: paper_gae(reward, batch["gamma"], gae_lambda, value, after)
    )
    np.testing.assert_allclose(run(batch, gae_lambda), expected, rtol=1e-9, atol=1e-9)


@settings(max_examples=30, deadline=None)
@given(**BATCHES)
def test_lambda_1_gives_the_n_step_return_less_the_value(**of):
    batch = random_batch(**of)
    expected = by_pieces(batch, lambda reward, value, after: n_step_advantage(reward, batch["gamma"], value, after))
    np.testing.assert_allclose(run(batch, 1.0), expected, rtol=1e-9, atol=1e-9)


@settings(max_examples=30, deadline=None)
@given(**BATCHES)
def test_lambda_0_gives_the_one_step_error(**of):
    batch = random_batch(**of)
    expected = by_pieces(batch, lambda reward, value, after: one_step_error(reward, batch["gamma"], value, after))
    np.testing.assert_allclose(run(batch, 0.0), expected, rtol=1e-9, atol=1e-9)


def test_float32_stays_close_to_float64():
    batch = random_batch(7, 20, 16)
    np.testing.assert_allclose(run(batch, 0.95, torch.float32), run(batch, 0.95), rtol=1e-4, atol=1e-4)


def test_termination_lets_nothing_through():
    batch = random_batch(5, 8, 1, ends=0.0)
    batch["terminated"][3] = True
    before = run(batch, 0.95)[:4]
    batch["reward"][4:] += 100.0
    batch["value"][4:] -= 50.0
    batch["bootstrap"] += 1000.0
    np.testing.assert_array_equal(run(batch, 0.95)[:4], before)


def test_truncation_bootstraps_from_the_last_observation_only():
    batch = random_batch(6, 8, 1, ends=0.0)
    batch["valid"][4] = False
    before = run(batch, 0.95)
    expected = batch["reward"][3] + batch["gamma"] * batch["value"][4] - batch["value"][3]
    np.testing.assert_allclose(before[3], expected, rtol=1e-9)
    assert before[4] == 0
    batch["reward"][4:] += 100.0
    batch["value"][5:] -= 50.0
    np.testing.assert_array_equal(run(batch, 0.95)[:5], before[:5])
