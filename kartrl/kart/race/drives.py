"""The drives of a race, each on a console of its own, tick by tick."""

import bisect
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kartrl.console.movie import Movie
from kartrl.driving.driver import Driver
from kartrl.driving.episodes import steps
from kartrl.errors import UserError
from kartrl.kart.block import BANK, END
from kartrl.kart.circuits.driver import HOLD
from kartrl.kart.circuits.driver import Driver as ScriptedDriver
from kartrl.kart.console import MOST_OPPONENTS, KartConsole, Place
from kartrl.kart.game import TICKS_PER_SECOND, Game
from kartrl.kart.levels import circuit_name
from kartrl.kart.progress import LapTimes, Progress


class Recording(NamedTuple):
    """A drive, tick by tick."""

    movie: Movie  # replays it
    places: list[Place]  # after each tick
    gates: list[int]  # ticks until each gate was reached: gate k is k sections from the start
    laps: list[int]  # ticks until the end of each completed lap
    lap_times: tuple[float, ...]  # seconds, as the game measures them
    finished: bool
    alone: bool  # without opponents driven by the game

    def standing(self, tick: int) -> tuple[float, ...]:
        """How it stands after a tick, to sort by: who leads is smallest."""
        passed = bisect.bisect_right(self.gates, tick)
        done = self.finished and tick >= len(self.places)
        return (not done, len(self.places)) if done else (True, -passed, self.gates[passed - 1] if passed else 0)


class Grid(NamedTuple):
    """Where all drives on a circuit start."""

    circuit: str  # its name, or the path of its start state
    state: bytes
    race: dict[str, int]

    @property
    def name(self) -> str:
        """The circuit's short name."""
        return circuit_name(self.circuit)


def open_grid(console: KartConsole, circuit: str) -> Grid:
    """The start of a circuit.

    Raises:
        UserError: there is no such start state, or its race is over.
    """
    console.load(circuit)
    race = console.race()
    if console.game.laps_done(race) >= console.game.laps:
        raise UserError(f"{circuit}: the race is over in this state; choose an earlier one")
    return Grid(circuit, console.save(), race)


class Recorder:
    """Records a drive.

    Args:
        limit: ticks after which it ends.
    """

    def __init__(self, game: Game, race: dict[str, int], limit: int) -> None:
        self._game, self._limit = game, limit
        self._alone = not 0 < race.get("opponents", 0) <= MOST_OPPONENTS
        self._progress = Progress(race["checkpoint_num"], race["checkpoint"])
        self._times = LapTimes(game, race)
        self._inputs, self._places, self._gates, self._laps = list[int](), list[Place](), list[int](), list[int]()
        self.finished = False
        """Whether the race is."""

    @property
    def over(self) -> bool:
        """Whether the drive ends here."""
        return self.finished or len(self._inputs) >= self._limit

    def add(self, race: dict[str, int], buttons: int) -> None:
        """Add the race state after a tick in which these buttons were held; no more is taken once it is `over`."""
        if self.over:
            return
        self._inputs.append(buttons)
        gained, _ = self._progress.update(race["checkpoint"])
        self._gates += [len(self._inputs)] * gained
        self._times.update(race)
        self._laps += [len(self._inputs)] * (len(self._times.seconds) - len(self._laps))
        self._places.append(Place(race["x"], race["y"], race["kart_angle"], self._progress.best))
        self.finished = self._game.laps_done(race) >= self._game.laps

    def recording(self, game: str, circuit: str, state: bytes) -> Recording:
        """The drive, from this state of the console on."""
        movie = Movie(game, circuit, state, tuple(self._inputs))
        return Recording(movie, self._places, self._gates, self._laps, self._times.seconds, self.finished, self._alone)


def drive_policy(
    driver: Driver, console: KartConsole, grid: Grid, greedy: bool, seed: int, limit: int, on_step: Callable[[], None]
) -> Recording:
    """Let a policy drive, to the end of its episode, of the race or of `limit` ticks.

    Args:
        driver: on this circuit.
        console: any with this game.
        on_step: called after each of its steps.
    """
    env: Any = driver.env.unwrapped
    recorder = Recorder(console.game, grid.race, limit)
    env.on_frame = lambda _: recorder.add(env.race(), env.console.opened().pressed)
    try:
        for _ in steps(driver.env, driver.network, {"circuit": grid.circuit, "noop": 0}, greedy=greedy, seed=seed):
            on_step()
            if recorder.over:
                break
    finally:
        env.on_frame = None
    return recorder.recording(console.folder.name, grid.name, grid.state)


def drive_inputs(
    console: KartConsole, grid: Grid, state: bytes, inputs: Iterable[int], limit: int, on_step: Callable[[], None]
) -> Recording:
    """Hold the buttons of each tick, from a state of the console on.

    Args:
        inputs: taken one by one, each once the ticks before it are over.
    """
    console.restore(state)
    recorder = Recorder(console.game, console.race(), limit)
    for tick, buttons in enumerate(inputs):
        if recorder.over:
            break
        console.step(buttons)
        recorder.add(console.race(), buttons)
        if tick % TICKS_PER_SECOND == 0:
            on_step()
    return recorder.recording(console.folder.name, grid.name, state)


def script(console: KartConsole) -> Iterator[int]:
    """The scripted driver's buttons of each tick, for a console that takes them; endless.

    Raises:
        UserError: it does not know this game.
    """
    block = console.block()
    if block is None:
        raise UserError(f"the scripted driver drives the bundled game alone, not {console.folder.name}")
    driver = ScriptedDriver(console, block)
    yield 0
    while True:
        yield from [driver.act(console.race())] * HOLD


def check_movie(console: KartConsole, grid: Grid, file: Path, movie: Movie) -> None:
    """Refuse a movie that is of another game or circuit, or starts elsewhere.

    Raises:
        UserError: names it.
    """
    if movie.game not in ("", console.folder.name):
        raise UserError(f"{file}: recorded in {movie.game}, not in {console.folder.name}")
    if movie.circuit not in ("", grid.name):
        raise UserError(f"{file}: recorded on {movie.circuit}, not on {grid.name}")
    console.restore(grid.state)
    own, memory = console.block(), console.block() and console.read(BANK, END)
    console.begin(movie.state, file)
    race, game, block = console.race(), console.game, console.block()
    starts = all(race[key] == grid.race[key] for key in ("x", "y", "checkpoint"))
    starts &= game.laps_done(race) == game.laps_done(grid.race)
    if own is not None and block is not None:
        # coins that are taken change the memory, so that it can be compared at the start alone
        same = (own.title, own.gates) == (block.title, block.gates)
        if not same or (starts and console.read(BANK, END) != memory):
            raise UserError(f"{file}: recorded on another circuit than {grid.name}")
    if not starts:
        raise UserError(f"{file}: does not start where races on {grid.name} do, so its times do not compare")


def gap(reached: Sequence[Sequence[int]], number: int, place: int) -> float:
    """Seconds behind whoever was first at a gate or at the end of a lap.

    Args:
        reached: of each drive, the ticks until its gates, or its laps.
        number: of a drive that has been there.
        place: the gate or lap, from 0.
    """
    first = min(ticks[place] for ticks in reached if len(ticks) > place)
    return (reached[number][place] - first) / TICKS_PER_SECOND
