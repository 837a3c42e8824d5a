"""The optional controller: while training goes on, looks for numbers that train faster, then keeps them.

GA3C (arXiv:1611.06256, section 4.3) moves its numbers of agents, predictors and trainers at random every minute and keeps
what one noisy window favours. Here one number is moved at a time, each trial is compared with windows of the present
setting measured just before it, medians must differ by a margin, and once no move pays the search ends for good.
"""

import statistics
from collections.abc import Callable, Generator
from typing import NamedTuple

from kartrl.runtime.predictor_thread import ArrivalPacing
from kartrl.runtime.slab import Slab

SETTLE_SECONDS = 3.0  # after a move, before it is measured
WINDOW_SECONDS = 4.0
WINDOWS = 3  # of which the median counts
MARGIN = 0.03  # by which a move must be faster to be kept


class Knob:
    """A number that may be moved while training.

    Args:
        name: for the reader.
        values: that it may take, ascending.
        value: that it has.
        apply: makes it so.
    """

    def __init__(self, name: str, values: tuple[int, ...], value: int, apply: Callable[[int], None]) -> None:
        self.name, self.values, self.value, self._apply = name, values, value, apply

    def neighbour(self, direction: int) -> int | None:
        """The next larger (+1) or smaller (-1) value, or None."""
        beyond = [value for value in self.values if (value - self.value) * direction > 0]
        return min(beyond, key=lambda value: abs(value - self.value), default=None)

    def set(self, value: int) -> None:
        """Move to this value."""
        self.value = value
        self._apply(value)


class Measured(NamedTuple):
    """Medians over the windows of one setting."""

    rate: float  # trained agent steps a second
    lag: float  # mean policy lag, in updates


class Controller:
    """Moves `knobs` towards more agent steps a second, as long as the mean policy lag stays within `max_lag`; then stops.

    Attributes:
        frozen: whether the search is over.
    """

    def __init__(self, knobs: list[Knob], max_lag: float, say: Callable[[str], None]) -> None:
        self._knobs, self._max_lag, self._say = knobs, max_lag, say
        self.frozen = False
        self._search = self._trials()
        next(self._search)
        self._windows: list[Measured] = []
        self._lags: list[float] = []
        self._begin: tuple[float, int] | None = None  # time and agent steps at which the window began
        self._settled: float | None = None  # when the next window may begin

    def tick(self, now: float, agent_steps: int, lag: float) -> None:
        """Look at the run; call it a few times a second.

        Args:
            now: monotonic seconds.
            agent_steps: trained on so far.
            lag: mean policy lag of the newest update.
        """
        if self.frozen or not agent_steps:
            return
        if self._settled is None:
            self._settled = now + SETTLE_SECONDS
        if now < self._settled:
            return
        if self._begin is None:
            self._begin = (now, agent_steps)
        self._lags.append(lag)
        then, before = self._begin
        if now - then < WINDOW_SECONDS:
            return
        self._windows.append(Measured((agent_steps - before) / (now - then), statistics.fmean(self._lags)))
        self._begin, self._lags = (now, agent_steps), []
        if len(self._windows) == WINDOWS:
            result = Measured(*(statistics.median(values) for values in zip(*self._windows, strict=True)))
            self._windows, self._begin, self._settled = [], None, None
            try:
                self._search.send(result)
            except StopIteration:
                self.frozen = True
                settled = ", ".join(f"{knob.name} {knob.value}" for knob in self._knobs)
                self._say(f"The controller is done: {settled}")

    def _trials(self) -> Generator[None, Measured, None]:
        """Coordinate steps; each `yield` waits for the present setting to be measured."""
        improved = True
        while improved:
            improved = False
            for knob in self._knobs:
                for direction in (1, -1):
                    moved = False
                    while (candidate := knob.neighbour(direction)) is not None:
                        before = yield
                        old = knob.value
                        knob.set(candidate)
                        after = yield
                        if not self._better(before, after):
                            knob.set(old)
                            break
                        self._say(
                            f"The controller moves {knob.name} from {old} to {candidate}: {before.rate:,.0f} -> {after.rate:,.0f} steps/s"
                        )
                        improved = moved = True
                    if moved:
                        break  # the other direction led here

    def _better(self, before: Measured, after: Measured) -> bool:
        if before.lag > self._max_lag:
            return after.lag < before.lag
        return after.lag <= self._max_lag and after.rate >= before.rate * (1 + MARGIN)


def make_controller(
    slab: Slab, pacing: ArrivalPacing, min_groups: int, max_lag: float, say: Callable[[str], None]
) -> Controller:
    """A controller of how many agents run and for how many groups the predictors wait."""

    def run_agents(number: int) -> None:
        slab.run_agents(number)
        wait_for(waiting.value)

    def wait_for(groups: int) -> None:
        # Those that are paused do not come.
        pacing.enough = min(groups, running.value * slab.groups_per_agent)

    waiting = Knob("groups waited for", tuple(range(1, slab.num_groups + 1)), min_groups, wait_for)
    running = Knob("running agents", tuple(range(1, slab.num_agents + 1)), slab.num_agents, run_agents)
    return Controller([waiting, running], max_lag, say)
