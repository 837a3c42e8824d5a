"""Players in the same environment, side by side, frame by frame."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import pygame

from kartrl.console.libretro import Image
from kartrl.driving.driver import Driver
from kartrl.envs.seeds import keep_generators, restore_generators
from kartrl.viewer.podium import COLOURS, Result, shortened
from kartrl.viewer.rival import PolicyRival
from kartrl.viewer.show import rate_of
from kartrl.viewer.window import CARD, GREY, WHITE, Canvas, inside

FILM_FPS = 30  # at most
FOOT = 12  # height of the line below each picture, console pixels


class Player(Protocol):
    """Who plays an episode at a time, in an environment of its own."""

    @property
    def total(self) -> float:
        """Its return so far."""

    @property
    def steps(self) -> int:
        """Its steps so far."""

    @property
    def picture(self) -> Image:
        """Its screen, uint8 [H, W, 3]."""

    @property
    def ended(self) -> bool:
        """Whether its episode has."""

    @property
    def over(self) -> bool:
        """Whether it plays no more."""

    def begin(self, level: str, seed: int) -> None:
        """Begin an episode on a level; "" if there are none."""

    def tick(self) -> None:
        """Advance by a frame, until it is over."""


class Racer(NamedTuple):
    """Who takes part."""

    name: str
    rate: float  # frames per second of play
    make: Callable[[bool], Player]  # of whether a policy acts greedily


class Lane:
    """A player's episode, with the global random generators as if it were alone in this process.

    Args:
        seconds: of play, after which the episode is cut.
    """

    def __init__(self, racer: Racer, greedy: bool, seconds: float) -> None:
        self.name, self.player = racer.name, racer.make(greedy)
        self._rate, self._seconds = racer.rate, seconds

    def begin(self, level: str, seed: int) -> None:
        """Begin an episode."""
        self.player.begin(level, seed)
        self._ticks, self._generators = 0, keep_generators()

    @property
    def over(self) -> bool:
        """Whether it has ended, or was cut."""
        return self.player.over or self._ticks >= self._seconds * self._rate

    def advance(self, seconds: float) -> None:
        """Advance until so many seconds of play, or its end."""
        restore_generators(self._generators)
        while not self.over and self._ticks + 1 <= seconds * self._rate + 1e-6:
            self.player.tick()
            self._ticks += 1
        self._generators = keep_generators()


class BesideContest:
    """A `Contest` of episodes that are played at the same time.

    Args:
        levels: their keys and names; the key is "" if there are none.
    """

    has_camera = False
    headings = ("return", "agent steps", "ended")

    def __init__(self, racers: Sequence[Racer], levels: Mapping[str, str]) -> None:
        self.names = [racer.name for racer in racers]
        self._racers, self._keys, self.levels = racers, [*levels], [*levels.values()]
        fastest = max(racer.rate for racer in racers)
        self.fps = fastest / max(1, round(fastest / FILM_FPS))

    def prepare(self, greedy: bool, device: str, seed: int, seconds: float, tell: Callable[[str], None]) -> None:
        self._lanes = [Lane(racer, greedy, seconds) for racer in self._racers]
        self._seed, self._tell = seed, tell

    def frames(self, place: int, canvas: Canvas | None, camera: int | None) -> Iterator[Image | None]:
        for lane in self._lanes:
            lane.begin(self._keys[place], self._seed)
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
        return [lane.player.picture for lane in self._lanes]

    def results(self) -> list[Result]:
        return [
            Result(number, lane.name, (-lane.player.total,), f"return {lane.player.total:,.1f}")
            for number, lane in enumerate(self._lanes)
        ]

    def cells(self, number: int) -> list[str]:
        player = self._lanes[number].player
        return [f"{player.total:,.2f}", f"{player.steps:,}", "yes" if player.ended else "no"]

    def fields(self, number: int) -> dict[str, object]:
        player = self._lanes[number].player
        return {"return": player.total, "length": player.steps, "ended": player.ended}


def racer_of(driver: Driver, name: str) -> Racer:
    """A policy; its environment must render."""
    return Racer(name, rate_of(driver), partial(PolicyRival, driver))


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
        canvas.image(lane.player.picture, inside(above, lane.player.picture))
        foot = pygame.Rect(place.left, place.bottom - FOOT * u + 1 * u, place.width, (FOOT - 1) * u)
        canvas.box(foot, CARD, border=COLOURS[number])
        canvas.text(shortened(lane.name), 7, WHITE, foot.left + 4 * u, foot.top + 3 * u)
        ended = ", ended" if lane.over else ""
        canvas.text(f"{lane.player.total:,.1f}{ended}", 7, WHITE, foot.right - 4 * u, foot.top + 3 * u, "right")
