"""A scripted driver for the bundled game: follows a smoothed line through the gates and brakes before bends."""

import math
from collections.abc import Callable
from contextlib import closing

import numpy as np
import numpy.typing as npt

from kartrl.errors import UserError
from kartrl.kart.block import SIZE, TILE, Block
from kartrl.kart.built_circuits import must_isolate
from kartrl.kart.circuits import LAPS
from kartrl.kart.circuits.appearance.surfaces import CODES, SURFACES, Effect
from kartrl.kart.console import KartConsole
from kartrl.kart.game import TICKS_PER_SECOND
from kartrl.kart.game_files import BUNDLED, GAMES
from kartrl.kart.progress import LapTimes

HOLD = 5  # ticks per action, as for an agent
SPACING = 8.0  # pixels between points of the driven line
BERTH = 19  # pixels between the line and slow ground, walls and hazards
ROUNDINGS = 240
TURN = 0.034  # turn rate of the kart with a small reserve, radians per tick
BRAKING = 0.045  # deceleration to plan with, pixels per tick squared
FASTEST = 4.0  # pixels per tick
CRAWL = 1.1  # lowest target speed, pixels per tick
STUCK = 12  # actions without movement that count as stuck
BACK_OFF = 9  # actions in reverse when stuck
_FIRM = 512  # surfaces with a lower top speed are avoided
_PASSABLE = (Effect.NONE, Effect.BOOST, Effect.JUMP, Effect.COIN)
Floats = npt.NDArray[np.float64]
OnFrame = Callable[[KartConsole], bool | None]


class Driver:
    """Chooses among six of an agent's nine actions from the race state alone."""

    def __init__(self, console: KartConsole, block: Block) -> None:
        held = (("left", ["LEFT"]), ("right", ["RIGHT"]))
        self._coast = {name: console.buttons(names) for name, names in held}
        self._drive = {name: console.buttons([*names, "B"]) for name, names in held}
        self._brake = {name: console.buttons([*names, "Y"]) for name, names in held}
        self._line = driven_line(block)
        self._slippery = block.kind == "ice"
        self._limit = _speed_limits(self._line, TURN * (0.8 if self._slippery else 1.0))
        self._index = 0
        self._slow = self._backing = 0
        self._best = (0.0, 0.0)

    def act(self, race: dict[str, int]) -> int:
        """Return the buttons to hold for the next `HOLD` ticks."""
        x, y, line = race["x"] + 0.5, race["y"] + 0.5, self._line
        away = (line[:, 0] - x) ** 2 + (line[:, 1] - y) ** 2
        self._index = int(np.argmin(away))
        if self._is_stuck(x, y, race):
            return self._brake[self._towards(race, x, y, 6, backwards=True)]
        speed = race["speed"] / 256
        ahead = 3 + int(speed * (3.2 if self._slippery else 2.4))
        side = self._towards(race, x, y, ahead)
        allowed = self._limit[(self._index + np.arange(1, 3)) % len(line)].min()
        if speed > allowed + 0.45:
            return self._brake[side]
        return self._coast[side] if speed > allowed else self._drive[side]

    def _towards(self, race: dict[str, int], x: float, y: float, ahead: int, backwards: bool = False) -> str:
        to_x, to_y = self._line[(self._index + ahead) % len(self._line)]
        wanted = math.atan2(to_x - x, y - to_y)
        heading = race["kart_angle"] / 65536 * math.tau
        error = _wrap_angle(wanted - heading)
        if self._slippery and race["speed"] > 128:  # compensate for sliding: turn further than the goal
            error += 0.6 * _wrap_angle(wanted - math.atan2(race["speed_x"], -race["speed_y"]))
        error -= 0.085 * race["angle_velocity"]
        return "left" if (error < 0) != backwards else "right"

    def _is_stuck(self, x: float, y: float, race: dict[str, int]) -> bool:
        """Whether the kart has not moved lately and should reverse."""
        if self._backing:
            self._backing -= 1
            return True
        if abs(x - self._best[0]) + abs(y - self._best[1]) > 12 or race["lakitu"] == 4:
            self._best, self._slow = (x, y), 0
        self._slow += 1
        if self._slow > STUCK:
            self._slow, self._backing = 0, BACK_OFF
        return False


def lap_times(circuit: str, laps: int = LAPS) -> tuple[float, ...]:
    """`drive` on a bundled circuit, or from the start state at this path."""
    return time_laps(circuit, laps).seconds


