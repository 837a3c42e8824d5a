"""What was measured of the bundled configurations: `presets/figures.toml`."""

import tomllib
from collections.abc import Sequence
from typing import Any, NamedTuple

from kartrl.config.config import Config
from kartrl.config.ini import PRESETS, read
from kartrl.files import read_text

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


def expectation(known: Figures | None, steps: int, done: int, speed: float, most_seconds: float) -> str:
    """How long the rest of a run takes, and when it usually reaches what.

    Args:
        steps: agent steps of the whole run.
        done: those so far.
        speed: agent steps per second.
        most_seconds: until a limit of time ends the run; infinite without one.
    """
    left = min((steps - done) / speed, most_seconds)
    text = f"about {told(left)} for {min(steps - done, round(left * speed)):,} {'more ' * (done > 0)}agent steps at "
    goals = " and ".join(coming(known, steps, done, speed))
    return f"{text}{speed:,.0f}/s" + f"; this configuration usually {goals}" * bool(goals)


def coming(known: Figures | None, steps: int, done: int, speed: float) -> list[str]:
    """The goals that a run, see `expectation`, usually still reaches, the next one first."""
    left = [goal for goal in (known.goals if known is not None else ()) if done < goal[1] <= steps]
    return [f"{name} after {at:,} (in {told((at - done) / speed)})" for name, at in left]


def told(seconds: float) -> str:
    """A duration in the unit that fits: 40 s, 12 min, 2.5 h."""
    if seconds < 100:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 100 * 60 else f"{seconds / 3600:.1f} h"
