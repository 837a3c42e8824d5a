"""Races on circuits: who drives, and what came of it."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from kartrl.config import Config
from kartrl.console.libretro import Image
from kartrl.console.movie import Movie, read_movie
from kartrl.driving.driver import open_driver
from kartrl.errors import UserError
from kartrl.kart.built_circuits import is_foreign
from kartrl.kart.console import KartConsole
from kartrl.kart.game import TICKS_PER_SECOND
from kartrl.kart.game_files import game_folder
from kartrl.kart.levels import circuit_name
from kartrl.kart.race import film
from kartrl.kart.race.drives import (
    Grid,
    Recording,
    check_movie,
    drive_inputs,
    drive_policy,
    open_grid,
    script,
)
from kartrl.kart.selection import circuits_of
from kartrl.kart.settings import sections_of
from kartrl.viewer.podium import Result
from kartrl.viewer.window import Canvas


class Competitor(NamedTuple):
    """Who drives."""

    name: str
    policy: Path | None = None  # a checkpoint
    movies: tuple[Path, ...] = ()  # recorded drives, of circuits of their own; neither: the scripted driver

    @property
    def source(self) -> str:
        """The file that drives, or the folder of several; "scripted" for the scripted driver."""
        if len(self.movies) > 1:
            return str(self.movies[0].parent)
        return str(self.policy or next(iter(self.movies), "scripted"))


class KartContest:
    """A `Contest` on circuits; see `open_races`.

    Args:
        consoles: one for each competitor.
        circuits: names, or paths of start states.
    """

    has_camera = True
    fps = film.FPS
    headings = ("time", "gap", "best lap", "laps")

    def __init__(
        self, competitors: Sequence[Competitor], consoles: Sequence[KartConsole], circuits: Sequence[str]
    ) -> None:
        self.names = [competitor.name for competitor in competitors]
        self.levels = [circuit_name(circuit) for circuit in circuits]
        self._competitors, self._consoles = competitors, consoles
        self._grids = [open_grid(consoles[0], circuit) for circuit in circuits]
        self._driven: dict[tuple[int, int], Recording] = {}  # by place of the circuit, and of the competitor
        self._movies = [[self._movie(one, grid) for grid in self._grids] if one.movies else [] for one in competitors]
        self.pictures: Sequence[Image] = ()

    def _movie(self, one: Competitor, grid: Grid) -> Movie:
        """A competitor's recorded drive on a circuit; of a single one, see `check_movie`."""
        found = [(file, read_movie(file)) for file in one.movies]
        if len(found) > 1:
            found = [(file, movie) for file, movie in found if movie.circuit == grid.name]
        if len(found) != 1:
            files = " and ".join(str(file) for file, _ in found)
            what = f"{files} are of {grid.name}; name one" if files else f"none is of {grid.name}"
            raise UserError(f"{one.movies[0].parent}: of its recorded drives, {what}")
        (file, movie), *_ = found
        check_movie(self._consoles[0], grid, file, movie)
        return movie

    def prepare(self, greedy: bool, device: str, seed: int, seconds: float, tell: Callable[[str], None]) -> None:
        """Drive everything; see `Contest`."""
        limit = round(seconds * TICKS_PER_SECOND)
        drivers = zip(self._competitors, self._consoles, self._movies, strict=True)
        for number, (one, console, movies) in enumerate(drivers):
            with contextlib.ExitStack() as stack:
                if one.policy is not None:
                    circuits = [grid.circuit for grid in self._grids]
                    alone = ["kart.opponents=0"]  # they would not be those of the others' races
                    driver = stack.enter_context(open_driver(one.policy, circuits, device, overrides=alone))
                for place, grid in enumerate(self._grids):
                    step = partial(tell, f"{self.names[number]} drives on {grid.name}")
                    if one.policy is not None:
                        driven = drive_policy(driver, console, grid, greedy, seed, limit, step)
                    elif movies:
                        movie = movies[place]
                        driven = drive_inputs(console, grid, movie.state, movie.inputs, limit, step)
                    else:
                        driven = drive_inputs(console, grid, grid.state, script(console), limit, step)
                    self._driven[place, number] = driven

    def frames(self, place: int, canvas: Canvas | None, camera: int | None) -> Iterator[Image | None]:
        self._newest = [self._driven[place, number] for number in range(len(self._competitors))]
        if canvas is not None:
            shown = film.RaceFilm(self._grids[place], self._consoles, self._newest, self.names, camera)
            yield from shown.frames(canvas)
            self.pictures = shown.pictures()

    def results(self) -> list[Result]:
        return film.results(self._newest, self.names)

    def cells(self, number: int) -> list[str]:
        recordings, own = self._newest, self._newest[number]
        laps = len(own.lap_times)
        behind = film.final_gap(recordings, number)
        return [
            self.results()[number].text,
            "-" if behind is None else f"{behind:+.2f}" if behind else "",
            f"{min(own.lap_times):.2f}" if laps else "-",
            "  ".join(f"{time:.2f}" for time in own.lap_times) or "-",
        ]

    def fields(self, number: int) -> dict[str, object]:
        return film.as_fields(self._newest, number)


@contextlib.contextmanager
def open_races(
    competitors: Sequence[Competitor], configs: Sequence[Config], keys: Sequence[str], console: Console
) -> Iterator[KartContest]:
    """Context manager: races on circuits.

    Args:
        configs: of the policies, whose game must be the same.
        keys: the circuits, as in [levels].

    Raises:
        UserError: a competitor cannot drive on one of them, or there is no such circuit.
    """
    policies = [one.policy for one in competitors if one.policy is not None]
    folders = [game_folder(sections_of(config).kart.game) for config in configs] or [game_folder("auto")]
    for policy, folder in zip(policies, folders, strict=False):
        if folder != folders[0]:
            raise UserError(f"{policy}: trained on {folder.name}, not on {folders[0].name} as {policies[0]}")
    circuits = circuits_of(keys, sections_of(configs[0]).kart.game if configs else "auto", console)
    foreign = any(is_foreign(folders[0], circuit) for circuit in circuits)
    isolated = foreign or any(one.movies for one in competitors)
    with contextlib.ExitStack() as stack:
        consoles = []
        for _ in competitors:
            consoles.append(KartConsole(folders[0], isolated=isolated))
            stack.callback(consoles[-1].close)
        yield KartContest(competitors, consoles, circuits)
