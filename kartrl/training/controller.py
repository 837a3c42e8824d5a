"""The optional controller: searches for faster sizes during training, then keeps them.

GA3C (arXiv:1611.06256, section 4.3) changes its numbers of agents, predictors and trainers at random every minute, and
decides by a single noisy window. Here one number changes at a time, each trial is compared with windows of the current
setting measured just before it, medians must differ by a margin, and the search ends when no change helps.
"""

import statistics
from collections.abc import Callable, Generator
from typing import NamedTuple

from kartrl.acting.predictor import ArrivalPacing
from kartrl.acting.sizes import Sizes
from kartrl.acting.slab import Slab

SETTLE_SECONDS = 3.0  # pause between a change and its measurement
WINDOW_SECONDS = 4.0
WINDOWS = 3  # windows of which the median is taken
MARGIN = 0.03  # minimum relative gain to keep a change


class Knob:
    """A number that can be changed during training.

    Args:
        name: for messages.
        values: allowed values, ascending.
        value: current value.
        apply: called with a new value.
    """

    def __init__(self, name: str, values: tuple[int, ...], value: int, apply: Callable[[int], None]) -> None:
        self.name, self.values, self.value, self._apply = name, values, value, apply

    def neighbour(self, direction: int) -> int | None:
        """The next larger (+1) or smaller (-1) value, or None."""
        beyond = [value for value in self.values if (value - self.value) * direction > 0]
        return min(beyond, key=lambda value: abs(value - self.value), default=None)

    def set(self, value: int) -> None:
        """Change to this value."""
        self.value = value
        self._apply(value)


class Measured(NamedTuple):
    """Medians over the windows of one setting."""

    rate: float  # trained agent steps per second
    lag: float  # mean policy lag, in updates


class Controller:
    """Hill climbing on `knobs` for agent steps per second, with a mean policy lag of at most `max_lag`.

    Attributes:
        frozen: whether the search has ended.
    """

    def __init__(self, knobs: list[Knob], max_lag: float, say: Callable[[str], None]) -> None:
        self._knobs, self._max_lag, self._say = knobs, max_lag, say
        self.frozen = False
        self._search = self._trials()
        next(self._search)
        self._windows: list[Measured] = []
        self._lags: list[float] = []
        self._first: int | None = None  # agent steps of the first tick
        self._begin: tuple[float, int] | None = None  # time and agent steps at the start of the window
        self._settled: float | None = None  # when the next window may start

    def tick(self, now: float, agent_steps: int, lag: float) -> None:
        """Update with the state of the run; call a few times per second.

        Args:
            now: monotonic time, seconds.
            agent_steps: trained on so far.
            lag: mean policy lag of the newest update.
        """
        if self._first is None:
            self._first = agent_steps
        if self.frozen or agent_steps == self._first:  # before the first update, also after a resume
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
                self._say(f"Controller finished: {settled}")

    def _trials(self) -> Generator[None, Measured, None]:
        """Coordinate search; each `yield` returns a measurement of the current setting."""
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
                        rates = f"{before.rate:,.0f} -> {after.rate:,.0f} steps/s"
                        self._say(f"Controller: {knob.name} {old} -> {candidate}, {rates}")
                        improved = moved = True
                    if moved:
                        break  # the other direction was worse already

    def _better(self, before: Measured, after: Measured) -> bool:
        if before.lag > self._max_lag:
            return after.lag < before.lag
        return after.lag <= self._max_lag and after.rate >= before.rate * (1 + MARGIN)


def make_controller(slab: Slab, pacing: ArrivalPacing, sizes: Sizes, say: Callable[[str], None]) -> Controller:
    """Create a controller of the number of running agents and of the groups that predictors wait for."""

    def run_agents(number: int) -> None:
        slab.run_agents(number)
        wait_for(waiting.value)

    def wait_for(groups: int) -> None:
        pacing.enough = min(groups, running.value * slab.groups_per_agent)  # paused agents send no requests

    waiting = Knob("groups waited for", tuple(range(1, sizes.prediction_groups + 1)), sizes.min_groups, wait_for)
    running = Knob("running agents", tuple(range(1, slab.num_agents + 1)), slab.num_agents, run_agents)
    return Controller([waiting, running], sizes.max_lag, say)
