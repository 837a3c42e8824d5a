"""Functions of the user's program that a run calls, and that may end it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kartrl.envs.episode import Episode
from kartrl.learning.counters import Counters
from kartrl.metrics.records import Scalars


class Update(NamedTuple):
    """An update of the weights."""

    agent_steps: int  # of the run, after it
    updates: int
    seconds: float  # of training
    scalars: dict[str, float]  # as in TensorBoard: "losses/policy", ...


class Evaluation(NamedTuple):
    """An evaluation of a checkpoint."""

    agent_steps: int  # for which the checkpoint was trained
    scalars: dict[str, float]  # as in TensorBoard


@dataclass
class Callbacks:
    """Called in the thread that trains, in the order of what they tell; one that returns False ends the run.

    Attributes:
        ended_by: which was the first to return False; "" if none has.
    """

    on_update: Callable[[Update], bool | None] | None = None
    on_episode: Callable[[Episode], bool | None] | None = None
    on_evaluation: Callable[[Evaluation], bool | None] | None = None
    ended_by: str = field(default="", init=False)

    def update(self, counters: Counters, scalars: dict[str, float]) -> None:
        """Tell of an update; `counters`: after it."""
        if self.on_update is not None:
            update = Update(counters.agent_steps, counters.updates, counters.seconds, scalars)
            self._heed("on_update", self.on_update(update))

    def episode(self, episode: Episode) -> None:
        """Tell of an agent's episode."""
        if self.on_episode is not None:
            self._heed("on_episode", self.on_episode(episode))

    def evaluation(self, scalars: Scalars) -> None:
        """Tell of an evaluation."""
        if self.on_evaluation is not None:
            self._heed("on_evaluation", self.on_evaluation(Evaluation(scalars.agent_steps, scalars.values)))

    def _heed(self, name: str, answer: bool | None) -> None:
        ends = isinstance(answer, bool | np.bool_) and not answer  # NumPy's comparisons return their own
        if ends and not self.ended_by:
            self.ended_by = f"the callback {name}"
