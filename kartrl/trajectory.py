"""The one type of experience, from the shared slab to the loss.

T is the length of an unroll, B the number of unrolls in a batch, S the size of the recurrent state, K the size of a
decision, P the number of parameters of the policy's distribution, D the columns of an action.
"""

from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

Array = TypeVar("Array")  # np.ndarray on the slab, torch.Tensor on the device


WITHOUT_TIME = ("initial_state", "online", "importance", "serial")  # fields [B, ...]


class Trajectory(NamedTuple, Generic[Array]):
    """B unrolls of T steps, time first."""

    observation: Array  # uint8 [T + 1, B, H, W, C] or float32 [T + 1, B, D]
    first: Array  # bool [T + 1, B], True where an episode begins
    initial_state: Array  # float32 [B, S], recurrent state at the start of the unroll
    decision: Array  # float32 [T, B, K], see `Decision`
    reward: Array  # float32 [T, B]
    terminated: Array  # bool [T, B]
    valid: Array  # bool [T, B], False where a step only holds an episode's last observation
    version: Array  # int64 [T, B], version of the weights that acted
    online: Array  # bool [B], False where the unroll comes from a replay
    importance: Array  # float32 [B], factor of the unroll's losses
    serial: Array  # int64 [B], the unroll's number in the replay memory, -1 if it is not there

    def unrolls(self, part: slice | Array) -> "Trajectory[Array]":
        """Select unrolls, by a slice or by their indices, int64 [any]."""
        fields = {name: _selected(field, part, int(name not in WITHOUT_TIME)) for name, field in self._asdict().items()}
        return Trajectory(**fields)

    def single_steps(self, step: Array, unroll: Array) -> "Trajectory[Array]":
        """Select steps of tensors by their indices, int64 [n] each, as n unrolls of one step, without what follows."""
        number = step * self.online.shape[0] + unroll  # type: ignore[attr-defined]
        fields = {
            name: _selected(field, unroll, 0)
            if name in WITHOUT_TIME
            else _selected(field.flatten(0, 1), number, 0)[None]
            for name, field in self._asdict().items()
        }
        return Trajectory(**fields)


def _selected(field: Any, part: Any, axis: int) -> Any:
    """The elements `part` of an array or tensor along an axis, 0 or 1."""
    if isinstance(field, np.ndarray) or isinstance(part, slice):
        return field[:, part] if axis else field[part]
    return field.index_select(axis, part)  # copies whole rows, and so images eight times as fast as indexing


class Decision(NamedTuple, Generic[Array]):
    """The acting network's output: the columns of `Trajectory.decision`, K = D + 2 + P."""

    action: Array  # float32 [..., D]; for discrete actions their index, D = 1
    log_prob: Array  # float32 [...], log mu(a | x)
    value: Array  # float32 [...], V(x)
    parameters: Array  # float32 [..., P], of the distribution that the action was sampled from


def split_decision(decision: Array, action_columns: int) -> Decision[Array]:
    """Split decisions [..., K], whose actions have D = `action_columns` columns, into their parts."""
    d = action_columns
    parts = (decision[..., :d], decision[..., d], decision[..., d + 1], decision[..., d + 2 :])  # type: ignore[index]
    return Decision(*parts)


def decision_size(action_columns: int, parameter_size: int) -> int:
    """K, the number of columns of a decision."""
    return action_columns + 2 + parameter_size


def discounts(trajectory: Trajectory[Array], gamma: float) -> Array:
    """gamma_t, float32 [T, B]: 0 where an episode ended in step t. Episode ends are handled only here.

    An invalid step holds the last observation of a truncated episode: the step before it bootstraps from that
    observation, and nothing propagates back across it.
    """
    return gamma * (~trajectory.terminated & trajectory.valid)  # type: ignore[operator]


def joined(*parts: Trajectory[np.ndarray]) -> Trajectory[np.ndarray]:
    """Concatenate trajectories along the batch dimension, as a copy."""
    fields = {
        name: np.concatenate([getattr(part, name) for part in parts], int(name not in WITHOUT_TIME))
        for name in Trajectory._fields
    }
    return Trajectory(**fields)
