"""The results of the kart's races: laps, places, and how they are reported and tabulated."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any, ClassVar, NamedTuple

from kartrl.envs.episode import Episode, Tally, newest_evaluation
from kartrl.envs.world import World
from kartrl.envs.world_levels import MANY
from kartrl.kart.settings import Kart, sections_of


class Race(NamedTuple):
    """The details of an episode."""

    progress: float  # laps driven, with fractions
    lap_times: tuple[float, ...]  # seconds on the race clock
    idle: float = 0.0  # seconds on the race clock when the agent took over
    rank: int = 1  # among the opponents, at the end


class CircuitTally(Tally):
    """Also keeps the best lap of all episodes."""

    def __init__(self, use: str, level: str) -> None:
        super().__init__(use, level)
        self.best_lap = float("inf")  # seconds

    def add(self, episode: Episode, evaluated_at: int | None) -> None:
        super().add(episode, evaluated_at)
        self.best_lap = min(self.best_lap, *race_of(episode).lap_times, float("inf"))


class RaceWorld(World):
    """What `KartWorld` is made of; `World` documents the methods."""

    columns: ClassVar = ("last evaluation", "races finished", "best lap", "laps driven", "return")
    summary_columns: ClassVar = ("races finished", "mean lap", "best lap", "mean return", "laps driven", "title")
    highlights: ClassVar = ("finished", "won", "progress", "best_lap")

    @property
    def kart(self) -> Kart:
        return sections_of(self.config).kart

    def make_episode(self, info: dict[str, Any], finished: bool, use: str = "train") -> Episode:
        times = tuple(info["lap_times"])
        idle = round(info["race_seconds"] - sum(times), 2) if info["finished"] else 0.0
        race = Race(float(info["progress"]), times, idle, info["rank"])
        return super().make_episode(info, info["finished"], use)._replace(level=info["circuit"], details=race)

    def measure(self, episodes: Sequence[Episode]) -> dict[str, float]:
        values = super().measure(episodes)
        values["progress"] = _progress(episodes)
        values["finished"] = fmean(episode.finished for episode in episodes)
        if self.kart.opponents:
            values["won"] = _won(episodes)
            values["rank"] = fmean(race_of(episode).rank for episode in episodes)
        if laps := _laps(episodes):
            values["lap_time"] = fmean(laps)
            values["best_lap"] = min(laps)
        return values

    def make_tally(self, use: str, level: str) -> CircuitTally:
        return CircuitTally(use, level)

    def fill_columns(self, tallies: Sequence[Tally]) -> list[str]:
        episodes = [episode for tally in tallies for episode in tally.episodes]
        return [
            _evaluation(tallies),
            _finished(episodes) + self._first_in(episodes),
            _seconds(_best_lap(tallies)),
            f"{_progress(episodes):.2f}" if episodes else "-",
            f"{fmean(episode.episodic_return for episode in episodes):.2f}" if episodes else "-",
        ]

    def tell_progress(self, tallies: Sequence[Tally]) -> str:
        """See `World`: best laps or, for many circuits, the share of races finished."""
        if len(tallies) > MANY:
            train = [tally for tally in tallies if tally.use == "train"]
            trained = [episode for tally in train for episode in tally.episodes]
            text = f"finished {_finished(trained)} on {len(train)} circuits"
            unseen = _evaluation([tally for tally in tallies if tally.use != "train"])
            return text + (f", unseen: {unseen}" if unseen != "-" else "")
        if _best_lap(tallies) == float("inf"):
            return ""
        laps = [f"{tally.level.removeprefix('MarioCircuit.')} {_seconds(_best_lap([tally]))}" for tally in tallies]
        return f"best lap {', '.join(laps)}"

    def tell_result(self, tallies: Sequence[Tally]) -> list[str]:
        """See `World`: number of races that the last evaluation finished (circuits, if one on each), the best lap."""
        newest = newest_evaluation(tallies)
        evaluated = [episode for tally in newest for episode in tally.evaluation]
        finished, best = sum(episode.finished for episode in evaluated), _best_lap(tallies)
        phrases = []
        if evaluated:
            count = "all" if finished == len(evaluated) > 1 else f"{finished} of {len(evaluated)}"
            word = "races" if any(len(tally.evaluation) > 1 for tally in newest) else "circuits"
            phrases.append(f"{count} {word} finished{self._left_out(newest)}")
        return phrases + [f"best lap {_seconds(best)}"] * (best < float("inf"))

    def summarize(self, episodes: Sequence[Episode]) -> list[str]:
        from kartrl.kart.circuits.format import title_of
        from kartrl.kart.game_files import BUNDLED, game_folder

        laps, levels = _laps(episodes), {episode.level for episode in episodes}
        titled = len(levels) == 1 and game_folder(self.kart.game).name == BUNDLED
        return [
            f"{sum(episode.finished for episode in episodes)} of {len(episodes)}" + self._first_in(episodes),
            _seconds(fmean(laps)) if laps else "-",
            _seconds(min(laps)) if laps else "-",
            f"{fmean(episode.episodic_return for episode in episodes):.2f}",
            f"{_progress(episodes):.2f}",
            title_of(*levels) if titled else "",
        ]

    def _first_in(self, episodes: Sequence[Episode]) -> str:
        """Share of races won, as text; "" without opponents."""
        return f", first in {_won(episodes):.0%}" if self.kart.opponents and episodes else ""

    def tell_episode(self, episode: Episode) -> str:
        progress, times, _, rank = race_of(episode)
        if not times:
            return f"{progress:.2f} laps, none completed"
        laps = "  ".join(f"{time:.2f}" for time in times)
        end = f"race {sum(times):.2f} s" if episode.finished else f"{progress:.2f} laps driven"
        opponents = self.kart.opponents
        return f"laps {laps}, {end}" + f", place {rank} of {opponents + 1}" * (opponents > 0)

    def list_episodes(self, episodes: Sequence[Episode]) -> list[list[str]]:
        """See `World`: the times of all laps. The clock on the screen starts before the agent takes over."""
        count = max(len(race_of(episode).lap_times) for episode in episodes)
        rows = [
            ["race", *(f"lap {lap + 1}" for lap in range(count)), "total", "clock on screen", "laps driven", "return"]
        ]
        for number, episode in enumerate(episodes, 1):
            progress, times, idle, _ = race_of(episode)
            laps = [f"{time:.2f} s" for time in times] + ["-"] * (count - len(times))
            total = f"{sum(times):.2f} s" if episode.finished else "not finished"
            clock = f"{sum(times) + idle:.2f} s" if episode.finished else "-"
            rows.append([str(number), *laps, total, clock, f"{progress:.2f}", f"{episode.episodic_return:.2f}"])
        return rows


def race_of(episode: Episode) -> Race:
    """The details of an episode of the kart."""
    race: Race = episode.details
    return race


def best_first(episode: Episode) -> tuple[float, float]:
    """Sort key, smaller is better: further, then faster."""
    return -race_of(episode).progress, sum(race_of(episode).lap_times)


def _won(episodes: Sequence[Episode]) -> float:
    """Share of races that were finished before all opponents."""
    return fmean(episode.finished and race_of(episode).rank == 1 for episode in episodes)


def _progress(episodes: Sequence[Episode]) -> float:
    return fmean(race_of(episode).progress for episode in episodes)


def _laps(episodes: Sequence[Episode]) -> list[float]:
    return [lap for episode in episodes for lap in race_of(episode).lap_times]


def _best_lap(tallies: Sequence[Tally]) -> float:
    return min((tally.best_lap for tally in tallies if isinstance(tally, CircuitTally)), default=float("inf"))


def _finished(episodes: Sequence[Episode]) -> str:
    return f"{fmean(episode.finished for episode in episodes):.0%}" if episodes else "-"


def _evaluation(tallies: Sequence[Tally]) -> str:
    episodes = [episode for tally in newest_evaluation(tallies) for episode in tally.evaluation]
    if not episodes:
        return "-"
    if len(episodes) > 1:
        return f"{sum(episode.finished for episode in episodes)} of {len(episodes)} finished"
    (episode,) = episodes
    progress, times, _, _ = race_of(episode)
    return f"finished in {sum(times):.1f} s" if episode.finished else f"{progress:.1f} laps"


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value < float("inf") else "-"
