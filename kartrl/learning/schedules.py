"""The progress of a run and its schedules (`config.schedule`)."""

from kartrl.config import Run
from kartrl.learning.counters import Counters


class Progress:
    """Progress of a run and its schedules, 0 to 1, by `run.agent_steps` or `run.minutes`, whichever is nearer its end.

    In a resumed run, `run.schedules` decides where they are at that moment: where they stood (a learning rate never
    rises again), at their start, or where they would be if the run had begun with the present limits. From there they
    continue evenly, and end with these limits.

    Args:
        before: the counters of the resumed checkpoint; zeros in a new run.
    """

    def __init__(self, run: Run, before: Counters) -> None:
        self._run = run
        self._begin_fraction = self.fraction(before)
        begins = {"continue": before.progress, "restart": 0.0, "stretch": self._begin_fraction}
        self._begin = begins[run.schedules]

    def fraction(self, counters: Counters) -> float:
        """The completed fraction of the run."""
        steps = counters.agent_steps / self._run.agent_steps
        return min(1.0, max(steps, counters.seconds / (60 * self._run.minutes) if self._run.minutes else 0.0))

    def schedule(self, counters: Counters) -> float:
        """The completed fraction of the schedules."""
        fraction = self.fraction(counters)
        if self._begin == self._begin_fraction or fraction == 1.0:
            return fraction
        done = (fraction - self._begin_fraction) / (1 - self._begin_fraction)
        return self._begin + (1 - self._begin) * max(0.0, done)
