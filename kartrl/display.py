"""What the terminal shows: a live panel, or plain lines where the output is not a terminal."""

from collections import defaultdict, deque
from typing import NamedTuple

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from kartrl.types import Counters, Episode, EpisodeRecord

PLAIN_SECONDS = 10.0


class Status(NamedTuple):
    """The state of a run, as the server sees it."""

    counters: Counters
    fraction: float  # of the run done, 0 to 1
    eta_seconds: float
    agent_steps_per_second: float
    updates_per_second: float
    prediction_batch: float  # mean size
    lag: float  # mean policy lag in updates
    agents: int


class CircuitStatistics:
    """The newest episodes on one circuit (or all of them, where there are none)."""

    def __init__(self) -> None:
        self.episodes: deque[Episode] = deque(maxlen=50)
        self.best_lap = float("inf")
        self.evaluation: Episode | None = None

    def add(self, record: EpisodeRecord) -> None:
        """Take in an episode of an agent or of the evaluator."""
        self.best_lap = min(self.best_lap, *record.episode.lap_times, float("inf"))
        if record.evaluated:
            self.evaluation = record.episode
        else:
            self.episodes.append(record.episode)


class Display:
    """Collects episodes and shows the state of a run; a context manager."""

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
        """Take in an episode."""
        episode = record.episode
        # "test" sorts before "train": show the circuits that are learned from first.
        self._circuits[("" if episode.use == "train" else episode.use, episode.circuit)].add(record)
        if not record.evaluated:
            self._returns.append(episode.episodic_return)

    def say(self, message: str) -> None:
        """A line that stays."""
        self._console.print(message, highlight=False, markup=False, soft_wrap=True)

    def show(self, status: Status, final: bool = False) -> None:
        """Bring the panel up to date; without a terminal, print a line every ten seconds."""
        if self._live is not None:
            parts = [self._head(status), self._table()] if self._circuits else [self._head(status)]
            self._live.update(Panel(Group(*parts), title=self._name, border_style="cyan"))
        elif final or status.counters.seconds - self._last_line >= PLAIN_SECONDS:
            self._last_line = status.counters.seconds
            self.say(self._line(status))

    def _line(self, status: Status) -> str:
        counters = status.counters
        laps = [
            f"{name.removeprefix('MarioCircuit.')} {_seconds(circuit.best_lap)}" for (_, name), circuit in sorted(self._circuits.items())
        ]
        best = f" | best lap {', '.join(laps)}" if any(circuit.best_lap < float("inf") for circuit in self._circuits.values()) else ""
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
        kart = any(name for _, name in self._circuits)
        columns = (
            ("circuit", "return", "laps driven", "races finished", "best lap", "last evaluation") if kart else ("", "return", "length")
        )
        for column in columns:
            table.add_column(column, justify="left" if column in ("circuit", "") else "right")
        for (use, name), circuit in sorted(self._circuits.items()):
            episodes = circuit.episodes
            returns = _mean([episode.episodic_return for episode in episodes])
            if not kart:
                table.add_row("episodes", returns, _mean([float(episode.agent_steps) for episode in episodes]))
                continue
            finished = f"{sum(episode.finished for episode in episodes) / len(episodes):.0%}" if episodes else "-"
            table.add_row(
                f"{name} (unseen)" if use else name,
                returns,
                _mean([episode.progress for episode in episodes]),
                finished,
                _seconds(circuit.best_lap),
                _evaluation(circuit.evaluation),
            )
        return table


def _evaluation(episode: Episode | None) -> str:
    if episode is None:
        return "-"
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
