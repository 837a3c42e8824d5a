"""Layouts of the window: a race with its panel, notices, messages, the menu, and the dialog for a name."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pygame

from kartrl.console.libretro import Image
from kartrl.kart.play.session import Session
from kartrl.viewer.window import BACK, BLUE, CARD, DIM, GOLD, GREEN, GREY, LINE, RED, WHITE, Canvas, inside

if TYPE_CHECKING:
    from kartrl.viewer.show import Show

Keys = Sequence[tuple[str, str]]


def clock(seconds: float) -> str:
    """Format as minutes, seconds and hundredths."""
    hundredths = round(seconds * 100)
    return f"{hundredths // 6000}:{hundredths // 100 % 60:02}.{hundredths % 100:02}"


def race(window: Canvas, session: Session, recording: bool, keys: Keys) -> None:
    """Draw the console's screen, and the panel with the lap times."""
    window.image(session.console.picture(), window.picture)
    u, panel, drive, laps = window.scale, window.panel, session.drive, session.console.game.laps
    left, right = panel.left + 6 * u, panel.right - 6 * u
    y = window.text(session.circuit or session.console.game.title, 10, WHITE, left, panel.top + 6 * u)
    against = f"{session.title}, against the clock".lstrip(", ") if session.circuit else "after power-on"
    if session.opponents:
        against = f"place {session.rank} of {session.opponents + 1}"
    elif session.ghost is not None:
        against = f"ghost: {session.ghost.name}"
    y = window.text(_shorten(against, 30), 7, DIM, left, y) + 4 * u

    window.text(f"LAP {drive.lap} of {laps}", 8, BLUE, left, y + 2 * u)
    y = window.text(clock(drive.clock), 15, WHITE, right, y - 1 * u, "right") + 1 * u
    window.box(pygame.Rect(panel.left + 4 * u, y, panel.width - 8 * u, (laps * 9 + 6) * u), CARD)
    y += 3 * u
    for lap in range(laps):
        known = lap - drive.before  # number of the lap among those since the start
        done = 0 <= known < len(drive.seconds)
        here = known == len(drive.seconds) and not drive.finished
        seconds = drive.seconds[known] if done else drive.lap_clock
        colour = GOLD if done and seconds == drive.best else WHITE if done else GREY
        window.text(f"{lap + 1}", 8, colour if done or here else DIM, left + 2 * u, y)
        window.text(
            clock(seconds) if done or here else "-:--.--", 8, colour if done or here else DIM, right - 2 * u, y, "right"
        )
        y += 9 * u
    y += 6 * u
    for name, value, colour in (("best lap", session.best, GOLD), ("total", drive.total, WHITE)):
        window.text(name, 8, GREY, left + 2 * u, y)
        y = (
            window.text(
                "-:--.--" if value is None else clock(value),
                8,
                DIM if value is None else colour,
                right - 2 * u,
                y,
                "right",
            )
            + 2 * u
        )
    if session.gap is not None and session.ghost is not None:
        gap = session.gap
        y += 2 * u
        window.box(pygame.Rect(panel.left + 4 * u, y, panel.width - 8 * u, 25 * u), CARD)
        colour = GREEN if gap < 0 else RED if gap > 0 else GREY
        window.text(
            "behind the ghost" if gap > 0 else "ahead of the ghost" if gap < 0 else "level with the ghost",
            7,
            GREY,
            left + 2 * u,
            y + 3 * u,
        )
        window.text(f"{gap:+.2f} s", 13, colour, right - 2 * u, y + 11 * u, "right")
        y += 25 * u
    _foot(window, recording, keys)


def show(window: Canvas, shown: "Show", keys: Sequence[str]) -> None:
    """Draw the frame of a show, and the panel with the policy's line on the map and its observation."""
    u, panel = window.scale, window.panel
    window.image(shown.picture, inside(window.picture, shown.picture))
    left = panel.left + 4 * u
    y = window.text(shown.title, 9, WHITE, left, panel.top + 4 * u)
    y = window.text(shown.policy, 7.5, BLUE, left, y)
    y = window.text(shown.progress, 7, DIM, left, y) + 2 * u
    place = pygame.Rect(left, y, panel.width - 8 * u, 0)
    if shown.map is not None:
        place.height = place.width
        window.image(shown.map, place)
        x, south = shown.position
        window.dot(place.left + x * place.width, place.top + south * place.height, 2.6, BACK)
        window.dot(place.left + x * place.width, place.top + south * place.height, 1.8, WHITE)
        place.top = place.bottom + 2 * u
    foot = panel.bottom - (3 + 7 * len(keys)) * u
    place.top = window.text("what the network sees", 6.5, GREY, left, place.top)
    place.height = foot - 2 * u - place.top
    if shown.seen:
        _stack(window, shown.seen, place)
    else:
        _numbers(window, shown.numbers, place)
    for key in keys:
        window.text(key, 6.5, DIM, left, foot)
        foot += 7 * u
    if shown.summary:
        notice(window, shown.summary)


def _stack(window: Canvas, images: Sequence[Image], place: pygame.Rect) -> None:
    """Draw the newest image large, and the earlier ones in a row below."""
    newest, *older = images
    row = place.width // max(4, len(older)) if older else 0
    large = inside(pygame.Rect(place.left, place.top, place.width, place.height - row), newest)
    large.top = place.top
    window.image(newest, large)
    for number, image in enumerate(older):
        cell = pygame.Rect(place.left + number * row, large.bottom + window.scale, row - window.scale, row)
        window.image(image, inside(cell, image))


