"""The flow of `kartrl race`: the races, their film, and what is printed."""

import argparse
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.box import HEAVY_HEAD
from rich.console import Console

from kartrl.commands.race.entries import open_contest
from kartrl.commands.shared.progress import Progress
from kartrl.commands.shared.results import console_for, print_results
from kartrl.errors import UserError
from kartrl.files import ANOTHER, explained, output_file, safe_name, unused_file
from kartrl.metrics.tables import Line, fitted, say
from kartrl.metrics.video import Mp4Writer, png
from kartrl.viewer.podium import Contest, Result, draw_podium, draw_points, places_of, points_of
from kartrl.viewer.window import Canvas

POINTS_SECONDS, PODIUM_SECONDS = 3.0, 5.0  # for which the points after a race, and the podium, are shown


Choices = tuple[bool, str, int, float]  # greedy, device, seed, seconds


class Ended(NamedTuple):
    """A race that has ended; a value for each competitor."""

    level: str
    results: list[Result]
    points: list[int]
    cells: list[list[str]]  # of the table
    fields: list[dict[str, object]]  # for JSON


def race(options: argparse.Namespace) -> None:
    """Race, and print the results.

    Raises:
        UserError: see `open_contest`; or the film cannot be written.
    """
    console = console_for(options)
    with open_contest(options.competitors, options.state, options.device, console) as (contest, about):
        choices = options.greedy, options.device, options.seed, options.seconds
        camera = _camera(options.camera, contest)
        if options.film:
            name = contest.levels[0] if len(contest.levels) == 1 else "grand-prix"
            wanted = output_file(options.output, f"race-{safe_name(name)}", ".mp4")
            video, ended = _film(contest, wanted, choices, camera, console)
        else:
            video = None
            with Progress(console, None) as progress:
                contest.prepare(*choices, progress.tell)
                ended = _race(contest, None, lambda _: None, camera)
        standing = _standing(ended)
        for one in ended:
            _print(one.level, contest.headings, one, console)
        if len(ended) > 1:
            total = Ended("grand prix", standing, _totals(ended), [[] for _ in standing], [])
            _print(total.level, [], total, console)
    if video is not None:
        say(console, f"Video: {video}\nPodium: {video.with_suffix('.png')}")
    races = [{"level": one.level, "results": _rows(one)} for one in ended]
    rows = ({"level": one.level, **row} for one in ended for row in _rows(one))
    points = _ranked(standing, _totals(ended))
    print_results(options, rows, competitors=about, races=races, standing=points, film=video and str(video))


def _film(
    contest: Contest, wanted: Path, choices: Choices, camera: int | None, console: Console
) -> tuple[Path, list[Ended]]:
    """Race and film; returns the film. After an exception, such as Ctrl-C, none is left."""
    with explained(wanted, "write", ANOTHER), closing(Canvas()) as canvas, unused_file(wanted, ".png") as video:
        with Progress(console, None) as progress, Mp4Writer(video, contest.fps) as mp4:
            contest.prepare(*choices, progress.tell)

            def add(frame: np.ndarray) -> None:
                progress.tell(f"filming, {mp4.frames / contest.fps:.0f} s")
                mp4.add(frame)

            ended = _race(contest, canvas, add, camera)
            title = ended[0].level if len(ended) == 1 else "Grand prix"
            draw_podium(canvas, title, _standing(ended), contest.pictures)
            for _ in range(round(PODIUM_SECONDS * contest.fps)):
                add(canvas.pixels())
        video.with_suffix(".png").write_bytes(png(canvas.pixels()))
        return video, ended


def _race(
    contest: Contest, canvas: Canvas | None, add: Callable[[np.ndarray], None], camera: int | None
) -> list[Ended]:
    """All races, one after another; with a canvas, `add` is called with each frame of the film."""
    ended, everyone = list[Ended](), range(len(contest.names))
    for place, level in enumerate(contest.levels):
        for frame in contest.frames(place, canvas, camera):
            if frame is not None:
                add(frame)
        results = contest.results()
        cells, fields = [*map(contest.cells, everyone)], [*map(contest.fields, everyone)]
        ended.append(Ended(level, results, points_of(results), cells, fields))
        if canvas is not None and len(contest.levels) > 1:
            draw_points(canvas, f"After {level}", _standing(ended))
            for _ in range(round(POINTS_SECONDS * contest.fps)):
                add(canvas.pixels())
    return ended


def _totals(ended: Sequence[Ended]) -> list[int]:
    """The points of each in all races."""
    return [sum(points) for points in zip(*(one.points for one in ended), strict=True)]


def _standing(ended: Sequence[Ended]) -> list[Result]:
    """The results of a single race, else the points of all."""
    if len(ended) == 1:
        return ended[0].results
    pairs = zip(ended[0].results, _totals(ended), strict=True)
    return [Result(result.number, result.name, (-points,), f"{points} points") for result, points in pairs]


def _camera(name: str | None, contest: Contest) -> int | None:
    """The place of the competitor that --camera names; None: not named."""
    if name is None:
        return None
    if not contest.has_camera:
        raise UserError("--camera is for circuits; in other environments all are seen side by side")
    names = [*contest.names]
    if name in names:
        return names.index(name)
    if name.isascii() and name.isdecimal() and 1 <= int(name) <= len(names):
        return int(name) - 1
    raise UserError(f"--camera {name}: nobody of this name races; choose from {', '.join(names)}")


def _print(title: str, headings: Sequence[str], one: Ended, console: Console) -> None:
    """Print a table, the best first, with the points after what they are for."""
    order = sorted(zip(places_of(one.results), one.results, strict=True), key=lambda pair: pair[0])
    lines = [
        Line(f"{place}. {result.name}", [*own[:1], str(one.points[result.number]), *own[1:]], level=False)
        for place, result in order
        for own in [one.cells[result.number]]
    ]
    console.print(fitted(title, [*headings[:1], "points", *headings[1:]], [lines], console.width, HEAVY_HEAD))


def _rows(one: Ended) -> list[dict[str, Any]]:
    """The results of a race, as docs/reference/json.md describes them."""
    return [row | fields for row, fields in zip(_ranked(one.results, one.points), one.fields, strict=True)]


def _ranked(results: Sequence[Result], points: Sequence[int]) -> list[dict[str, Any]]:
    return [
        {"name": result.name, "place": place, "points": of}
        for place, result, of in zip(places_of(results), results, points, strict=True)
    ]
