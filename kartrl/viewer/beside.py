"""Policies in the same environment, side by side, frame by frame."""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pygame
from rich.console import Console

from kartrl.console.libretro import Image
from kartrl.driving.driver import Driver, open_driver
from kartrl.envs.seeds import keep_generators, restore_generators
from kartrl.errors import UserError
from kartrl.viewer.podium import COLOURS, Result, shortened
from kartrl.viewer.show import Show, rate_of
from kartrl.viewer.window import CARD, GREY, WHITE, Canvas, inside

FILM_FPS = 30  # at most
FOOT = 12  # height of the line below each picture, console pixels


class Lane:
    """A policy's episode, with the global random generators as if it were alone in this process.

    Args:
        seconds: of play, after which the episode is cut.
    """

    def __init__(self, driver: Driver, name: str, greedy: bool, seconds: float) -> None:
        self.name = name
        self.show = Show(driver, driver.path, None, greedy, 0, lambda _: None)
        self._seconds = seconds

    def begin(self, place: int, seed: int) -> None:
        """Begin an episode on a level, by its place."""
        self.show.begin(place, seed)
        self._ticks, self._generators = 0, keep_generators()

    @property
    def over(self) -> bool:
        """Whether it has ended, or was cut."""
        return self.show.episode is not None or self._ticks >= self._seconds * self.show.rate

    def advance(self, seconds: float) -> None:
        """Advance until so many seconds of play, or its end."""
        restore_generators(self._generators)
        while not self.over and self._ticks + 1 <= seconds * self.show.rate + 1e-6:
            self.show.tick()
            self._ticks += 1
        self._generators = keep_generators()

    @property
    def total(self) -> float:
        """The return so far."""
        return self.show.moments[-1].total

    @property
    def steps(self) -> int:
        """Agent steps so far."""
        return len(self.show.moments) - 1


class BesideContest:
    """A `Contest` of episodes that several policies play at the same time; see `open_beside`."""

    has_camera = False
    headings = ("return", "agent steps", "ended")

    def __init__(self, drivers: Sequence[Driver], names: Sequence[str]) -> None:
        self.names = names
        self._drivers = drivers

    def prepare(self, greedy: bool, device: str, seed: int, seconds: float, tell: Callable[[str], None]) -> None:
        self._lanes = [
            Lane(driver, name, greedy, seconds) for driver, name in zip(self._drivers, self.names, strict=True)
        ]
        self._seed, self._tell = seed, tell

    @property
    def levels(self) -> list[str]:
        world = self._drivers[0].world
        return [world.name_level(level) for level in self._drivers[0].levels] or [world.config.environment.id]

    @property
    def fps(self) -> float:
        rates = [rate_of(driver) for driver in self._drivers]
        return max(rates) / max(1, round(max(rates) / FILM_FPS))

    def frames(self, place: int, canvas: Canvas | None, camera: int | None) -> Iterator[Image | None]:
        for lane in self._lanes:
            lane.begin(place, self._seed)
        frame = 0
        while True:
            self._tell(f"{self.levels[place]}, {frame / self.fps:.0f} s")
            if canvas is not None:
                _draw(canvas, self.levels[place], self._lanes)
            yield None if canvas is None else canvas.pixels()
            if all(lane.over for lane in self._lanes):
                return
            frame += 1
            for lane in self._lanes:
                lane.advance(frame / self.fps)

    @property
    def pictures(self) -> list[Image]:
        return [lane.show.picture for lane in self._lanes]

    def results(self) -> list[Result]:
        return [
            Result(number, lane.name, (-lane.total,), f"return {lane.total:,.1f}")
            for number, lane in enumerate(self._lanes)
        ]

    def cells(self, number: int) -> list[str]:
        lane = self._lanes[number]
        return [f"{lane.total:,.2f}", f"{lane.steps:,}", "yes" if lane.show.episode else "no"]

    def fields(self, number: int) -> dict[str, object]:
        lane = self._lanes[number]
        return {"return": lane.total, "length": lane.steps, "ended": lane.show.episode is not None}


@contextlib.contextmanager
def open_beside(
    paths: Sequence[Path], names: Sequence[str], levels: Sequence[str], device: str, console: Console
) -> Iterator[BesideContest]:
    """Context manager: policies of the same environment, each in its own.

    Args:
        levels: as a user names them; empty if there are none.

    Raises:
        UserError: see `open_driver`; or a process can have one environment alone.
    """
    with contextlib.ExitStack() as stack:
        drivers = []
        for path in paths:
            driver = stack.enter_context(open_driver(path, levels, device, True, console))
            if 0 < driver.most_envs < len(paths):
                raise UserError(f"{driver.world.config.environment.id}: a process can have {driver.most_envs} at most")
            drivers.append(driver)
        yield BesideContest(drivers, names)


def _draw(canvas: Canvas, title: str, lanes: Sequence[Lane]) -> None:
    canvas.begin()
    u, whole = canvas.scale, canvas.whole
    canvas.text(title, 8, GREY, whole.centerx, whole.top + 3 * u, "middle")
    columns = math.ceil(math.sqrt(len(lanes)))
    rows = math.ceil(len(lanes) / columns)
    width, height = whole.width // columns, (whole.height - 12 * u) // rows
    for number, lane in enumerate(lanes):
        row, column = divmod(number, columns)
        place = pygame.Rect(whole.left + column * width, whole.top + 12 * u + row * height, width, height)
        place = place.inflate(-4 * u, -4 * u)
        above = pygame.Rect(place.left, place.top, place.width, place.height - FOOT * u)
        canvas.image(lane.show.picture, inside(above, lane.show.picture))
        foot = pygame.Rect(place.left, place.bottom - FOOT * u + 1 * u, place.width, (FOOT - 1) * u)
        canvas.box(foot, CARD, border=COLOURS[number])
        canvas.text(shortened(lane.name), 7, WHITE, foot.left + 4 * u, foot.top + 3 * u)
        ended = ", ended" if lane.over else ""
        canvas.text(f"{lane.total:,.1f}{ended}", 7, WHITE, foot.right - 4 * u, foot.top + 3 * u, "right")
