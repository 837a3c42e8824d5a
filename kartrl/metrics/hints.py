"""Hints to a user whose run does not go well, each with the key to change, and the trend of its returns."""

import itertools
import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kartrl.config import Config
from kartrl.envs.spec import ActionSpec, Continuous, Discrete

FIRST_WINDOW = 500  # agent steps; twice as many whenever there are `MOST_WINDOWS`
LEAST_WINDOWS, MOST_WINDOWS = 8, 32
CLEAR = 4.0  # standard errors by which a mean must rise
NOISE = 3.0  # standard errors below which it is level
GONE, BACK = 0.02, 0.04  # shares of the entropy's maximum at which the hint begins and ends
WIDE = 0.33  # of which the policy has lost its entropy without a rise of the return
RANDOM = 0.95  # of untrained policies
LEAST_EPISODES = 4  # of a window
LARGE_NUMBERS = "; if observations are large numbers, set model.normalise_observations=true"
LARGE_VALUE = 60.0  # beyond CartPole's 50; errors of such values outweigh the policy in the clipped gradient
FAR, NEAR = 1.0, 0.5  # KL(mu || pi) between acting and learned policy; at 0.5, training can still go well


class Window(NamedTuple):
    """Means over some agent steps."""

    value: float
    entropy: float


class Trend:
    """Mean reward of steps or return of episodes over a whole run, in up to 32 windows of about as many agent steps.

    Args:
        least: number of values that a window needs.

    Attributes:
        risen: whether the mean of a quarter of the windows has ever been clearly above that of the first quarter.
    """

    def __init__(self, least: int) -> None:
        self._least, self._width = least, FIRST_WINDOW
        self._windows: list[Window] = []
        self._begin: int | None = None
        self._number, self._sum = 0, 0.0  # of the open window
        self._entropies: list[float] = []
        self.risen = False

    def add_entropy(self, entropy: float) -> None:
        self._entropies.append(entropy)

    def add(self, agent_steps: int, number: int, mean: float) -> None:
        """Add trained steps or episodes that have ended, and their mean reward or return, at this many agent steps."""
        self._begin = agent_steps if self._begin is None else self._begin
        self._number, self._sum = self._number + number, self._sum + number * mean
        if agent_steps - self._begin < self._width or self._number < self._least:
            return
        before = self._windows[-1].entropy if self._windows else math.nan
        entropy = sum(self._entropies) / len(self._entropies) if self._entropies else before
        self._windows.append(Window(self._sum / self._number, entropy))
        self._begin, self._number, self._sum, self._entropies = agent_steps, 0, 0.0, []
        levels = self._levels() if self.known else [0.0]
        self.risen |= max(levels) - levels[0] > CLEAR * self._error()
        if len(self._windows) == MOST_WINDOWS:
            pairs = zip(self._windows[::2], self._windows[1::2], strict=True)
            self._windows = [Window((a.value + b.value) / 2, (a.entropy + b.entropy) / 2) for a, b in pairs]
            self._width *= 2

    @property
    def known(self) -> bool:
        """Whether there are enough windows for what follows."""
        return len(self._windows) >= LEAST_WINDOWS

    @property
    def word(self) -> str:
        """How the newest quarter compares with the one before; "" if it is too early."""
        if not self.known:
            return ""
        levels, noise = self._levels(), NOISE * self._error()
        change = levels[-1] - levels[-1 - self._span]
        return "rising" if change > noise else "falling" if change < -noise else "level"

    def entropy_at_rise(self) -> float:
        """The entropy when the mean came to its highest level."""
        levels = self._levels()
        near = max(levels) - 2 * self._error()
        return self._windows[next(i for i, level in enumerate(levels) if level >= near) + self._span - 1].entropy

    @property
    def _span(self) -> int:
        return len(self._windows) // 4

    def _levels(self) -> list[float]:
        """Means of all successive quarters of the windows."""
        values, span = [window.value for window in self._windows], self._span
        return [sum(values[i : i + span]) / span for i in range(len(values) - span + 1)]

    def _error(self) -> float:
        """The standard error of the difference of two quarters, from the differences of neighbouring windows."""
        values = [window.value for window in self._windows]
        squares = [(after - before) ** 2 for before, after in itertools.pairwise(values)]
        return math.sqrt(sum(squares) / max(len(squares), 1) / max(self._span, 1))


def entropy_scale(action: ActionSpec) -> Callable[[float], float] | None:
    """What makes an entropy the share of that of uniform actions, of each number for continuous ones.

    Returns:
        None if there is no such share: with masks it depends on what is legal, and a mixture of kinds has no unit.
    """
    if action.masked or len({isinstance(part, Continuous) for part in action.parts}) > 1:
        return None
    if action.continuous:
        return lambda entropy: math.exp(min(entropy / action.columns, 10.0)) / 2  # bounds are -1 and 1
    sizes = [part.sizes if isinstance(part, Discrete) else (2,) * part.columns for part in action.parts]
    most = sum(math.log(size) for part in sizes for size in part)
    return (lambda entropy: entropy / most) if most else None


