"""Terminal output: a live panel, or plain lines if the output is not a terminal."""

import itertools
from collections import defaultdict, deque
from typing import NamedTuple

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from kartrl.envs.episode import Tally
from kartrl.envs.world import MANY, World
from kartrl.learning.counters import Counters
from kartrl.metrics.records import EpisodeRecord

PLAIN_SECONDS = 10.0
MOST_ROWS = 18  # maximum rows of groups of levels


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


class Display:
    """Collects episodes and displays the state of a run; a context manager.

    Args:
        name: of the run.
        world: decides what is displayed of its episodes.
    """

    def __init__(self, console: Console, name: str, world: World) -> None:
        self._console, self._name, self._world = console, name, world
        self._tallies: dict[tuple[str, str], Tally] = {}
        self._returns: deque[float] = deque(maxlen=100)
        self._last_line = float("-inf")
        self._live = Live(console=console, refresh_per_second=2, transient=False) if console.is_terminal else None

    def __enter__(self) -> "Display":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def add(self, record: EpisodeRecord) -> None:
        """Add an episode."""
        episode = record.episode
        place = episode.use, episode.level
        if place not in self._tallies:
            self._tallies[place] = self._world.make_tally(*place)
        self._tallies[place].add(episode, record.evaluated)
        if not record.evaluated:
            self._returns.append(episode.episodic_return)

    def say(self, message: str) -> None:
        """Print a permanent line."""
        self._console.print(message, highlight=False, markup=False, soft_wrap=True)

    def show(self, status: Status, final: bool = False) -> None:
        """Update the panel; without a terminal, print a line every ten seconds."""
        if self._live is not None:
            parts = [self._head(status), self._table()] if self._tallies else [self._head(status)]
            self._live.update(Panel(Group(*parts), title=self._name, border_style="cyan"))
        elif final or status.counters.seconds - self._last_line >= PLAIN_SECONDS:
            self._last_line = status.counters.seconds
            self.say(self._line(status))

    def _line(self, status: Status) -> str:
        counters = status.counters
        more = self._world.tell_progress(self._sorted())
        return (
            f"{_clock(counters.seconds)} | {status.fraction:4.0%} | {counters.agent_steps:,} agent steps, "
            f"{status.agent_steps_per_second:,.0f}/s | {counters.updates:,} updates | return {_mean(self._returns)} "
            f"over {counters.episodes:,} episodes | lag {status.lag:.1f}{more and f' | {more}'} "
            f"| ETA {_clock(status.eta_seconds)}"
        )

    def _head(self, status: Status) -> Table:
        counters = status.counters
        head = Table.grid(padding=(0, 2), expand=True)
        head.add_column(justify="left")
        head.add_column(justify="left")
        head.add_column(justify="right")
        head.add_row(
            Text(f"{counters.agent_steps:,} agent steps", style="bold"),
            ProgressBar(total=1.0, completed=status.fraction, width=30),
            f"{_clock(counters.seconds)} elapsed, ETA {_clock(status.eta_seconds)}",
        )
        head.add_row(
            f"{status.agent_steps_per_second:,.0f} steps/s, {status.updates_per_second:.1f} updates/s",
            f"{status.agents} agents, batches of {status.prediction_batch:.1f}, lag {status.lag:.1f}",
            f"return {_mean(self._returns)} over {counters.episodes:,} episodes",
        )
        return head

    def _table(self) -> Table:
        table = Table(expand=True, box=None, header_style="dim")
        levels = any(level for _, level in self._tallies)
        table.add_column(self._world.level_word if levels else "", justify="left")
        for column in self._world.columns:
            table.add_column(column, justify="right")
        if not levels:
            table.add_row("episodes", *self._world.fill_columns(self._sorted()))
            return table
        for row in self._rows():
            name = f"{row.name} (unseen)" if row.use != "train" else row.name
            table.add_row(name, *self._world.fill_columns(row.tallies), style="bold" if row.whole else "")
        return table

    def _sorted(self) -> list[Tally]:
        """Of all levels, first those that are learned from."""
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
    whole: bool  # all levels of this use


def _mean(values: "deque[float]") -> str:
    return f"{sum(values) / len(values):.2f}" if values else "-"


def _clock(seconds: float) -> str:
    if seconds == float("inf"):
        return "-"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
