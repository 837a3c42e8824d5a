"""Random trajectories, and the arithmetic of policies step by step in float64, for tests of algorithms and learners."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from kartrl.envs.spec import ActionSpec, Binary, Discrete
from kartrl.models import make_distribution
from kartrl.trajectory import Trajectory

DISCRETE = ActionSpec.of(spaces.Discrete(4))
CONTINUOUS = ActionSpec.of(spaces.Box(-1, 1, (2,)))
MIXED = ActionSpec.of(spaces.Tuple((spaces.MultiDiscrete([3, 2]), spaces.Box(-1, 1, (1,)), spaces.MultiBinary(2))))
ACTIONS = [DISCRETE, CONTINUOUS, MIXED]


def kind(action: ActionSpec) -> str:
    """For the names of parametrised tests."""
    return {DISCRETE: "discrete", CONTINUOUS: "continuous", MIXED: "mixed"}[action]


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


def said(action: ActionSpec, head: np.ndarray, taken: np.ndarray) -> Said:
    """One step, by the definitions: head [P], action taken [D], float64."""
    parts = [_said(kind, head[own], taken[columns]) for kind, own, columns in _kinds(action)]
    log_prob, entropy, *gradients = zip(*parts, strict=True)
    return Said(sum(log_prob), sum(entropy), *map(np.concatenate, gradients))


def slow_kl(action: ActionSpec, p: Tensor, q: Tensor) -> Tensor:
    """KL(p || q) of one step, differentiable, by the definition: parameters or heads [P], float64."""
    return torch.stack([_slow_kl(kind, p[own], q[own]) for kind, own, _ in _kinds(action)]).sum()


def _kinds(action: ActionSpec) -> Iterator[tuple[str, slice, slice]]:
    """The kind of each single choice or bit, or of all numbers, with the places of its parameters and its columns."""
    own, column = 0, 0
    for part in action.parts:
        if isinstance(part, Discrete):
            singles = [("discrete", size, 1) for size in part.sizes]
        elif isinstance(part, Binary):
            singles = [("binary", 1, 1)] * part.size
        else:
            singles = [("continuous", part.parameter_size, part.columns)]
        for name, size, columns in singles:
            yield name, slice(own, own + size), slice(column, column + columns)
            own, column = own + size, column + columns


def _said(kind: str, head: np.ndarray, action: np.ndarray) -> Said:
    if kind == "binary":  # as a choice between the logits 0 and head
        choice = _said("discrete", np.array([0.0, head[0]]), action)
        return choice._replace(
            log_prob_gradient=choice.log_prob_gradient[1:], entropy_gradient=choice.entropy_gradient[1:]
        )
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


def _slow_kl(kind: str, p: Tensor, q: Tensor) -> Tensor:
    if kind == "binary":
        return _slow_kl("discrete", torch.cat([torch.zeros_like(p), p]), torch.cat([torch.zeros_like(q), q]))
    if kind == "discrete":
        of_p, of_q = (x - x.exp().sum().log() for x in (p, q))
        return (of_p.exp() * (of_p - of_q)).sum()
    (mean, log_deviation), (other_mean, other_log_deviation) = p.chunk(2), q.chunk(2)
    square = (2 * log_deviation).exp() + (mean - other_mean) ** 2
    return (other_log_deviation - log_deviation + square / (2 * (2 * other_log_deviation).exp()) - 0.5).sum()
