"""How long a run takes, by what was measured of the bundled configurations: `config/presets/figures.toml`."""

import math
import tomllib
from collections.abc import Sequence
from typing import Any, NamedTuple

from kartrl.config import Config, Run, read
from kartrl.config.ini import PRESETS
from kartrl.files import read_text
from kartrl.learning.counters import Counters

DEFAULT = "default"  # the figures of a run without -c


class Figures(NamedTuple):
    """What a bundled configuration usually does."""

    goals: tuple[tuple[str, int], ...]  # such as "finishes its first race", and after how many agent steps
    steps_per_second: float  # agent steps, on two cores
    environment_share: float  # the cores' fraction of time in the environment; 0: unknown
    patience: int  # agent steps by which its return has risen

    def speed(self, step_seconds: float, processes: int) -> float:
        """Agent steps per second that may be expected where a step of the environment takes `step_seconds`."""
        if not self.environment_share or not step_seconds:
            return self.steps_per_second
        return self.environment_share * processes / step_seconds


def figures() -> dict[str, dict[str, Any]]:
    """All of them: the name of a configuration, or `DEFAULT`, and its keys in the file."""
    return tomllib.loads(read_text(PRESETS / "figures.toml"))


def figures_of(config: Config, files: Sequence[str]) -> Figures | None:
    """Those of the last of these configurations that has any, if what `config` trains is the same."""
    known = figures()
    name = next((file for file in reversed(files) if file in known), None if files else DEFAULT)
    if name is None:
        return None
    usual, measured = read([name] if files else []), known[name]
    if _trained(usual) != _trained(config):
        return None
    goals = tuple((text, steps) for text, steps in measured["goals"])
    patience = min(3 * goals[0][1], usual.run.agent_steps // 4)
    return Figures(goals, measured["steps_per_second"], measured.get("environment_share", 0.0), patience)


def _trained(config: Config) -> tuple[object, ...]:
    return config.environment, config.levels, config.model, config.algorithm.name


class Outlook(NamedTuple):
    """How long a run takes, and what it usually reaches by when."""

    run: Run
    figures: Figures | None  # of its configuration, if there are any

    @property
    def patience(self) -> int | None:
        """Agent steps by which the return has usually risen."""
        return self.figures.patience if self.figures is not None else None

    def tell(self, counters: Counters, speed: float) -> str:
        """The rest of the run in a line, after these counters and at this many agent steps per second."""
        done, speed = counters.agent_steps, max(speed, 1.0)
        most = 60 * self.run.minutes - counters.seconds if self.run.minutes else math.inf
        left = min((self.run.agent_steps - done) / speed, most)
        steps = min(self.run.agent_steps - done, round(left * speed))
        goals = " and ".join(self.goals(done, speed))
        text = f"about {told(left)} for {steps:,} {'more ' * (done > 0)}agent steps at {speed:,.0f}/s"
        return text + f"; this configuration usually {goals}" * bool(goals)

    def goals(self, done: int, speed: float) -> list[str]:
        """What the run usually still reaches after so many agent steps, the next one first."""
        known = self.figures.goals if self.figures is not None else ()
        left = [goal for goal in known if done < goal[1] <= self.run.agent_steps]
        return [f"{name} after {at:,} (in {told((at - done) / max(speed, 1.0))})" for name, at in left]


def told(seconds: float) -> str:
    """A duration in the unit that fits: 40 s, 12 min, 2.5 h."""
    if seconds < 100:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 100 * 60 else f"{seconds / 3600:.1f} h"
