"""What is said of an update, against NumPy."""

import copy

import numpy as np
import pytest
import torch
from trajectories import DISCRETE, random_trajectory

from kartrl.algorithms.algorithm import Loss
from kartrl.config import Model
from kartrl.envs.observation_spec import plain
from kartrl.learning.diagnostics import PROBE_UNROLLS, PolicyProbe, describe
from kartrl.models import make_distribution, make_network


def loss_of(seed=0, length=6, size=8):
    torch.manual_seed(seed)
    target = torch.randn(length, size) * 3 + 5
    steps = {
        "value": target + torch.randn(length, size),
        "value_target": target,
        "advantage": torch.randn(length, size),
        "importance_weight": torch.rand(length, size) * 2,
    }
    return Loss(torch.tensor(2.0), {"entropy": torch.tensor(0.5)}, steps, torch.rand(length, size) > 0.3)


def parts_of(loss, count):
    pieces = [tensor.chunk(count, 1) for tensor in loss.steps.values()]
    chunks = [dict(zip(loss.steps, chunk, strict=True)) for chunk in zip(*pieces, strict=True)]
    return [
        Loss(loss.total / count, {"entropy": loss.terms["entropy"] / count}, steps, valid)
        for steps, valid in zip(chunks, loss.valid.chunk(count, 1), strict=True)
    ]


@pytest.mark.parametrize("count", [1, 2, 8])
def test_statistics_are_numpys_over_all_valid_steps_of_all_parts(count):
    loss = loss_of()
    scalars = describe(parts_of(loss, count))
    value, target, advantage, weight = (x[loss.valid].double().numpy() for x in loss.steps.values())
    low, median, high = np.quantile(advantage, [0.05, 0.5, 0.95])
    assert scalars == pytest.approx(
        {
            "losses/total": 2.0,
            "losses/entropy": 0.5,
            "losses/explained_variance": 1 - np.var(target - value) / np.var(target),
            "losses/value_mean": value.mean(),
            "losses/value_std": value.std(),
            "losses/advantage_p05": low,
            "losses/advantage_p50": median,
            "losses/advantage_p95": high,
            "losses/effective_sample_size": weight.sum() ** 2 / (len(weight) * (weight**2).sum()),
        },
        rel=1e-5,
    )


def test_a_part_without_a_valid_step_changes_nothing():
    loss = loss_of()
    loss.valid[:, :4] = False
    one, other = parts_of(loss, 2)
    kept = describe([other])
    both = describe([one, other])
    for name in ("explained_variance", "advantage_p50", "effective_sample_size"):
        assert both[f"losses/{name}"] == pytest.approx(kept[f"losses/{name}"])
    assert set(describe([one])) == {"losses/total", "losses/entropy"}


@pytest.mark.parametrize(
    ("weights", "size"),
    [([0.0, 0.0], 0.0), ([float("inf"), 1.0, 2.0, 0.0], 0.25), ([float("inf")] * 2, 1.0), ([1e200, 1e200, 0.0], 2 / 3)],
)
def test_importance_weights_may_overflow_or_vanish(weights, size):
    loss = loss_of(length=1, size=len(weights))
    loss.valid[:] = True
    loss.steps["importance_weight"] = torch.tensor([weights], dtype=torch.float64)
    assert describe([loss])["losses/effective_sample_size"] == pytest.approx(size)


def test_of_targets_that_do_not_vary_nothing_is_explained():
    loss = loss_of()
    loss.steps["value_target"][:] = 7.3
    assert describe([loss])["losses/explained_variance"] == 0.0


def test_the_probe_takes_unrolls_that_have_a_valid_step():
    torch.manual_seed(3)
    network, distribution = make_network(Model(hidden_size=8), plain(3), DISCRETE), make_distribution(DISCRETE)
    trajectory = random_trajectory(DISCRETE, dtype=torch.float32)
    trajectory.valid[:, :PROBE_UNROLLS] = False  # of environments whose observations are not finite
    probes = [
        PolicyProbe(network, distribution, part)
        for part in (trajectory, trajectory.unrolls(slice(PROBE_UNROLLS, None)), trajectory.unrolls(slice(0, 1)))
    ]
    with torch.no_grad():
        network.policy.bias += torch.tensor([1.0, 0.0, 0.0, -1.0])
    measured, expected, without = [probe.divergence() for probe in probes]
    assert expected > 0.01
    assert measured == pytest.approx(expected)
    assert without is None


def test_probe_measures_policy_movement_on_valid_steps():
    torch.manual_seed(3)
    network, distribution = (
        make_network(Model(hidden_size=8, core="lstm"), plain(3), DISCRETE),
        make_distribution(DISCRETE),
    )
    trajectory = random_trajectory(DISCRETE, dtype=torch.float32)
    old = copy.deepcopy(network)
    probe = PolicyProbe(network, distribution, trajectory)
    assert probe.divergence() == pytest.approx(0.0, abs=1e-7)
    with torch.no_grad():
        network.policy.bias += torch.tensor([1.0, 0.0, 0.0, -1.0])
        policies = [
            net(trajectory.observation, trajectory.first, trajectory.initial_state)[0].policy[:-1].double()
            for net in (old, network)
        ]
    divergence = (policies[0].exp() * (policies[0] - policies[1])).sum(-1)[:, :PROBE_UNROLLS]
    expected = divergence[trajectory.valid[:, :PROBE_UNROLLS]].mean().item()
    assert expected > 0.01
    assert probe.divergence() == pytest.approx(expected, rel=1e-4)