class Hints:
    """What a user may want to change, while that is so.

    Args:
        steady: whether the reward of steps tells how training goes, instead of the return of episodes.
        patience: agent steps by which it has usually risen; None: a quarter of the run.
        fresh: whether the run begins with an untrained network.

    Attributes:
        shown: the present hints, by the name of their scalar.
        share: the policy's entropy, as a share of its maximum; nan if unknown.
        divergence: KL(mu || pi) between the policy that acts and the learner's; nan if unknown.
    """

    def __init__(
        self, config: Config, action: ActionSpec | None, steady: bool, patience: int | None, fresh: bool
    ) -> None:
        self._config, self._patience, self._fresh = config, patience, fresh
        self._what = "reward" if steady else "return"
        self._scale = entropy_scale(action) if action is not None else None
        self.trend = Trend(1 if steady else LEAST_EPISODES)
        self.shown: dict[str, str] = {}
        self._scalars: dict[str, float] = {}  # of each hint that there has been: 1 while shown, else 0
        self.share = self.divergence = self._value = math.nan
        self._rate, self._lag = config.optimizer.learning_rate.start, 0.0  # until the first update is read

    def add(self, scalars: Mapping[str, float]) -> None:
        """Add what was logged of an update."""
        self.divergence = scalars.get("losses/behaviour_kl", math.nan)
        self._rate, self._lag = scalars.get("losses/learning_rate", math.nan), scalars.get("lag/mean", 0.0)
        self._value = scalars.get("losses/value_mean", math.nan)
        entropy = scalars.get("losses/entropy", math.nan)
        if self._scale is not None and math.isfinite(entropy):
            self.share = self._scale(entropy)
            self.trend.add_entropy(self.share)

    def look(self, agent_steps: int, fraction: float) -> list[str]:
        """Look again after `agent_steps`, a fraction of the run; returns the hints that there have not been before."""
        late = fraction >= 0.25 if self._patience is None else agent_steps >= self._patience
        progress = self._progress(agent_steps) if late else ""
        found = {"entropy": self._entropy(), "progress": progress, "lag": self._far()}
        if found["entropy"]:
            found["progress"] = ""  # which it explains
        self.shown = {name: text for name, text in found.items() if text}
        new = [text for name, text in self.shown.items() if name not in self._scalars]
        self._scalars |= {name: float(bool(text)) for name, text in found.items() if text or name in self._scalars}
        return new

    def scalars(self) -> dict[str, float]:
        """For the logger: "hints/<name>" -> 1 while it is shown, 0 after that; none that there has never been."""
        return {f"hints/{name}": value for name, value in self._scalars.items()}

    @property
    def _entropy_cost(self) -> str:
        return f"{self._config.algorithm.name}.entropy_cost (now {dict(self._config.own)['entropy_cost']})"

    @property
    def _large_values(self) -> str:
        """What to do first if values are large, as for rewards of hundreds; "" if they are not."""
        section = self._config.algorithm
        if not LARGE_VALUE < abs(self._value) < math.inf or section.reward_transform in ("sign", "clip"):
            return ""
        scale = section.reward_scale / 10 ** math.floor(math.log10(abs(self._value)))
        return f"; but first, as values are large ({self._value:.3g}), set algorithm.reward_scale={scale:.2g}"

    def _entropy(self) -> str:
        """That the policy has lost its entropy without becoming better."""
        if not (self.trend.known and self.share < (BACK if "entropy" in self.shown else GONE)):
            return ""
        wide = self.trend.entropy_at_rise() if self.trend.risen or not self._fresh else 1.0
        if not wide > WIDE:
            return ""
        return (
            f"The policy hardly explores any more: its entropy has fallen from {wide:.0%} to {self.share:.1%} of the "
            f"maximum, and the mean {self._what} has not risen since. Raise {self._entropy_cost}, or lower "
            f"optimizer.learning_rate (now {self._rate:.2g}){self._large_values}"
        )

    def _progress(self, agent_steps: int) -> str:
        """That training has not improved on an untrained network."""
        if not self._fresh or not self.trend.known or self.trend.risen:
            return ""
        usual = f", as it usually has by {self._patience:,}" if self._patience is not None else ""
        remedy = f"lower optimizer.learning_rate (now {self._rate:.2g}), or raise {self._entropy_cost}"
        if self.share > RANDOM:
            remedy = f"its actions are still nearly random: raise optimizer.learning_rate (now {self._rate:.2g})"
        longer = f"or train longer{self._large_values}"
        return f"The mean {self._what} has not risen in {agent_steps:,} agent steps{usual}: {remedy}, {longer}"

    def _far(self) -> str:
        """That agents act with a policy far from the learner's."""
        if self._config.replays or not self.divergence > (NEAR if "lag" in self.shown else FAR):
            return ""  # replayed steps are expected to be from far policies
        numbers = "" if self._config.model.normalise_observations else LARGE_NUMBERS
        return (
            f"Agents act with a policy far from the learner's (KL {self.divergence:.3g}, {self._lag:.1f} updates old), "
            "so training may fail: lower optimizer.learning_rate, system.envs_per_agent, or enlarge "
            f"system.training_batch_size{numbers}"
        )
