"""The film of a race: the view of one kart with the others as ghosts, their map, and their gaps."""

import bisect
from collections.abc import Iterator, Sequence

import cv2
import numpy as np
import pygame

from kartrl.console.libretro import ALL, NONE, Image
from kartrl.kart.console import MOST_OPPONENTS, KartConsole, Place
from kartrl.kart.game import TICKS_PER_SECOND
from kartrl.kart.play.views import clock
from kartrl.kart.race.drives import Grid, Recording, gap
from kartrl.viewer.podium import COLOURS, Result, draw_plate, draw_standing
from kartrl.viewer.window import BACK, BLUE, DIM, GOLD, LINE, WHITE, Canvas

EVERY = 2  # ticks for a frame of the film
FPS = TICKS_PER_SECOND / EVERY
STAYS = 90  # ticks for which another kart leads before the leader's view is its own
LAP_SHOWN = 240  # ticks for which a lap's gaps are shown
SIDE = 88  # of the map, console pixels


class RaceFilm:
    """The film of a race.

    Args:
        consoles: one for each recording.
        recordings: of all competitors.
        names: theirs.
        camera: the competitor whose view it is; None: the leader's.
    """

    def __init__(
        self,
        grid: Grid,
        consoles: Sequence[KartConsole],
        recordings: Sequence[Recording],
        names: Sequence[str],
        camera: int | None,
    ) -> None:
        self._grid, self._consoles, self._recordings = grid, consoles, recordings
        self._names, self._camera = names, camera
        consoles[0].restore(grid.state)
        block = consoles[0].block()
        self._title = "" if block is None else block.title.title()
        side = (SIDE * 3, SIDE * 3)
        self._map = (
            None if block is None else cv2.resize(block.image(), side, interpolation=cv2.INTER_AREA).astype(np.uint8)
        )

    def frames(self, canvas: Canvas) -> Iterator[Image]:
        """The frames, uint8 [H, W, 3]."""
        recordings, everyone = self._recordings, range(len(self._recordings))
        for console, recording in zip(self._consoles, recordings, strict=True):
            console.restore(recording.movie.state)
        lengths = [len(recording.places) for recording in recordings]
        shown = self._camera or 0
        since = 0
        for tick in range(1, max(lengths) + 1):
            order = sorted(everyone, key=lambda number: recordings[number].standing(tick))
            if self._camera is None:
                leader = next((number for number in order if lengths[number] >= tick), order[0])
                if leader == shown:
                    since = tick
                elif tick - since >= STAYS or lengths[shown] < tick:
                    shown, since = leader, tick
            drawn = tick % EVERY == 0 or tick == max(lengths)
            ghosts = self._ghosts(shown)
            for number in everyone:
                if tick <= lengths[number]:
                    console = self._consoles[number]
                    if number == shown and ghosts:
                        console.place_ghosts([_place(recordings[ghost], tick) for ghost in ghosts])
                    seen = tick == lengths[number] or (drawn and number == shown)
                    console.step(recordings[number].movie.inputs[tick - 1], 1, ALL if seen else NONE)
            if drawn:
                self._draw(canvas, tick, shown, ghosts, order)
                yield canvas.pixels()

    def _ghosts(self, shown: int) -> list[int]:
        """The competitors that are seen as ghosts in one's view; each has the same colour in all views, but the last.

        That one has the colour of whose view it is.
        """
        if not (self._recordings[shown].alone and self._consoles[shown].shows_ghosts):  # its own opponents are seen
            return []
        others = [*range(len(self._names))]
        last = others.pop()
        if shown != last:
            others[shown] = last
        return others[:MOST_OPPONENTS]

    def pictures(self) -> list[Image]:
        """The last picture of each competitor, above the console's own panel."""
        rows = self._consoles[0].game.ground_rows
        return [console.picture()[8 : rows[1] if rows else None] for console in self._consoles]

    def _draw(self, canvas: Canvas, tick: int, shown: int, ghosts: Sequence[int], order: Sequence[int]) -> None:
        canvas.begin()
        u, panel, console, recording = canvas.scale, canvas.panel, self._consoles[shown], self._recordings[shown]
        picture = canvas.picture
        canvas.image(console.picture(), picture)
        if console.shows_ghosts:
            for number, seen in zip(ghosts, console.seen_ghosts(len(ghosts)), strict=True):
                if seen is not None and 0 <= seen[0] <= 255:
                    draw_plate(
                        canvas, self._names[number], number, picture.left + seen[0] * u, picture.top + seen[1] * u
                    )
        draw_plate(canvas, self._names[shown], shown, picture.centerx, picture.top + 17 * u, 8)

        left, width = panel.left + 4 * u, panel.width - 8 * u
        y = canvas.text(self._grid.name, 9, WHITE, left, panel.top + 4 * u)
        y = canvas.text(self._title, 7, DIM, left, y) + 1 * u
        most = console.game.laps
        lap = min(_passed(recording.laps, tick) + 1, most)
        canvas.text(f"LAP {lap} of {most}", 7.5, BLUE, left, y + 2 * u)
        y = canvas.text(clock(tick / TICKS_PER_SECOND), 12, WHITE, left + width, y - 1 * u, "right") + 2 * u
        if self._map is not None:
            place = pygame.Rect(left, y, width, width)
            canvas.image(self._map, place)
            for number in reversed(order):
                here = _place(self._recordings[number], tick)
                x, south = place.left + here.x / 1024 * width, place.top + here.y / 1024 * width
                canvas.dot(x, south, 3.4 if number == shown else 2.8, BACK)
                canvas.dot(x, south, 2.6 if number == shown else 2.0, COLOURS[number])
            y = place.bottom + 3 * u
        rows = [(number, self._names[number], self._gap(number, tick)) for number in order]
        draw_standing(canvas, rows, pygame.Rect(left, y, width, panel.bottom - 4 * u - y))
        self._draw_lap(canvas, tick, order)

    def _gap(self, number: int, tick: int) -> str:
        """How far behind a competitor was at the gate that it passed last; its time once it has finished."""
        recording = self._recordings[number]
        ended = tick >= len(recording.places)
        if recording.finished and ended:
            return clock(len(recording.places) / TICKS_PER_SECOND)
        passed = _passed(recording.gates, tick)
        behind = gap([each.gates for each in self._recordings], number, passed - 1) if passed else 0.0
        return "out " * ended + f"{behind:+.2f}" * (behind > 0)

    def _draw_lap(self, canvas: Canvas, tick: int, order: Sequence[int]) -> None:
        """Draw the newest lap's time and gaps, for some seconds after each that completes it."""
        reached = [recording.laps for recording in self._recordings]
        lap = max(_passed(ticks, tick) for ticks in reached)
        done = [number for number in order if lap and _passed(reached[number], tick) >= lap]
        if not done or tick - max(reached[number][lap - 1] for number in done) > LAP_SHOWN:
            return
        done.sort(key=lambda number: reached[number][lap - 1])
        rows = []
        for number in done:
            behind = gap(reached, number, lap - 1)
            time = clock(self._recordings[number].lap_times[lap - 1])
            rows.append((number, self._names[number], f"{behind:+.2f}" if behind else time))
        u, picture = canvas.scale, canvas.picture
        place = pygame.Rect(picture.left + 124 * u, picture.top + 110 * u, 130 * u, 112 * u)  # beside the console's map
        canvas.box(place, BACK, 0.95, LINE)
        y = canvas.text(f"LAP {lap}", 10, GOLD, place.centerx, place.top + 5 * u, "middle") + 2 * u
        draw_standing(canvas, rows, pygame.Rect(place.left + 4 * u, y, place.width - 8 * u, place.bottom - 6 * u - y))


