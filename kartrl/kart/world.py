"""The kart race as a world: levels are circuits, laps are measured, and driven lines are drawn on maps.

Modules that only some processes need are imported in the methods: agents and the logger stay small.
"""

from __future__ import annotations

import glob
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from kartrl.config import Config, Levels, View
from kartrl.envs.episode import Drive, Episode, Tally, newest_evaluation
from kartrl.envs.world import MANY, Env, World
from kartrl.errors import UserError
from kartrl.files import user_path
from kartrl.kart.game import KMH, USUAL
from kartrl.kart.levels import (
    circuit_name,
    circuits_for,
    generated,
    group_of,
    is_generated,
    is_path,
    single_keys,
    without_paths,
)
from kartrl.kart.settings import Kart, sections_of

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console

MOST_BUILT = 1000  # circuits that a checkpoint may cause to be generated without the user asking for them
MOST_NAMED = 200  # own circuits whose digests are kept one by one
SIDES = {"LEFT": "RIGHT", "RIGHT": "LEFT"}
NONE_TO_TRAIN = (
    "[levels]: no circuit to train on; set at least one, as in --set levels.MarioCircuit.Act1=train "
    "(those for a policy: -s)"
)


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


class KartWorld(World):
    """`kartrl/Kart-v0`; `World` documents the methods."""

    level_word: ClassVar = "circuit"
    columns: ClassVar = ("last evaluation", "races finished", "best lap", "laps driven", "return")
    summary_columns: ClassVar = ("races finished", "mean lap", "best lap", "mean return", "laps driven", "title")
    highlights: ClassVar = ("finished", "won", "progress", "best_lap")
    steady_reward: ClassVar = True
    picture_word: ClassVar = "driven line"
    training_keys: ClassVar = World.training_keys | {"kart.random_start", "kart.circuit_sampling"}
    seen_keys: ClassVar = frozenset({"kart.crop_top", "kart.crop_bottom"})
    action_keys: ClassVar = ("kart.actions",)

    @property
    def kart(self) -> Kart:
        """The section [kart]."""
        return sections_of(self.config).kart

    # Environments

    @property
    def independent(self) -> bool:
        """See `World`."""
        return self.config.environment.wrapper == "none"

    def make_env(self, levels: Sequence[str], training: bool, render: bool) -> Env:
        """See `World.open_env`."""
        from kartrl.kart.env import make_kart

        levels = tuple(levels) or self.levels("train")
        if not levels:
            raise UserError(NONE_TO_TRAIN)
        return make_kart(self.config, levels, training, render)

    def training_envs(self, size: int) -> list[Env]:
        """See `World`; they share the counts of steps on each circuit."""
        envs = super().training_envs(size)
        for env in envs:
            env.unwrapped.steps = envs[0].unwrapped.steps  # type: ignore[attr-defined]
        return envs

    def isolate(self, env: Env) -> None:
        env.unwrapped.isolate()  # type: ignore[attr-defined]

    def check(self) -> None:
        if not self.levels("train"):
            raise UserError(NONE_TO_TRAIN)
        env = self.open_env(self.all_levels())
        self.isolate(env)
        try:
            for circuit in self.all_levels():  # a start state may be damaged, or from another build of the ROM
                env.reset(options=self.reset_options(circuit))
        finally:
            env.close()

    @property
    def usual_view(self) -> View:
        """See `World`."""
        return USUAL

    @property
    def frames_per_step(self) -> int:
        return self.config.environment.view(USUAL).frame_skip

    def has_effect(self, key: str, images: bool) -> bool:
        """See `World`: neither keyword arguments nor Atari's keys, and an observation has no parts."""
        return not key.startswith("kwargs.") and key not in ("noop_max", "life_loss_ends", "observation_parts")

    def mirrored_actions(self) -> tuple[int, ...]:
        """See `World`: left for right; () if an action has no counterpart, or a wrapper may have changed them."""
        sets = [frozenset(action.upper().split("+")) for action in self.kart.actions]
        swapped = [frozenset(SIDES.get(button, button) for button in buttons) for buttons in sets]
        if self.config.environment.wrapper != "none" or len(set(sets)) < len(sets) or {*sets} != {*swapped}:
            return ()
        return tuple(map(sets.index, swapped))

    def action_names(self, env: Env) -> tuple[str, ...]:
        return self.kart.actions

    # Levels

    def prepare(self, console: Console | None = None) -> Config:
        """See `World`: resolves the keys of [levels], and builds missing circuits."""
        from kartrl.kart.selection import with_circuits

        return with_circuits(self.config, console)

    def prepare_one(self) -> Config:
        """See `World`."""
        from kartrl.kart.selection import with_one_circuit

        return with_one_circuit(self.config)

    def levels(self, use: str) -> tuple[str, ...]:
        """Names of circuits, or absolute paths of start states."""
        return circuits_for(self.config.levels, use)

    def contents(self) -> dict[str, str]:
        """See `World`; of many circuits, one digest."""
        files = {circuit_name(circuit): Path(circuit) for circuit in self.all_levels() if is_path(circuit)}
        own = {name: _digest(file.read_bytes()) for name, file in sorted(files.items()) if not is_generated(name)}
        return own if len(own) <= MOST_NAMED else {f"{len(own)} circuits": _digest(repr(own).encode())}

    def level_keys(self) -> list[str]:
        """See `World`."""
        return single_keys(self.config.levels)

    def count_levels(self, use: str) -> int:
        """See `World`; 0 before they have been looked up."""
        return len(self.levels(use)) if self.config.levels.found is not None else 0

    def openable(self, own: bool) -> tuple[Config, list[str]]:
        """See `World`: paths are opened only for the user's own runs."""
        uses = self.config.levels.uses
        if not own and (number := generated(uses)) > MOST_BUILT:
            raise UserError(f"[levels] has {number:,} generated circuits; choose some with -s")
        paths = [key for key, use in uses.items() if is_path(key) and use != "none"]
        left = [key for key in paths if not own or (not glob.glob(str(user_path(key))) and not user_path(key).exists())]
        levels = Levels(uses={key: use for key, use in uses.items() if key not in left})
        return self.config.replaced(levels=levels), left

    def impersonal(self) -> Config:
        """See `World`."""
        from kartrl.kart.game_files import resolve_game

        kart = self.kart.model_copy(update={"game": resolve_game(self.kart.game)})
        return self.config.replaced(kart=kart, levels=without_paths(self.config.levels))

    def find_levels(self, keys: Sequence[str], console: Console | None = None) -> tuple[str, ...]:
        """See `World`; `keys` have the forms of keys of [levels]."""
        from kartrl.kart.selection import circuits_of

        return circuits_of(keys, self.kart.game, console)

    def find_uses(self, names: Sequence[str]) -> dict[str, str]:
        from kartrl.kart.selection import uses_by_name

        return {**uses_by_name(self.config.levels.uses, names)}

    def reset_options(self, level: str) -> dict[str, Any]:
        return {"circuit": level}

    def name_level(self, level: str) -> str:
        return circuit_name(level)

    def group_of(self, name: str) -> str:
        """See `World`: circuits of the same kind."""
        return group_of(name)

    # Episodes

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

    # Pictures

    def trace(self, info: dict[str, Any]) -> tuple[float, ...]:
        """Position on the map (x grows east, y south) and speed, km/h."""
        return info["x"], info["y"], info["speed"] * KMH

    def lap(self, info: dict[str, Any]) -> int:
        return int(info["lap"])

    def map(self, level: str) -> np.ndarray | None:
        from kartrl.kart.circuit_map import circuit_map
        from kartrl.kart.game_files import game_folder

        return circuit_map(game_folder(self.kart.game), level)

    def draw(self, level: str, drives: Sequence[Drive], title: str, inches: float = 8.0) -> np.ndarray:
        """See `World`: the driven lines on the circuit's map, and the lap times of the best drive."""
        from kartrl.kart.circuit_map import circuit_block
        from kartrl.kart.circuits.driven_line import Line, driven_lines
        from kartrl.kart.game_files import game_folder

        best = min((drive.episode for drive in drives), key=_rank)
        lines = []
        for drive in drives:
            x, y, speed = drive.trace.T
            lines.append(Line(x, y, speed, drive.episode.finished))
        block = circuit_block(game_folder(self.kart.game), level)
        corner = "" if block is None else block.title.title()
        return driven_lines(self.map(level), lines, f"{title}\n{self.tell_episode(best)}", inches, corner)


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=8).hexdigest()


def race_of(episode: Episode) -> Race:
    """The details of an episode of the kart."""
    race: Race = episode.details
    return race


def _rank(episode: Episode) -> tuple[float, float]:
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
