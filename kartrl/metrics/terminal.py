"""Terminal output: a live panel, or plain lines if the output is not a terminal."""

from collections import defaultdict, deque
from typing import NamedTuple

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from kartrl.config.levels import DOZEN, group_of
from kartrl.envs.episode import Episode
from kartrl.learning.counters import Counters
from kartrl.metrics.records import EpisodeRecord

PLAIN_SECONDS = 10.0
MOST_ROWS = 18  # maximum rows of groups of circuits


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


class CircuitStatistics:
    """The newest episodes on a circuit, or of the run if there are no circuits."""

    def __init__(self) -> None:
        self.episodes: deque[Episode] = deque(maxlen=50)
        self.best_lap = float("inf")
        self.evaluation: Episode | None = None

    def add(self, record: EpisodeRecord) -> None:
        """Add an episode of an agent or of the evaluator."""
        self.best_lap = min(self.best_lap, *record.episode.lap_times, float("inf"))
        if record.evaluated:
            self.evaluation = record.episode
        else:
            self.episodes.append(record.episode)


class Display:
    """Collects episodes and displays the state of a run; a context manager."""

    def __init__(self, console: Console, name: str) -> None:
        self._console, self._name = console, name
        self._circuits: dict[tuple[str, str], CircuitStatistics] = defaultdict(CircuitStatistics)
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
        # train circuits first, although "test" sorts before "train"
        self._circuits[("" if episode.use == "train" else episode.use, episode.circuit)].add(record)
        if not record.evaluated:
            self._returns.append(episode.episodic_return)

    def say(self, message: str) -> None:
        """Print a permanent line."""
        self._console.print(message, highlight=False, markup=False, soft_wrap=True)

    def show(self, status: Status, final: bool = False) -> None:
        """Update the panel; without a terminal, print a line every ten seconds."""
        if self._live is not None:
            parts = [self._head(status), self._table()] if self._circuits else [self._head(status)]
            self._live.update(Panel(Group(*parts), title=self._name, border_style="cyan"))
        elif final or status.counters.seconds - self._last_line >= PLAIN_SECONDS:
            self._last_line = status.counters.seconds
            self.say(self._line(status))

    def _line(self, status: Status) -> str:
        counters = status.counters
        if len(self._circuits) > DOZEN:
            trained = [episode for (use, _), row in self._circuits.items() if not use for episode in row.episodes]
            unseen = [row.evaluation for (use, _), row in self._circuits.items() if use and row.evaluation is not None]
            best = f" | finished {_finished(trained)} on {len(self._circuits) - len(unseen)} circuits"
            best += f", unseen: {_evaluation(unseen)}" if unseen else ""
        else:
            laps = [
                f"{name.removeprefix('MarioCircuit.')} {_seconds(row.best_lap)}"
                for (_, name), row in sorted(self._circuits.items())
            ]
            best = (
                f" | best lap {', '.join(laps)}"
                if any(row.best_lap < float("inf") for row in self._circuits.values())
                else ""
            )
        return (
            f"{_clock(counters.seconds)} | {status.fraction:4.0%} | {counters.agent_steps:,} agent steps, "
            f"{status.agent_steps_per_second:,.0f}/s | {counters.updates:,} updates | return {_mean(self._returns)} "
            f"over {counters.episodes:,} episodes | lag {status.lag:.1f}{best} | ETA {_clock(status.eta_seconds)}"
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
        if not any(name for _, name in self._circuits):
            for column in ("", "return", "length"):
                table.add_column(column, justify="right" if column else "left")
            episodes = [episode for circuit in self._circuits.values() for episode in circuit.episodes]
            returns = _mean([episode.episodic_return for episode in episodes])
            table.add_row("episodes", returns, _mean([float(episode.agent_steps) for episode in episodes]))
            return table
        for column in ("circuit", "return", "laps driven", "races finished", "best lap", "last evaluation"):
            table.add_column(column, justify="left" if column == "circuit" else "right")
        for row in self._rows():
            episodes = [episode for circuit in row.circuits for episode in circuit.episodes]
            table.add_row(
                f"{row.name} (unseen)" if row.use else row.name,
                _mean([episode.episodic_return for episode in episodes]),
                _mean([episode.progress for episode in episodes]),
                _finished(episodes),
                _seconds(min(circuit.best_lap for circuit in row.circuits)),
                _evaluation([circuit.evaluation for circuit in row.circuits if circuit.evaluation is not None]),
                style="bold" if row.whole else "",
            )
        return table

    def _rows(self) -> list["Row"]:
        """A row per circuit; with more than a dozen, rows per group (unless too many) and per use."""
        uses: defaultdict[str, list[CircuitStatistics]] = defaultdict(list)
        groups: defaultdict[tuple[str, str], list[CircuitStatistics]] = defaultdict(list)
        for (use, name), circuit in sorted(self._circuits.items()):
            uses[use].append(circuit)
            groups[use, group_of(name)].append(circuit)
        if len(self._circuits) <= DOZEN:
            return [Row(use, name, [circuit], False) for (use, name), circuit in sorted(self._circuits.items())]
        rows: list[Row] = []
        for use, circuits in uses.items():
            separate = [
                Row(use, f"{group}, {len(some)}", some, False) for (of, group), some in groups.items() if of == use
            ]
            rows += separate if len(rows) + len(separate) <= MOST_ROWS else []
            rows.append(Row(use, f"all {len(circuits)}", circuits, True))
        return rows


class Row(NamedTuple):
    """Contents of a row of the table."""

    use: str  # "" for train
    name: str
    circuits: list[CircuitStatistics]
    whole: bool  # all circuits of this use


def _finished(episodes: list[Episode]) -> str:
    return f"{sum(episode.finished for episode in episodes) / len(episodes):.0%}" if episodes else "-"


def _evaluation(episodes: list[Episode]) -> str:
    if not episodes:
        return "-"
    if len(episodes) > 1:
        return f"{sum(episode.finished for episode in episodes)} of {len(episodes)} finished"
    (episode,) = episodes
    return f"finished in {sum(episode.lap_times):.1f} s" if episode.finished else f"{episode.progress:.1f} laps"


def _mean(values: "deque[float] | list[float]") -> str:
    return f"{sum(values) / len(values):.2f}" if values else "-"


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value < float("inf") else "-"


def _clock(seconds: float) -> str:
    if seconds == float("inf"):
        return "-"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