def time_laps(circuit: str, laps: int, on_frame: OnFrame | None = None) -> LapTimes:
    """`lap_times`, and how many laps were completed before the start, if that is a state saved during a race.

    Args:
        on_frame: called after each tick, each of which takes one frame then; True ends the drive.

    Raises:
        UserError: there is no such start state, or its race is over.
    """
    with closing(KartConsole(GAMES / BUNDLED, circuit, must_isolate(GAMES / BUNDLED, circuit), fast=True)) as console:
        if console.game.laps_done(console.race()) >= console.game.laps:
            raise UserError(f"{circuit}: the race is over in this state; choose an earlier one")
        return _race(console, laps, on_frame)


def drive(console: KartConsole, laps: int) -> tuple[float, ...]:
    """Times of the next laps of the driver in seconds, at most to the end of the race.

    Fewer than that if it does not finish within one minute per lap.

    Args:
        console: in a race.
    """
    return _race(console, laps).seconds


def _race(console: KartConsole, laps: int, on_frame: OnFrame | None = None) -> LapTimes:
    block = console.block()
    assert block is not None
    driver, race = Driver(console, block), console.race()
    times = LapTimes(console.game, race)
    console.step(0)
    race = console.race()
    laps = min(laps, console.game.laps - times.before)
    for _ in range(60 * TICKS_PER_SECOND * laps // HOLD):
        buttons = driver.act(race)
        for ticks in [HOLD] if on_frame is None else [1] * HOLD:
            console.step(buttons, ticks)
            if on_frame is not None and on_frame(console):
                return times
        race = console.race()
        times.update(race)
        if len(times.seconds) >= laps:
            break
    return times


def driven_line(block: Block) -> Floats:
    """A closed racing line, float64 [n, 2] pixels: from gate to gate, shortened between the road's edges."""
    line = _resample(np.array([gate[:2] for gate in block.gates], float) + 0.5)
    passable = np.array([surface.effect in _PASSABLE and surface.top >= _FIRM for surface in SURFACES])
    good = np.isin(block.surfaces, np.flatnonzero(passable))[block.tilemap]
    # jumps are taken straight, on the centre line
    fixed = np.isin(block.surfaces, CODES["jump"])[block.tilemap]
    ring = BERTH * np.array([(0, 0), *((math.cos(a), math.sin(a)) for a in np.arange(8) * math.tau / 8)])
    for _ in range(ROUNDINGS):
        pulled = (np.roll(line, 1, 0) + np.roll(line, -1, 0)) / 2
        allowed = _look_up(good, pulled[:, None] + ring).all(1, keepdims=True) | ~_look_up(
            good, line[:, None] + ring
        ).all(1, keepdims=True)
        allowed &= ~_look_up(fixed, line[:, None] + 2 * ring).any(1, keepdims=True)
        line = np.where(allowed, pulled, line)
    return _resample(line)


def _look_up(table: npt.NDArray[np.bool_], places: Floats) -> npt.NDArray[np.bool_]:
    """Values of a table of cells at these pixels."""
    cells = np.clip(places, 0, SIZE - 1).astype(int) // TILE
    found: npt.NDArray[np.bool_] = table[cells[..., 1], cells[..., 0]]
    return found


def _resample(line: Floats) -> Floats:
    """Resample a closed line to about evenly spaced points."""
    closed = np.concatenate([line, line[:1]])
    reached = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(closed, axis=0).T))])
    at = np.arange(max(8, round(reached[-1] / SPACING))) * SPACING
    at *= reached[-1] / (len(at) * SPACING)
    return np.stack([np.interp(at, reached, closed[:, k]) for k in (0, 1)], axis=1)


def _speed_limits(line: Floats, turn: float) -> Floats:
    """Target speed at each point, pixels per tick: low enough for its bend and for braking before the next ones."""
    before, after = line - np.roll(line, 3, 0), np.roll(line, -3, 0) - line
    angle = np.abs(np.arctan2(before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0], (before * after).sum(1)))
    bend = angle / (3 * SPACING)
    limit = np.clip(turn / np.maximum(bend, 1e-6), CRAWL, FASTEST)
    for _ in range(2):
        for i in range(len(line) - 1, -1, -1):
            following = limit[(i + 1) % len(line)]
            limit[i] = min(limit[i], math.sqrt(following * following + 2 * BRAKING * SPACING))
    return limit


def _wrap_angle(angle: float) -> float:
    return (angle + math.pi) % math.tau - math.pi
