"""What ends a run: its limits, and the rules for episodes and returns."""

import signal
from collections import deque
from collections.abc import Callable
from operator import attrgetter
from statistics import fmean
from typing import TYPE_CHECKING

from kartrl.config import Run
from kartrl.learning.counters import Counters
from kartrl.metrics.records import Confirmation

if TYPE_CHECKING:
    from kartrl.acting.messages import EpisodeEnd
    from kartrl.acting.sizes import Sizes
    from kartrl.training.trainer import Trainer

OFF = {"stop_return": "none", "stop_episodes_total": "0", "patience": "0"}  # keys of [run], and what disables each


class StopRules:
    """Decides when a run ends, from its counters, its training episodes and evaluations that confirm its return.

    Attributes:
        confirming: whether an evaluation is confirming the return.
        ended_by: "run.KEY = VALUE", and after a colon what fulfilled it, once a rule or a limit ends the run; the name
            of what else ends it, see `end`; else "".
    """

    def __init__(self, run: Run, say: Callable[[str], None]) -> None:
        self._run, self._say = run, say
        self._returns: deque[float] = deque(maxlen=run.stop_window)
        self._best, self._best_at = float("-inf"), 0
        self._looked = True  # at the newest episode
        self.confirming = False
        self.ended_by = ""

    def add(self, episodic_return: float) -> None:
        self._returns.append(episodic_return)
        self._looked = False

    def look(self, counters: Counters) -> bool:
        """Look whether the run ends; returns whether an evaluation has to confirm its return first, once each time."""
        run = self._run
        if counters.agent_steps >= run.agent_steps:
            self._end("agent_steps", f"{counters.agent_steps:,} agent steps")
        elif run.minutes and counters.seconds >= 60 * run.minutes:
            self._end("minutes", f"{counters.agent_steps:,} agent steps")
        elif run.stop_episodes_total and counters.episodes >= run.stop_episodes_total:
            self._end("stop_episodes_total", f"{counters.episodes:,} episodes")
        if self.ended_by or self._looked or len(self._returns) < run.stop_window:
            return False
        self._looked = True
        mean = fmean(self._returns)
        if mean > self._best:
            self._best, self._best_at = mean, counters.agent_steps
        elif run.patience and counters.agent_steps - self._best_at >= run.patience:
            best = f"{self._best:.2f} at {self._best_at:,} agent steps"
            self._end("patience", f"no mean return of {run.stop_window} episodes above {best}")
        if self.ended_by or run.stop_return == "none" or mean < run.stop_return or self.confirming:
            return False
        if run.stop_episodes:
            if not counters.updates:  # nothing was learned yet: there is no checkpoint to evaluate
                return False
            self.confirming = True
            self._say(
                f"Mean return {mean:.2f} in {run.stop_window} training episodes: evaluating {run.stop_episodes} "
                f"(run.stop_return = {run.stop_return:g}) ..."
            )
            return True
        self._end("stop_return", f"mean return {mean:.2f} in {run.stop_window} training episodes")
        return False

    def decide(self, confirmation: Confirmation) -> None:
        """End the run if an evaluation confirms its return; if not, so many new episodes are needed to try again."""
        self.confirming = False
        goal, steps = self._run.stop_return, confirmation.agent_steps
        about = f"mean return {confirmation.mean:.2f} in {confirmation.episodes} greedy episodes at {steps:,} steps"
        if goal != "none" and confirmation.mean >= goal:
            self._end("stop_return", about)
        else:
            self._returns.clear()
            self._say(f"Not confirmed: {about}; training continues")

    def end(self, name: str) -> None:
        """End the run by something else, if there is a name."""
        self.ended_by = self.ended_by or name

    def _end(self, key: str, text: str) -> None:
        self.end(f"run.{key} = {value_of(self._run, key)}: {text}")


class Judge:
    """Applies the rules while a run trains: in a reproducible one when its trainer asks, to what it has trained on.

    Args:
        episodes: of the run before this process.
    """

    def __init__(self, run: Run, trainer: "Trainer", sizes: "Sizes", episodes: int, say: Callable[[str], None]) -> None:
        self.rules = StopRules(run, say)
        self._trainer, self._sizes = trainer, sizes
        trainer.asks = run.reproducible and has_rules(run)
        self._unjudged: list[EpisodeEnd] = []  # by the rules, if the trainer asks
        self._judged = episodes, 0  # episodes, and attempts of the trainer, that the rules have seen

    def add(self, end: "EpisodeEnd") -> None:
        """Add a training episode."""
        if self._trainer.asks:
            self._unjudged.append(end)
        else:
            self.rules.add(end.episode.episodic_return)

    def look(self, counters: Counters, receive: Callable[[], None], confirm: Callable[[], None]) -> None:
        """Look whether the run ends, and answer the trainer if it asks.

        Args:
            receive: adds all episodes that have ended by now.
            confirm: starts an evaluation that confirms the return.
        """
        question = self._trainer.question
        if self._trainer.asks:
            counters = counters._replace(episodes=self._judged[0])
        if question is not None and question[0] != self._judged[1]:
            receive()
            rounds = self._sizes.rounds(question[0])
            ended = sorted((end for end in self._unjudged if end.block < rounds), key=attrgetter("block", "group"))
            self._unjudged = [end for end in self._unjudged if end.block >= rounds]
            for end in ended:
                self.rules.add(end.episode.episodic_return)
            self._judged = self._judged[0] + len(ended), question[0]
            counters = question[1]._replace(episodes=self._judged[0])
        if self.rules.look(counters):
            confirm()
        if question is not None and not self.rules.confirming:
            self._trainer.answer(over=bool(self.rules.ended_by))


def value_of(run: Run, key: str) -> str:
    """A limit or rule as text."""
    value = getattr(run, key)
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)


def has_rules(run: Run) -> bool:
    """Whether a rule that can be disabled may end the run."""
    return not OFF.keys().isdisjoint(run.changed_keys())


def is_rule(ended_by: str) -> bool:
    """Whether one of the rules that can be disabled ended the run, instead of a limit."""
    return _key(ended_by) in OFF


def resuming(ended_by: str, before: Run, now: Run) -> str:
    """The option with which a run that a rule ended can be resumed; "" if none did, or if the rule has changed since.

    Args:
        ended_by: see `StopRules`.
        before: the section when it ended.
        now: the section when it is resumed.
    """
    key = _key(ended_by)
    return f" --set run.{key}={OFF[key]}" if key in OFF and getattr(before, key) == getattr(now, key) else ""


def _key(ended_by: str) -> str:
    return ended_by.partition(" = ")[0].removeprefix("run.")


def words(ended_by: str, number: int | None) -> str:
    """The last line of a run: what ended it.

    Args:
        ended_by: see `StopRules`.
        number: of the signal, if it was one.
    """
    if ended_by or number is None:
        return f"Ended by {ended_by}"
    return f"Ended by a signal: {signal.Signals(number).name}{' (Ctrl-C)' * (number == signal.SIGINT)}"
