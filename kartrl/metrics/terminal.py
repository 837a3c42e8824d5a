"""Terminal output: a live panel, or plain lines where the output cannot show one or is shared with other runs."""

import itertools
import math
from collections import defaultdict, deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from kartrl.envs.episode import Tally
from kartrl.envs.spec import ActionSpec
from kartrl.envs.world import World
from kartrl.envs.world_levels import MANY
from kartrl.learning.counters import Counters
from kartrl.metrics.hints import FAR, GONE, RANDOM, Hints
from kartrl.metrics.records import EpisodeRecord
from kartrl.metrics.reward_watch import RewardWatch
from kartrl.metrics.tables import Line, fitted

if TYPE_CHECKING:
    from kartrl.sizing.outlook import Outlook

PLAIN_SECONDS = 10.0
FEWEST_UPDATES = 5  # after which the speed is known
EPISODES = 20  # whose mean return is compared with earlier ones
MOST_ROWS = 18  # maximum rows of groups of levels
PANEL_EDGES = 4  # columns that the panel's border takes


class Status(NamedTuple):
    """State of a run."""

    counters: Counters
    fraction: float  # completed fraction of the run, 0 to 1
    eta_seconds: float
    agent_steps_per_second: float
    updates_per_second: float
    prediction_batch: float  # mean size
    lag: float  # mean policy lag in updates
    agents: int
    stuck: float = 0.0  # seconds since the last update, if that is too long
    where: str = ""  # location of the agents, if not on this machine
    taken: int = 0  # agent steps since the last update, if that is long ago, or since the start
    needed: int = 0  # agent steps that an update takes

    @property
    def steps(self) -> str:
        """The agent steps, including those that wait for an update if there has been none for long."""
        text = f"{self.counters.agent_steps + self.taken:,} agent steps"
        return (
            f"{text} ({min(self.taken, self.needed):,} of {self.needed:,} for the next update)" if self.taken else text
        )


