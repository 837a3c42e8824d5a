"""Random trajectories, and the arithmetic of policies step by step in float64, for tests of algorithms and learners."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from kartrl.envs.spec import ActionSpec
from kartrl.models import make_distribution
from kartrl.trajectory import Trajectory

DISCRETE = ActionSpec("discrete", 4)
CONTINUOUS = ActionSpec("continuous", 2, (-1.0, -1.0), (1.0, 1.0))
ACTIONS = [DISCRETE, CONTINUOUS]


def kind(action: ActionSpec) -> str:
    """For the names of parametrised tests."""
    return action.kind


def random_ends(random: np.random.Generator, length: int, size: int, ends: float) -> tuple[np.ndarray, np.ndarray]:
    """`terminated` and `valid` [T, B]; a step that is not valid follows one that acted and did not terminate."""
    terminated = random.random((length, size)) < ends
    valid = np.ones((length, size), bool)
    for step in range(1, length):
        valid[step] = ~((random.random(size) < ends) & valid[step - 1] & ~terminated[step - 1])
    return terminated & valid, valid


def pieces(terminated: np.ndarray, valid: np.ndarray) -> Iterator[tuple[int, int, int | None]]:
    """Steps of an unroll by episodes: (first, last + 1, index of the observation to bootstrap from or None)."""
    first = 0
    for step in range(len(terminated)):
        if not valid[step]:
            if step > first:
                yield first, step, step
            first = step + 1
        elif terminated[step]:
            yield first, step + 1, None
            first = step + 1
    if first < len(terminated):
        yield first, len(terminated), len(terminated)


def slow_retrace(
    trace: np.ndarray,
    reward: np.ndarray,
    terminated: np.ndarray,
    valid: np.ndarray,
    value: np.ndarray,
    taken_q: np.ndarray,
    bootstrap: np.ndarray,
    gamma: float,
) -> np.ndarray:
    """ACER's equation 5, all [T, B]: the sum over an episode's later steps, each with the traces up to it."""
    target = np.array(value)
    values = np.vstack([value, bootstrap])
    for b in range(reward.shape[1]):
        for first, end, ahead in pieces(terminated[:, b], valid[:, b]):
            for s in range(first, end):
                total, weight = taken_q[s, b], 1.0
                for t in range(s, end):
                    after = t + 1 if t + 1 < end else ahead
                    following = 0.0 if after is None else values[after, b]
                    weight *= trace[t, b] * gamma if t > s else 1.0
                    total += weight * (reward[t, b] + gamma * following - taken_q[t, b])
                target[s, b] = total
    return target


def random_trajectory(
    action: ActionSpec,
    seed: int = 0,
    *,
    length: int = 7,
    size: int = 5,
    state_size: int = 16,
    ends: float = 0.2,
    dtype: torch.dtype = torch.float64,
) -> Trajectory[Tensor]:
    """Unrolls of vectors of 3, with ends of episodes; decisions are of a policy that nobody has."""
    random = np.random.default_rng(seed)
    terminated, valid = random_ends(random, length, size, ends)
    first = np.vstack([random.random((1, size)) < ends, terminated | ~valid])
    distribution = make_distribution(action)
    generator = torch.Generator().manual_seed(seed)
    head = torch.from_numpy(random.normal(size=(length, size, distribution.parameter_size)) * 0.5)
    parameters = distribution.normalise(head)
    noise = distribution.noise(length * size, torch.device("cpu"), generator).unflatten(0, (length, size))
    taken = distribution.sample(parameters, noise).double()
    log_prob = distribution.log_prob(parameters, taken)
    value = torch.from_numpy(random.normal(size=(length, size)))
    return Trajectory(
        observation=torch.from_numpy(random.normal(size=(length + 1, size, 3)).astype(np.float32)),
        first=torch.from_numpy(first),
        initial_state=torch.from_numpy((random.normal(size=(size, state_size)) * 0.3).astype(np.float32)),
        decision=torch.cat([taken, log_prob.unsqueeze(2), value.unsqueeze(2), parameters], 2).to(dtype),
        reward=torch.from_numpy(random.normal(size=(length, size)) * valid).to(dtype),
        terminated=torch.from_numpy(terminated),
        valid=torch.from_numpy(valid),
        version=torch.zeros(length, size, dtype=torch.int64),
        online=torch.ones(size, dtype=torch.bool),
        importance=torch.ones(size, dtype=dtype),
        serial=torch.full((size,), -1),
    )


class Said(NamedTuple):
    """What a policy says of one action, and the gradients with respect to the head's output [P]."""

    log_prob: float
    entropy: float
    log_prob_gradient: np.ndarray
    entropy_gradient: np.ndarray


def said(kind: str, head: np.ndarray, action: np.ndarray) -> Said:
    """One step, by the definitions: head [P], action [D], float64."""
    if kind == "discrete":
        log_policy = head - np.log(np.exp(head).sum())
        policy, chosen = np.exp(log_policy), int(action[0])
        entropy = -(policy * log_policy).sum()
        return Said(log_policy[chosen], entropy, np.eye(len(head))[chosen] - policy, -policy * (log_policy + entropy))
    mean, log_deviation = np.split(head, 2)
    deviation = np.exp(log_deviation)
    error = (action - mean) / deviation
    density = np.exp(-0.5 * error**2) / (deviation * np.sqrt(2 * np.pi))
    return Said(
        np.log(density).sum(),
        (log_deviation + 0.5 * np.log(2 * np.pi * np.e)).sum(),
        np.concatenate([error / deviation, error**2 - 1]),
        np.concatenate([0 * mean, np.ones_like(mean)]),
    )
