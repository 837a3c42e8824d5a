"""Learners of every algorithm, for tests of where and how they make their updates."""

import torch
from trajectories import ACTIONS, DISCRETE, kind

from kartrl.algorithms import ALGORITHMS

SETTINGS = {
    "feed-forward": ["model.core=none"],
    "lstm, unrolls": ["model.core=lstm", "ppo.shuffle=unrolls", "appo.shuffle=unrolls"],
    "normalised": ["model.core=none", "model.normalise_observations=true", "model.normalise_returns=true"],
    "replayed": ["model.core=none", "replay.methods=queue uniform", "clear.policy_cost=0.01", "clear.value_cost=0.005"],
    "laser": ["model.core=lstm", "replay.methods=queue uniform", "laser.threshold=0.3", "laser.form=paper"],
    "piecewise": ["model.core=none", "algorithm.discount=piecewise 0.1 0.9 0.5 0.8 0.5 0.95 0.9 0.7"],
    "kl": ["model.core=none", "optimizer.kl_target=0.01", "ppo.kl_limit=1", "appo.kl_limit=1"],
}
CASES = [
    (name, action, settings)
    for name in ALGORITHMS
    for action in ACTIONS
    for settings in SETTINGS
    if ALGORITHMS[name].accepts(action)
    and (action == DISCRETE or settings == "feed-forward")
    and (ALGORITHMS[name].replays or settings not in ("replayed", "laser"))
    and (ALGORITHMS[name].has_vtrace or settings != "laser")
]
NAMES = [f"{name}-{kind(action)}-{settings}" for name, action, settings in CASES]


def noise_of_the_cpu(distribution):
    """Its `noise`, but drawn on the CPU, so that it is the same on any device."""
    noise = distribution.noise
    return lambda batch, device, generator: noise(batch, torch.device("cpu"), generator).to(device)


def with_replayed(trajectory, settings):
    """A trajectory for one of `SETTINGS`: with a replay, every second unroll is a replayed one."""
    if settings not in ("replayed", "laser"):
        return trajectory
    return trajectory._replace(online=torch.arange(trajectory.online.shape[0]) % 2 == 0)
