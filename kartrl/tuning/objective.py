"""What a training is worth: its metric at the end of the budget, or the time until that reaches a value."""

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kartrl.comparison.curves import Points, reached, smooth
from kartrl.comparison.report import EPISODES
from kartrl.comparison.runs import EPISODE_METRICS, read_metric
from kartrl.config import Run
from kartrl.errors import UserError

NOT_REACHED = 2  # budgets that a training counts which never reaches the value: PAR2 of algorithm configuration


class Objective(NamedTuple):
    """The score of a training; the study's direction says which scores are good.

    Within a budget of minutes if the run has one, else of agent steps.
    """

    metric: str
    lower: bool = False  # whether low values of the metric are good
    least: float | None = None  # the metric's value to reach; with `lower` at most this
    minutes: float = 0.0
    agent_steps: int = 0

    @classmethod
    def of(cls, run: Run, metric: str, lower: bool, least: float | None) -> "Objective":
        """That of trainings with these limits."""
        return cls(metric, lower, least, run.minutes, run.agent_steps)

    @property
    def minimises(self) -> bool:
        """Whether low scores are good."""
        return self.lower or self.least is not None

    @property
    def budget(self) -> float:
        """In minutes if there are any, else in agent steps."""
        return self.minutes or float(self.agent_steps)

    def __str__(self) -> str:
        unit = "minutes" if self.minutes else "agent steps"
        if self.least is not None:
            return f"{unit} until {self.metric} reaches {self.least:g}"
        return f"{self.metric} at {self.budget:,g} {unit}"

    def score(self, folder: Path) -> float:
        """That of a finished training.

        Raises:
            UserError: it has no value of the metric; names the nearest one.
        """
        points = read_metric(folder, self.metric)
        if self.least is None:
            value = self._mean(points, self.budget)
            return float(points.value[0]) if math.isnan(value) else value  # the last update went beyond the budget
        when = self._reached(points)
        return NOT_REACHED * self.budget if when is None else when

    def has_reached(self, folder: Path) -> bool:
        """Whether a training need not continue, as it has reached the value."""
        if self.least is None:
            return False
        try:
            return self._reached(read_metric(folder, self.metric)) is not None
        except UserError:
            return False

    def so_far(self, folder: Path, share: float) -> float | None:
        """The metric after this share of the budget, with its sign turned if the study prefers the other direction."""
        try:
            value = self._mean(read_metric(folder, self.metric), share * self.budget)
        except UserError:
            return None
        if math.isnan(value):
            return None
        return value if self.lower == self.minimises else -value

    def _mean(self, points: Points, budget: float) -> float:
        """Over the last tenth of the budget, or of what was trained; NaN before the first value."""
        along = points.minutes if self.minutes else points.steps
        return float(smooth(along, points.value, min(budget, float(np.max(along))))[-1])

    def _reached(self, points: Points) -> float | None:
        assert self.least is not None
        sign, count = (-1 if self.lower else 1), (EPISODES if self.metric in EPISODE_METRICS else 1)
        moment = reached(points._replace(value=sign * points.value), sign * self.least, count)
        if moment is None:
            return None
        when = moment.minutes if self.minutes else moment.steps
        return when if when <= self.budget else None