def _passed(reached: Sequence[int], tick: int) -> int:
    """How many gates or laps are behind a kart after a tick."""
    return bisect.bisect_right(reached, tick)


def _place(recording: Recording, tick: int) -> Place:
    """Where a kart is after a tick, or after its last one."""
    return recording.places[min(tick, len(recording.places)) - 1]


def results(recordings: Sequence[Recording], names: Sequence[str]) -> list[Result]:
    """What each has reached: its time, or how far it has come."""
    found = []
    for number, (recording, name) in enumerate(zip(recordings, names, strict=True)):
        ticks = len(recording.places)
        gates = len(recording.gates)
        text = clock(ticks / TICKS_PER_SECOND) if recording.finished else f"{gates} gate{'s' * (gates != 1)}"
        found.append(Result(number, name, recording.standing(ticks), text))
    return found


def final_gap(recordings: Sequence[Recording], number: int) -> float | None:
    """Seconds behind the winner at the end; None unless both have finished."""
    first = min(recordings, key=lambda each: each.standing(len(each.places)))
    if not (first.finished and recordings[number].finished):
        return None
    return (len(recordings[number].places) - len(first.places)) / TICKS_PER_SECOND


def as_fields(recordings: Sequence[Recording], number: int) -> dict[str, object]:
    """A drive for JSON: its times, and the seconds behind whoever reached each gate and lap first."""
    recording = recordings[number]
    gates, laps = [each.gates for each in recordings], [each.laps for each in recordings]
    return {
        "finished": recording.finished,
        "seconds": round(len(recording.places) / TICKS_PER_SECOND, 2),
        "laps": list(recording.lap_times),
        "lap_gaps": [round(gap(laps, number, lap), 2) for lap in range(len(recording.laps))],
        "gates": [round(tick / TICKS_PER_SECOND, 2) for tick in recording.gates],
        "gate_gaps": [round(gap(gates, number, gate), 2) for gate in range(len(recording.gates))],
    }
