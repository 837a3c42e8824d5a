"""Creates sessions from the command's options: the game, its circuits, and the ghost. Independent of the window."""

import contextlib
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from kartrl.console.movie import Movie, read_movie
from kartrl.errors import UserError
from kartrl.files import ANOTHER, explained, unused_file
from kartrl.kart import KART
from kartrl.kart.built_circuits import is_foreign
from kartrl.kart.console import KartConsole
from kartrl.kart.game import TICKS_PER_SECOND
from kartrl.kart.game_files import BUNDLED, circuits, game_folder
from kartrl.kart.levels import circuit_name
from kartrl.kart.play.ghost import Ghost, MovieGhost, PolicyGhost
from kartrl.kart.play.session import Session
from kartrl.kart.progress import Course
from kartrl.kart.selection import circuits_of
from kartrl.kart.settings import sections_of
from kartrl.metrics.tables import make_console

if TYPE_CHECKING:
    from kartrl.driving.driver import Driver

POWER_ON = ""  # in place of a circuit: the console after power-on


class Options(NamedTuple):
    """Options of the command line."""

    circuits: tuple[str, ...] = ()  # as in [levels]; (): all
    game: str = "auto"  # auto, bundled or cartridge
    checkpoint: Path | None = None  # of the ghost's network
    greedy: bool = True
    device: str = "auto"
    ghost: Path | None = None  # movie of the ghost
    replay: Path | None = None  # movie to show
    output: Path | None = None
    opponents: int = 0


class Stage:
    """The game and the ghost. Use in a `with` statement: it owns emulators.

    Raises:
        UserError: an option names a missing or unsuitable file.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self.folder = game_folder(options.game)
        self._named = circuits_of(options.circuits, options.game, make_console())
        self._driver: Driver | None = None
        with contextlib.ExitStack() as stack:
            movies = options.replay is not None or options.ghost is not None
            foreign = movies or any(is_foreign(self.folder, circuit) for circuit in self.choices())
            self.console = KartConsole(self.folder, isolated=foreign)
            stack.callback(self.console.close)
            self._power_on = self.console.save()
            self._replay, self._ghost = (
                None if file is None else self._movie(file) for file in (options.replay, options.ghost)
            )
            if self._ghost is not None and options.ghost is not None:
                self._beside = KartConsole(self.folder, isolated=True)
                stack.callback(self._beside.close)
                self._beside.begin(self._ghost.state, options.ghost)
            if options.checkpoint is not None:
                self._driver = self._opened(stack, options.checkpoint)
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def bundled(self) -> bool:
        """Whether the game is the bundled one."""
        return self.folder.name == BUNDLED

    def choices(self) -> list[str]:
        """The circuits of the options, or all with a start state; a cartridge can also start without one."""
        return list(self._named) or [*circuits(self.folder), *([] if self.bundled else [POWER_ON])]

    def first(self) -> Session | None:
        """The session that the options select; None: the player chooses one in the menu.

        Raises:
            UserError: as for `session`.
        """
        if self._replay is not None:
            return self._session(self._replay.circuit, self._replay.state, script=self._replay.inputs)
        if self._ghost is not None and not self._named:
            return self._session(self._ghost.circuit, self._ghost.state)
        choices = self.choices()
        return self.session(choices[0]) if len(choices) == 1 else None

    def session(self, circuit: str) -> Session:
        """Create a race on this circuit.

        Raises:
            UserError: there is no such start state, or the ghost is for another circuit.
        """
        if circuit == POWER_ON:
            return Session(self.console, "", self._power_on)
        self.console.load(circuit)
        return self._session(circuit, self.console.save())

    def _session(self, circuit: str, start: bytes, script: tuple[int, ...] | None = None) -> Session:
        console, options = self.console, self._options
        console.restore(start)
        block = console.block()
        course = None if block is None else Course([(x, y) for x, y, _ in block.gates])
        ghost: Ghost | None = None
        if self._ghost is not None and options.ghost is not None:
            if self._ghost.circuit not in ("", circuit_name(circuit)):
                raise UserError(f"{options.ghost}: recorded on {self._ghost.circuit}, not on {circuit_name(circuit)}")
            self._beside.restore(self._ghost.state)
            number = self._beside.race().get("opponents", 0)  # in its own race alone: it may be pushed by them
            name = f"{options.ghost.name}, among {number} opponents" if number else options.ghost.name
            ghost = MovieGhost(self._beside, self._ghost, course, name)
        if self._driver is not None and options.checkpoint is not None:
            ghost = PolicyGhost(
                self._driver,
                circuit,
                options.greedy,
                console.game,
                course,
                console.race(),
                _in_its_run(options.checkpoint),
            )
        return Session(console, circuit_name(circuit), start, course, script, ghost, options.opponents)

    def _movie(self, file: Path) -> Movie:
        movie = read_movie(file)
        if movie.game not in ("", self.folder.name):
            raise UserError(f"{file}: recorded in {movie.game}, not in {self.folder.name}; choose the game with --game")
        self.console.begin(movie.state, file)
        return movie

    def _opened(self, stack: contextlib.ExitStack, checkpoint: Path) -> "Driver":
        from kartrl.driving.driver import open_driver
        from kartrl.learning import checkpoint as checkpoints

        config = checkpoints.load(checkpoint).config
        if config.environment.id != KART:
            raise UserError(f"{checkpoint}: trained on {config.environment.id}, not on a kart circuit")
        if game_folder(sections_of(config).kart.game) != self.folder:
            raise UserError(f"{checkpoint}: not trained on {self.folder.name}; choose the game with --game")
        circuits = [circuit for circuit in self.choices() if circuit != POWER_ON]
        # the ghost's race is the player's, whose opponents, unlike those of its training, can be seen
        race = [f"kart.opponents={self._options.opponents}"]
        driver: Driver = stack.enter_context(open_driver(checkpoint, circuits, self._options.device, overrides=race))
        return driver


def _in_its_run(checkpoint: Path) -> str:
    """A checkpoint's name with its run's name."""
    return "/".join(checkpoint.absolute().parts[-2:])


def film(stage: Stage, output: Path) -> Path:
    """Write the stage's movie as an MP4, faster than real time where possible; returns the file.

    Raises:
        UserError: the file cannot be written.
    """
    from kartrl.metrics.video import Mp4Writer  # loads FFmpeg

    session = stage.first()
    assert session is not None, "a stage with a movie has a first session"
    with explained(output, "write", ANOTHER), unused_file(output) as file:
        with Mp4Writer(file, TICKS_PER_SECOND) as video:
            video.add(session.console.picture())
            while not session.ended:
                session.tick(0)
                video.add(session.console.picture())
        return file
