"""An actor without PyTorch: it runs a network that has been recorded (see `kartrl.acting.program`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kartrl.acting.program import Node, Program, Runner, draw, still
from kartrl.envs import masks
from kartrl.errors import UserError

if TYPE_CHECKING:
    from kartrl.envs.observation_spec import ObservationSpec
    from kartrl.envs.spec import ActionSpec
    from kartrl.models import ActorCritic


class Recorded(NamedTuple):
    """A network as recorded programs, and its weights."""

    programs: Mapping[int, Program]  # by the number of observations
    weights: np.ndarray  # float32 [n], the published ones


def graph_of(policy: ActorCritic | Recorded, observation: ObservationSpec) -> list[Node]:
    """The operations of a network, for TensorBoard's graph."""
    if isinstance(policy, Recorded):
        return next(iter(policy.programs.values())).graph()
    from kartrl.acting import recording  # loads PyTorch

    return recording.graph_of(policy, observation)


class RecordedActor:
    """As `kartrl.driving.actor.Actor`, for a recorded network."""

    def __init__(self, network: Recorded, action: ActionSpec, *, greedy: bool) -> None:
        self._action, self._greedy = action, greedy
        self._runners = {size: Runner(program, each=True) for size, program in sorted(network.programs.items())}
        for runner in self._runners.values():
            runner.load(network.weights)
        self._program = next(iter(network.programs.values()))
        self._legal = np.zeros(action.parameter_size, np.float32)  # restriction that allows all actions
        self._random: dict[int, np.random.Generator] = {}  # of each row's noise
        self._states: dict[int, np.ndarray] = {}  # of each row, float32 [S]
        self._begun: set[int] = set()  # rows that have decided

    def begin(self, row: int, seed: int) -> None:
        """Begin an episode in a row; the same seed gives the same noise."""
        self._random[row] = np.random.default_rng(seed % 2**64)
        self._states[row] = np.zeros(self._program.state_size, np.float32)
        self._begun.discard(row)

    def act(
        self, rows: Sequence[int], observations: Sequence[Any], restriction: np.ndarray | None = None
    ) -> np.ndarray:
        """The actions [N, ...] of N episodes as environments take them; for the arguments see `Actor.decide`.

        Raises:
            UserError: there are masks, but the program takes none.
        """
        if restriction is not None and not self._program.masked:
            raise UserError(f"the environment's info['{masks.KEY}'] {masks.LATE}")
        legal = [self._legal] * len(rows) if restriction is None else [*restriction]
        most = max(self._runners)
        parts = [slice(begin, begin + most) for begin in range(0, len(rows), most)]
        decisions = [self._decide(rows[part], observations[part], legal[part]) for part in parts]
        return self._action.taken(np.concatenate(decisions))

    def _decide(self, rows: Sequence[int], observations: Sequence[Any], legal: Sequence[np.ndarray]) -> np.ndarray:
        """Decisions, float32 [N, K], of at most as many as the largest program takes."""
        size = next(size for size in self._runners if size >= len(rows))
        filled = [*range(len(rows)), *[0] * (size - len(rows))]
        noise = self._program.noise
        arguments = [
            np.stack([observations[index] for index in filled]),
            np.array([rows[index] not in self._begun for index in filled]),
            np.stack([self._states[rows[index]] for index in filled]),
            still(size, noise)
            if self._greedy
            else np.concatenate([draw(self._random[row], 1, noise) for row in rows])[filled],
        ]
        if self._program.masked:
            arguments.append(np.stack([legal[index] for index in filled]))
        decision, states = self._runners[size](*arguments)
        for row, state in zip(rows, states, strict=False):
            self._states[row] = state
        self._begun.update(rows)
        return decision[: len(rows)]
