"""One type for experience, from the shared slab to the loss.

T is the length of an unroll, B the number of unrolls in a batch, S the size of the recurrent state, K the size of a
decision, P the number of parameters of the policy's distribution, D the columns of an action.
"""

from typing import Generic, NamedTuple, TypeVar

import numpy as np

Array = TypeVar("Array")  # np.ndarray on the slab, torch.Tensor on the device


WITHOUT_TIME = ("initial_state", "online", "importance", "serial")  # fields [B, ...]


class Trajectory(NamedTuple, Generic[Array]):
    """B unrolls of T steps, time first."""

    observation: Array  # uint8 [T + 1, B, H, W, C] or float32 [T + 1, B, D]
    first: Array  # bool [T + 1, B], True where an episode begins
    initial_state: Array  # float32 [B, S], the recurrent state with which the network began
    decision: Array  # float32 [T, B, K], see `Decision`
    reward: Array  # float32 [T, B]
    terminated: Array  # bool [T, B]
    valid: Array  # bool [T, B], False where a step only carries an episode's last observation
    version: Array  # int64 [T, B], of the weights that acted
    online: Array  # bool [B], False where the unroll comes from a replay
    importance: Array  # float32 [B], by which the unroll's losses are multiplied
    serial: Array  # int64 [B], the unroll's number in the replays' memory, -1 where it is not there

    def unrolls(self, part: slice | Array) -> "Trajectory[Array]":
        """Only these unrolls: a slice of them, or int64 [any] with their numbers."""
        fields = {
            name: field[part] if name in WITHOUT_TIME else field[:, part] for name, field in self._asdict().items()
        }
        return Trajectory(**fields)


class Decision(NamedTuple, Generic[Array]):
    """What the acting network said: the columns of `Trajectory.decision`, K = D + 2 + P."""

    action: Array  # float32 [..., D]; numbers of discrete actions, D = 1
    log_prob: Array  # float32 [...], log mu(a | x)
    value: Array  # float32 [...], V(x)
    parameters: Array  # float32 [..., P], of the distribution that the action is from


def split_decision(decision: Array, action_columns: int) -> Decision[Array]:
    """The parts of decisions [..., K] whose actions have D = `action_columns` columns."""
    d = action_columns
    parts = (decision[..., :d], decision[..., d], decision[..., d + 1], decision[..., d + 2 :])  # type: ignore[index]
    return Decision(*parts)


def decision_size(action_columns: int, parameter_size: int) -> int:
    """K."""
    return action_columns + 2 + parameter_size


def discounts(trajectory: Trajectory[Array], gamma: float) -> Array:
    """gamma_t, float32 [T, B]: 0 where an episode ended in the step, which is the one place that knows this.

    A step that is not valid carries the last observation of a truncated episode: the step before it bootstraps from
    that, and nothing flows back across it.
    """
    return gamma * (~trajectory.terminated & trajectory.valid)  # type: ignore[operator]


def joined(*parts: Trajectory[np.ndarray]) -> Trajectory[np.ndarray]:
    """The unrolls of all of them, copied."""
    fields = {
        name: np.concatenate([getattr(part, name) for part in parts], int(name not in WITHOUT_TIME))
        for name in Trajectory._fields
    }
    return Trajectory(**fields)