class Display:
    """Collects episodes and displays the state of a run; a context manager.

    Args:
        world: decides what is displayed of its episodes.
        plain: print lines that begin with the run's name, because other runs print to the same place.
        action: the environment's actions; None: hints on their entropy are left out.
        outlook: how long the run takes; None: nothing is said of it.
        fresh: whether the run begins with an untrained network.
    """

    def __init__(
        self,
        console: Console,
        name: str,
        world: World,
        plain: bool = False,
        action: ActionSpec | None = None,
        outlook: "Outlook | None" = None,
        fresh: bool = True,
    ) -> None:
        self._console, self._name, self._world = console, name, world
        self._outlook = outlook
        self._speed_from: float | None = None  # seconds of training at the first status; infinite once it was told
        patience = outlook.patience if outlook is not None else None
        self.hints = Hints(world.config, action, world.steady_reward, patience, fresh)
        self._prefix = f"{name} | " if plain else ""
        self._tallies: dict[tuple[str, str], Tally] = {}
        self._watch = RewardWatch() if world.steady_reward else RewardWatch("return", EPISODES)
        self._returns: deque[float] = deque(maxlen=100)
        self._last_line = float("-inf")
        self._status: Status | None = None
        panel = console.is_terminal and not console.is_dumb_terminal and not plain
        self._live = Live(console=console, refresh_per_second=2, transient=False) if panel else None

    def __enter__(self) -> "Display":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def add(self, record: EpisodeRecord) -> None:
        episode = record.episode
        place = episode.use, episode.level
        if place not in self._tallies:
            self._tallies[place] = self._world.make_tally(*place)
        self._tallies[place].add(episode, record.agent_steps if record.evaluated else None)
        if not record.evaluated:
            self._returns.append(episode.episodic_return)
            if not self._world.steady_reward:
                self._add_value(record.seconds, record.agent_steps, 1, episode.episodic_return)

    def add_update(self, counters: Counters, steps: int, mean_reward: float, scalars: Mapping[str, float]) -> None:
        """Add what was logged of an update: steps trained on since the one before, their mean reward, and scalars."""
        self.hints.add(scalars)
        if self._world.steady_reward:
            self._add_value(counters.seconds, counters.agent_steps, steps, mean_reward)

    def _add_value(self, seconds: float, agent_steps: int, number: int, mean: float) -> None:
        """Add the reward of steps if it is steady, else a return, and report a collapse: see `RewardWatch.add`."""
        self.hints.trend.add(agent_steps, number, mean)
        if (message := self._watch.add(seconds, number, mean)) is not None:
            self.say(message)

    def say(self, message: str) -> None:
        """Print permanent lines."""
        for line in message.splitlines():
            self._console.print(self._prefix + line, highlight=False, markup=False, soft_wrap=True)

    def show(self, status: Status, final: bool = False) -> None:
        """Update the panel, or print a line every ten seconds."""
        self._status = status
        new = self.hints.look(status.counters.agent_steps, status.fraction)
        self._tell_speed(status)
        self.refresh()
        if self._live is not None:
            return
        for hint in new:
            self.say(f"Hint: {hint}")
        if final or status.counters.seconds - self._last_line >= PLAIN_SECONDS:
            self._last_line = status.counters.seconds
            self.say(self._line(status))

    def _tell_speed(self, status: Status) -> None:
        """Say, once this machine's speed is known, how long the rest takes."""
        counters = status.counters
        if self._speed_from is None:
            self._speed_from = counters.seconds
        steady = counters.seconds - self._speed_from >= PLAIN_SECONDS and counters.updates >= FEWEST_UPDATES
        if steady and status.fraction < 1 and self._outlook is not None:
            self._speed_from = math.inf
            self.say(f"Measured: {self._outlook.tell(counters, status.agent_steps_per_second)}")

    def refresh(self) -> None:
        """Update the panel, if there is one, with episodes added since."""
        if self._live is not None and self._status is not None:
            hints = [Text(f"Hint: {hint}", style="yellow") for hint in self.hints.shown.values()]
            table = [self._table()] if self._tallies else []
            group = Group(self._head(self._status), *hints, *table)
            self._live.update(Panel(group, title=Text(self._name), border_style="cyan"))

    def recount(self, counters: Counters) -> None:
        """Count what came after the newest status."""
        if self._status is not None:
            self._status = self._status._replace(counters=counters)

    @property
    def counters(self) -> Counters:
        """Those of the newest status; zeros before the first one."""
        return self._status.counters if self._status is not None else Counters()

    @property
    def waiting(self) -> tuple[int, int]:
        """Agent steps taken by a run without updates, and those that the first one takes."""
        return (self._status.taken, self._status.needed) if self._status is not None else (0, 0)

    def summary(self) -> str:
        """The results of the run, on one line."""
        status = self._status
        if status is None:
            return "ended"
        counters = status.counters
        phrases = [
            f"{'finished' if status.fraction >= 1 else 'stopped'} after {_clock(counters.seconds)}",
            f"{counters.agent_steps:,} steps" if counters.updates else f"{status.taken:,} steps taken",
        ]
        phrases += self._world.tell_result(self._sorted()) or [f"return {_mean(self._returns)}"] * bool(self._returns)
        evaluated_at = [tally.evaluated_at for tally in self._tallies.values() if tally.evaluated_at is not None]
        if evaluated_at and max(evaluated_at) < counters.agent_steps:  # the last checkpoint was not evaluated
            phrases.append(f"evaluated at {max(evaluated_at):,} steps")
        return ", ".join([*phrases, *filter(None, [self._watch.phrase()])])

    def _line(self, status: Status) -> str:
        counters = status.counters
        more = self._world.tell_progress(self._sorted())
        where = f" | {status.agents} agents{status.where}" if status.where else ""
        return (
            f"{_clock(counters.seconds)} | {status.fraction:4.0%} | {status.steps}, "
            f"{status.agent_steps_per_second:,.0f}/s | {counters.updates:,} updates | {self._mean_return(counters)} "
            f"| lag {self._lag(status)}{where}{more and f' | {more}'} "
            f"| {f'stuck for {status.stuck:.0f} s' if status.stuck else f'ETA {_clock(status.eta_seconds)}'}"
        )

    def _head(self, status: Status) -> Table:
        counters = status.counters
        head = Table.grid(padding=(0, 2), expand=True)
        head.add_column(justify="left")
        head.add_column(justify="right")
        head.add_row(
            Text(status.steps, style="bold"),
            ProgressBar(total=1.0, completed=status.fraction, width=30),
        )
        speed = Text(f"{status.agent_steps_per_second:,.0f} steps/s, {status.updates_per_second:.1f} updates/s")
        head.add_row(
            Text(f"stuck for {status.stuck:.0f} s: no update", style="bold red") if status.stuck else speed,
            f"{_clock(counters.seconds)} elapsed, ETA {_clock(status.eta_seconds)}",
        )
        head.add_row(
            f"{status.agents} agents{status.where}, batches of {status.prediction_batch:.1f}, lag {self._lag(status)}",
            self._mean_return(counters),
        )
        if not math.isnan(self.hints.share):
            outlook, done = self._outlook, counters.agent_steps
            goals = outlook.goals(done, status.agent_steps_per_second) if outlook is not None else []
            head.add_row(f"entropy {self._entropy()}", f"usually {goals[0]}" if goals else "")
        return head

    def _lag(self, status: Status) -> str:
        far = self.hints.divergence
        return f"{status.lag:.1f}" + ("" if math.isnan(far) else " (fine)" if far <= FAR else " (too old)")

    def _entropy(self) -> str:
        """With what it means to those who do not know it."""
        share = self.hints.share
        about = ": nearly random" if share > RANDOM else ": always the same" if share < GONE else ""
        return f"{min(share, 1.0):.0%} of a random policy's{about}"

    def _mean_return(self, counters: Counters) -> str:
        """Of the newest episodes alone, none of which are from before a resume."""
        trend = f", {self.hints.trend.word}" if self.hints.trend.word else ""
        number = f"the last {len(self._returns)} of {counters.episodes:,} episodes"
        return f"return {_mean(self._returns)} over {number}{trend}"

    def _table(self) -> Table:
        world, width = self._world, self._console.width - PANEL_EDGES
        if not any(level for _, level in self._tallies):
            line = Line("episodes", world.fill_columns(self._sorted()))
            return fitted("", world.columns, [[line]], width, box=None)
        lines = [
            Line(
                row.name,
                world.fill_columns(row.tallies),
                " (unseen)" if row.use != "train" else "",
                bold=row.whole,
                level=not row.whole,
            )
            for row in self._rows()
        ]
        return fitted(world.level_word, world.columns, [lines], width, box=None)

    def _sorted(self) -> list[Tally]:
        """Tallies of all levels, training levels first."""
        return sorted(self._tallies.values(), key=lambda tally: (tally.use != "train", tally.use, tally.level))

    def _rows(self) -> list["Row"]:
        """A row per level; with more than `MANY`, rows per group (unless too many) and per use."""
        tallies = self._sorted()
        if len(tallies) <= MANY:
            return [Row(tally.use, tally.level, [tally], False) for tally in tallies]
        rows: list[Row] = []
        for use, same in itertools.groupby(tallies, lambda tally: tally.use):
            groups: defaultdict[str, list[Tally]] = defaultdict(list)
            for tally in same:
                groups[self._world.group_of(tally.level)].append(tally)
            separate = [Row(use, f"{group}, {len(some)}", some, False) for group, some in groups.items()]
            whole = [tally for some in groups.values() for tally in some]
            rows += separate if len(rows) + len(separate) <= MOST_ROWS else []
            rows.append(Row(use, f"all {len(whole)}", whole, True))
        return rows


class Row(NamedTuple):
    """Contents of a row of the table."""

    use: str
    name: str
    tallies: list[Tally]
    whole: bool  # whether the row is for all levels of a use


def _mean(values: "deque[float]") -> str:
    return f"{sum(values) / len(values):.2f}" if values else "-"


def _clock(seconds: float) -> str:
    if seconds == float("inf"):
        return "-"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
