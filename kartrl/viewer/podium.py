"""Races of any kind: who came first, places and points, and their pictures for films."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

import pygame

from kartrl.console.libretro import Image
from kartrl.viewer.window import BACK, BLUE, CARD, GOLD, GREEN, GREY, LINE, RED, WHITE, Canvas, Colour, inside

COLOURS: Sequence[Colour] = (GREEN, BLUE, (208, 132, 255), (255, 166, 72), WHITE, RED, GOLD, (255, 140, 200))
"""Of the competitors: the first five are those of the kart's ghosts."""
POINTS = (10, 8, 6, 5, 4, 3, 2, 1)  # of a race, by place
MEDALS: Sequence[Colour] = (GOLD, (196, 202, 214), (205, 140, 80))
COLUMNS, HEIGHTS = (1, 0, 2), (76, 54, 36)  # of the podium's steps: places from the left; console pixels, by place
MOST_LETTERS = 20  # of a name


class Result(NamedTuple):
    """What a competitor has reached, in a race or in all of them."""

    number: int  # the competitor's, from 0
    name: str
    order: tuple[float, ...]  # to sort by: the best is the smallest
    text: str  # such as a time


class Contest(Protocol):
    """Races between the same competitors, one on each level."""

    @property
    def names(self) -> Sequence[str]:
        """The competitors'."""

    @property
    def has_camera(self) -> bool:
        """Whether the film shows one's view; else all are seen."""

    @property
    def headings(self) -> Sequence[str]:
        """Of `cells`."""

    @property
    def levels(self) -> Sequence[str]:
        """Short names of the levels."""

    @property
    def fps(self) -> float:
        """Frames of the film per second."""

    @property
    def pictures(self) -> Sequence[Image]:
        """The last picture of each competitor in the newest race that was filmed."""

    def prepare(self, greedy: bool, device: str, seed: int, seconds: float, tell: Callable[[str], None]) -> None:
        """Do what comes before the first race.

        Args:
            seconds: of play, after which a race ends.
            tell: called with what is being done, now and then.
        """

    def frames(self, place: int, canvas: Canvas | None, camera: int | None) -> Iterator[Image | None]:
        """Race on a level, by its place; gives the frames of its film, uint8 [H, W, 3].

        Args:
            canvas: to draw on; None: there is no film, and each frame, if there are any, is None.
            camera: whose view it is; None: the leader's.
        """

    def results(self) -> list[Result]:
        """Of the newest race, in the order of `names`."""

    def cells(self, number: int) -> list[str]:
        """A competitor's row of a table of the newest race."""

    def fields(self, number: int) -> dict[str, object]:
        """A competitor's part of the newest race, for JSON."""


def places_of(results: Sequence[Result]) -> list[int]:
    """The place of each, from 1; equal ones share a place."""
    return [1 + sum(other.order < result.order for other in results) for result in results]


def points_of(results: Sequence[Result]) -> list[int]:
    """The points of each in a race."""
    return [POINTS[place - 1] for place in places_of(results)]


def shortened(name: str, most: int = MOST_LETTERS) -> str:
    """A name of at most so many letters."""
    return name if len(name) <= most else f"{name[: most - 3]}..."


def draw_plate(canvas: Canvas, name: str, number: int, x: float, bottom: float, size: float = 6.5) -> None:
    """Draw a competitor's name plate, its middle at `x`, kept within the picture's width."""
    u, text = canvas.scale, shortened(name, 14)
    half = (len(text) * size * 0.23 + 5) * u
    x = min(max(x, canvas.whole.left + half), canvas.whole.right - half)
    place = pygame.Rect(round(x - half), round(bottom - 9 * u), round(2 * half), 9 * u)
    canvas.box(place, BACK, 0.7, COLOURS[number])
    canvas.text(text, size, WHITE, x, place.top + 2 * u, "middle")


def draw_standing(canvas: Canvas, rows: Sequence[tuple[int, str, str]], place: pygame.Rect) -> None:
    """Draw a row for each competitor in a box: its place in it, dot, name, and a text at the right.

    Args:
        rows: number, name, text.
    """
    u = canvas.scale
    step = min(11 * u, place.height // max(1, len(rows)))
    canvas.box(pygame.Rect(place.left, place.top, place.width, step * len(rows) + 4 * u), CARD)
    for row, (number, name, text) in enumerate(rows):
        y = place.top + 4 * u + row * step
        canvas.text(f"{row + 1}", 6.5, GREY, place.left + 3 * u, y)
        canvas.dot(place.left + 13 * u, y + 2.5 * u, 2.4, COLOURS[number])
        canvas.text(shortened(name, 14), 6.5, WHITE, place.left + 18 * u, y)
        canvas.text(text, 6.5, GREY, place.right - 3 * u, y, "right")


def draw_points(canvas: Canvas, title: str, results: Sequence[Result]) -> None:
    """Draw how all stand, the best first."""
    canvas.begin()
    u, whole = canvas.scale, canvas.whole
    canvas.text(title, 15, WHITE, whole.centerx, whole.top + 24 * u, "middle")
    rows = [(each.number, each.name, each.text) for each in sorted(results, key=lambda each: each.order)]
    draw_standing(canvas, rows, pygame.Rect(whole.centerx - 80 * u, whole.top + 60 * u, 160 * u, 140 * u))


def draw_podium(canvas: Canvas, title: str, results: Sequence[Result], pictures: Sequence[Image]) -> None:
    """Draw the best three on a podium with their last pictures, and the others below.

    Args:
        results: with `number` as index of `pictures`.
    """
    canvas.begin()
    u, whole = canvas.scale, canvas.whole
    canvas.text(title, 15, WHITE, whole.centerx, whole.top + 8 * u, "middle")
    placed = sorted(zip(places_of(results), results, strict=True), key=lambda pair: (pair[0], pair[1].number))
    ground, width = whole.top + 178 * u, 100 * u
    for (place, result), column in zip(placed, COLUMNS, strict=False):
        height = HEIGHTS[place - 1]
        left = whole.centerx - 3 * width // 2 + column * width
        block = pygame.Rect(left + 2 * u, ground - height * u, width - 4 * u, height * u)
        medal = MEDALS[place - 1]
        canvas.box(block, CARD, border=LINE)
        canvas.text(f"{place}", 22, medal, block.centerx, block.top + 4 * u, "middle")
        canvas.text(result.text, 8, WHITE, block.centerx, block.bottom - 9 * u, "middle")
        seen = inside(pygame.Rect(0, 0, 72 * u, 54 * u), pictures[result.number])
        seen.move_ip(block.centerx - seen.centerx, block.top - 14 * u - seen.bottom)
        canvas.box(seen.inflate(2 * u, 2 * u), COLOURS[result.number])
        canvas.image(pictures[result.number], seen)
        canvas.text(shortened(result.name), 8.5, WHITE, block.centerx, block.top - 10 * u, "middle")
    for row, (place, result) in enumerate(placed[len(COLUMNS) :]):
        text = f"{place}   {shortened(result.name)}   {result.text}"
        canvas.text(text, 7, GREY, whole.centerx, ground + (5 + 8 * row) * u, "middle")