def _numbers(window: Canvas, numbers: Sequence[float], place: pygame.Rect) -> None:
    """Draw as many rows of three numbers as fit."""
    u = window.scale
    room = max(1, place.height // (8 * u)) * 3
    shown = [f"{number:.2f}" for number in numbers]
    if len(shown) > room:
        shown = [*shown[: room - 1], "..."]
    for index, text in enumerate(shown):
        x = place.left + (index % 3 + 1) * place.width // 3 - 3 * u
        window.text(text, 7, WHITE, x, place.top + index // 3 * 8 * u, "right")


def _foot(window: Canvas, recording: bool, keys: Keys) -> None:
    """Draw the keys at the bottom of the panel, and above them whether the race is recorded."""
    u, panel = window.scale, window.panel
    left = panel.left + 6 * u
    y = panel.bottom - 4 * u - len(keys) * 7 * u
    top = y - 4 * u
    for key, meaning in keys:
        window.text(key, 6.5, GREY, left, y)
        window.text(meaning, 6.5, DIM, left + 34 * u, y)
        y += 7 * u
    if recording:
        top -= 8 * u
        window.dot(left + 2.5 * u, top + 2.5 * u, 2.2, RED)
        window.text("recording", 6.5, GREY, left + 8 * u, top)


def notice(window: Canvas, text: str) -> None:
    """Draw a notice at the bottom of the console's screen."""
    u, lines = window.scale, _wrap(text, 52)
    height = (8 + 9 * len(lines)) * u
    place = pygame.Rect(window.picture.left + 16 * u, window.picture.bottom - 8 * u - height, 224 * u, height)
    window.box(place, BACK, 0.9, LINE)
    for number, line in enumerate(lines):
        window.text(line, 8, GOLD, place.centerx, place.top + (5 + 9 * number) * u, "middle")


def message(window: Canvas, title: str, lines: Sequence[str]) -> None:
    """Draw a box in the middle of the console's screen."""
    u = window.scale
    place = pygame.Rect(0, 0, 200 * u, (27 + 10 * len(lines)) * u)
    place.center = window.picture.center
    place.top -= 24 * u
    window.box(place, BACK, 0.82, LINE)
    y = window.text(title, 17, WHITE, place.centerx, place.top + 7 * u, "middle") + 2 * u
    for line in lines:
        window.text(line, 8.5, GREY, place.centerx, y, "middle")
        y += 10 * u


def menu(
    window: Canvas,
    title: str,
    entries: Sequence[tuple[str, str]],
    chosen: int,
    pictures: Sequence[Image],
    status: str,
    keys: Keys,
) -> None:
    """Draw the list of circuits at the left, and images of the chosen one, uint8 [H, W, 3], at the right."""
    u, whole = window.scale, window.whole
    y = window.text(title, 14, WHITE, whole.left + 12 * u, whole.top + 10 * u)
    y = window.text(status or "choose a circuit", 8, GOLD if status else GREY, whole.left + 12 * u, y + 1 * u) + 6 * u
    row = 17 * u // 2
    room = (whole.bottom - 18 * u - y) // row
    first = max(0, min(chosen - room // 2, len(entries) - room))
    for number, (name, note) in enumerate(entries[first : first + room], first):
        if number == chosen:
            window.box(pygame.Rect(whole.left + 8 * u, y - 1 * u, 170 * u, row), LINE)
        colour = WHITE if number == chosen else GREY
        window.text(name, 8.5, colour, whole.left + 12 * u, y + 1 * u)
        window.text(note, 7, GREY if number == chosen else DIM, whole.left + 174 * u, y + 1.5 * u, "right")
        y += row
    column = pygame.Rect(whole.right - 162 * u, whole.top + 12 * u, 150 * u, 0)
    for picture in pictures:
        room = whole.bottom - 12 * u - column.bottom
        width = min(column.width, room * picture.shape[1] // picture.shape[0])
        place = pygame.Rect(column.left, column.bottom, width, width * picture.shape[0] // picture.shape[1])
        place.centerx = column.centerx
        window.box(place.inflate(4 * u, 4 * u), LINE)
        window.image(picture, place)
        column.height += place.height + 7 * u
    help_line = "     ".join(f"{key}: {meaning}" for key, meaning in keys)
    window.text(help_line, 7, DIM, whole.left + 12 * u, whole.bottom - 14 * u)


def question(window: Canvas, title: str, text: str, lines: Sequence[str]) -> None:
    """Draw a box with a text field."""
    u = window.scale
    place = pygame.Rect(0, 0, 236 * u, (42 + 9 * len(lines)) * u)
    place.center = window.picture.center
    window.box(place, BACK, 0.94, LINE)
    y = window.text(title, 12, WHITE, place.left + 8 * u, place.top + 7 * u) + 3 * u
    field = pygame.Rect(place.left + 8 * u, y, place.width - 16 * u, 13 * u)
    window.box(field, CARD, border=BLUE)
    window.text(text[-44:] + "_", 9, WHITE, field.left + 4 * u, field.top + 3.5 * u)
    y = field.bottom + 4 * u
    for line in lines:
        window.text(_shorten(line, 64), 7, GREY, place.left + 8 * u, y)
        y += 9 * u


def _shorten(text: str, width: int) -> str:
    return text if len(text) <= width else f"...{text[3 - width :]}"


def _wrap(text: str, width: int) -> list[str]:
    """Wrap the text to lines of at most `width` letters; splits long words."""
    lines = [""]
    for word in text.split():
        while len(word) > width:
            lines, word = [*lines, word[:width]], word[width:]
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return [line for line in lines if line]
