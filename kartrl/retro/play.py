"""Playing a retro game in a window: its variables, movies of what is played, and start states for levels."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import pygame

from kartrl.console.libretro import BUTTONS, Image
from kartrl.console.movie import Movie, read_movie, write_movie
from kartrl.console.picture import beside, shaped
from kartrl.errors import UserError
from kartrl.files import ANOTHER, explained, unused_file
from kartrl.metrics.video import Mp4Writer
from kartrl.retro.console import RetroConsole
from kartrl.retro.env import FPS
from kartrl.retro.levels import POWER_ON, is_path, start_of, state_name, states_of
from kartrl.retro.library import Game
from kartrl.retro.memory_view import MemoryView, Typed, converse
from kartrl.retro.own.mistakes import check_integration
from kartrl.viewer.loop import keep_going
from kartrl.viewer.pad import KEYS, Pad
from kartrl.viewer.window import DIM, GOLD, GREY, WHITE, Window, has_display

PLATFORMS = {"Genesis": "GEN", "Atari2600": "A26", "Snes": "SNES", "Nes": "NES", "GameBoy": "GB"}  # in movies
SHOWN = 5.0  # seconds for which a notice is shown
ASPECT = 4 / 3  # of a television
MOST_VARIABLES = 14  # that are shown
HELP = (
    ("P R", "pause, restart"),
    ("N", "next state"),
    ("F2", "save movie"),
    ("F3", "save start state"),
    ("F11 esc", "full screen, quit"),
)


class Rival(Protocol):
    """Plays the same game beside a player."""

    @property
    def name(self) -> str:
        """Who it is."""

    @property
    def total(self) -> float:
        """Its return so far."""

    @property
    def picture(self) -> Image:
        """Its screen, uint8 [H, W, 3]."""

    def begin(self, state: str) -> None:
        """Begin again at a start state."""

    def tick(self) -> None:
        """Advance by a frame, until its episode has ended."""


class Play:
    """A game that is played from its start states, or shows a movie; a screen of a window.

    Args:
        console: used by this alone.
        states: start states: names, paths, or `POWER_ON`.
        movie: shown instead.
        window: None: nothing is drawn.
        rival: plays beside.
    """

    def __init__(
        self,
        console: RetroConsole,
        states: Sequence[str],
        movie: Movie | None = None,
        window: Window | None = None,
        rival: Rival | None = None,
    ) -> None:
        self.typed: Typed | None = None
        """Commands that search the memory meanwhile."""
        self.open = True
        """Whether the player has not left."""
        self.written: list[Path] = []
        """The files written so far."""
        self.rival = rival
        self._console, self._states, self._movie, self._window = console, tuple(states), movie, window
        self._pad = None if window is None else Pad(arrows_drive=False)
        self._place, self._paused, self._notice, self._noticed = 0, False, "", 0.0
        self.memory = MemoryView(console, self.advance, self.begin)
        """Searches the console's memory."""
        self.begin()

    def begin(self) -> None:
        """Begin again at the start state."""
        console = self._console
        if self._movie is not None:
            console.restore(self._movie.state)
            self._start = self._movie.state
        else:
            console.start_at(start_of(self._states[self._place]))
            self._start = console.save()
        console.settle()
        self._inputs, self.total, self.ends = [0], 0.0, 0
        if self.rival is not None:
            self.rival.begin(self.state if self._movie is not None else self._states[self._place])

    @property
    def state(self) -> str:
        """The start state's short name."""
        return self._movie.circuit if self._movie is not None else state_name(self._states[self._place])

    @property
    def over(self) -> bool:
        """Whether the movie is over."""
        return self._movie is not None and len(self._inputs) >= len(self._movie.inputs)

    def take(self, event: pygame.event.Event) -> None:
        """Handle an event of the window."""
        if self._pad is not None:
            self._pad.take(event)
        if event.type == pygame.QUIT:
            self.open = False
        elif event.type == pygame.WINDOWFOCUSLOST:
            self._paused = True
        elif event.type == pygame.KEYDOWN:
            self._press(event.key)

    def _press(self, key: int) -> None:
        if key == pygame.K_ESCAPE:
            self.open = False
        elif key == pygame.K_F11 and self._window is not None:
            self._window.toggle_full_screen()
        elif key in (pygame.K_p, pygame.K_PAUSE):
            self._paused = not self._paused
        elif key == pygame.K_r:
            self.begin()
        elif key == pygame.K_n and self._movie is None:
            self._place = (self._place + 1) % len(self._states)
            self.begin()
        elif key == pygame.K_F2 and self._movie is None:
            self._keep(".bk2")
        elif key == pygame.K_F3:
            self._keep(".state")

    def tick(self) -> None:
        """Advance by a frame, unless paused."""
        for line in () if self.typed is None else self.typed.lines():
            self.open = self.open and self.memory.answer(line)
        if not self._paused:
            self.advance(0 if self._pad is None else self._pad.buttons())
            if self.rival is not None:
                self.rival.tick()

    def picture(self) -> Image:
        """The screen, uint8 [H, W, 3], with the rival's beside it."""
        own = shaped(self._console.screen())
        return own if self.rival is None else beside(own, shaped(self.rival.picture))

    def returns(self) -> list[tuple[str, float]]:
        """Who plays, and their returns so far."""
        return [("you", self.total), *([] if self.rival is None else [(self.rival.name, self.rival.total)])]

    def compared(self) -> str:
        """The returns, as text."""
        return "Returns: " + ", ".join(f"{total:g} ({who})" for who, total in self.returns())

    def advance(self, buttons: int) -> None:
        """Advance by a frame with these buttons held, or those of the movie."""
        if self.over:
            return
        held = buttons if self._movie is None else self._movie.inputs[len(self._inputs)]
        outcome = self._console.advance(held)
        self._inputs.append(held)
        self.total += outcome.reward
        self.ends += outcome.done
        if outcome.done and self.ends == 1:
            self._notify("an episode ends here")

    def _keep(self, ending: str) -> None:
        """Save what was played as a movie, or the moment as a start state, in the current folder."""
        name = f"{self._console.game.name}-{self.state}".replace(" ", "-")
        try:
            with unused_file(Path(f"{name}{ending}")) as file:
                self.save_movie(file) if ending == ".bk2" else self._console.keep(file)
        except (OSError, UserError) as error:
            self._notify(str(error))
            return
        self.written.append(file)
        self._notify(f"saved {file}")

    def save_movie(self, file: Path) -> None:
        """Write what has been played since the start.

        Raises:
            UserError: it cannot be written.
        """
        game = self._console.game
        movie = Movie(game.name, self.state, self._start, tuple(self._inputs), self._console.rom_hash)
        write_movie(file, movie, game.system.buttons, PLATFORMS.get(game.system.name, game.system.name))

    def _notify(self, text: str) -> None:
        self._notice, self._noticed = text, time.monotonic()

    def draw(self) -> None:
        """Draw the window."""
        if (window := self._window) is None:
            return
        window.begin()
        u, panel = window.scale, window.panel
        window.image(self.picture(), _inside(window.picture, ASPECT if self.rival is None else 2 * ASPECT))
        y = window.text(self._console.game.name, 6.5, WHITE, panel.left + 6 * u, panel.top + 6 * u)
        y = window.text(self.state, 8, GOLD, panel.left + 6 * u, y + 2 * u)
        y += 3 * u
        for who, total in self.returns():
            y = window.text(f"reward {total:g}", 8, WHITE, panel.left + 6 * u, y)
            y = y if self.rival is None else window.text(who, 6.5, GREY, panel.left + 6 * u, y)
        y += 2 * u
        for name, value in [*self._console.info().items()][:MOST_VARIABLES]:
            window.text(name[:16], 6.5, GREY, panel.left + 6 * u, y)
            y = window.text(f"{value:,}", 6.5, WHITE, panel.right - 6 * u, y, "right")
        own = keys_of(self._console.game.system.buttons)
        y = panel.bottom - (len(own) + len(HELP) + 1) * 7 * u
        for key, meaning in [*own, *HELP]:
            window.text(key, 6.5, GREY, panel.left + 6 * u, y)
            y = window.text(meaning, 6.5, DIM, panel.left + 34 * u, y)
        if self._paused or (self._notice and time.monotonic() - self._noticed < SHOWN):
            text = "paused: P continues" if self._paused else self._notice
            place = window.picture
            window.text(text, 8, GOLD, place.centerx, place.bottom - 12 * u, "middle")
        window.show()


def keys_of(buttons: Sequence[str | None]) -> list[tuple[str, str]]:
    """The keyboard's keys for a joypad's buttons, without those for directions."""
    found = []
    for key, name in KEYS.items():
        bit = BUTTONS.index(name)
        if bit < len(buttons) and (button := buttons[bit]) not in (None, "UP", "DOWN", "LEFT", "RIGHT"):
            found.append((pygame.key.name(key), str(button).lower()))
    return found


def _inside(place: pygame.Rect, aspect: float) -> pygame.Rect:
    """The largest rectangle of these proportions, centred in `place`."""
    found = place.copy()
    found.width = min(place.width, round(place.height * aspect))
    found.height = min(place.height, round(place.width / aspect))
    found.center = place.center
    return found


OpenRival = Callable[[Sequence[str]], contextlib.AbstractContextManager[Rival]]  # of start states


@contextlib.contextmanager
def opened(
    game: Game,
    keys: Sequence[str],
    replay: Path | None,
    open_rival: OpenRival | None = None,
    window: Window | None = None,
) -> Iterator[Play]:
    """Context manager: what a user names, begun.

    Raises:
        UserError: there is no such state, movie or rival, or it is another game's.
    """
    movie = None if replay is None else read_movie(replay, game.system.buttons)
    if movie is not None and movie.game not in ("", game.name):
        raise UserError(f"{replay}: recorded in {movie.game}, not in {game.name}; choose the game with --game")
    states = [*states_of(keys, game.states(), game.name)] if keys else [*game.states()] or [POWER_ON]
    if not keys and game.default_state() in states:
        states.insert(0, states.pop(states.index(game.default_state() or POWER_ON)))
    if game.own:
        check_integration(game)
    console = RetroConsole(game, isolated=movie is not None or any(map(is_path, states)))
    with contextlib.ExitStack() as stack:
        stack.callback(console.close)
        if movie is not None and replay is not None:
            if movie.rom not in ("", console.rom_hash):
                raise UserError(f"{replay}: recorded with another ROM (SHA-1 {movie.rom}, not {console.rom_hash})")
            console.begin(movie.state, replay)
        rival = None
        if open_rival is not None:
            rival = stack.enter_context(open_rival(states if movie is None else [movie.circuit]))
        yield Play(console, states, movie, window, rival)


def play(
    game: Game,
    keys: Sequence[str],
    replay: Path | None,
    output: Path | None,
    memory: bool = False,
    open_rival: OpenRival | None = None,
) -> list[Path]:
    """Play in a window or, with both files, convert a movie to a video; returns the files written.

    Args:
        keys: start states, as in [levels]; (): all.
        output: a .bk2 for what is played, or an .mp4 for the movie.
        memory: whether to take commands from the terminal that search the console's memory; without a display, a
            frame passes only when they say so.
        open_rival: opens who plays beside; None: no one.

    Raises:
        UserError: see `opened`, there is no display, or a file cannot be written.
    """
    if replay is not None and output is not None:
        with opened(game, keys, replay, open_rival) as shown:
            return [film(shown, output)]
    if memory and not has_display():
        with opened(game, keys, None) as played:
            converse(played.memory)
            return []
    window = Window(game.name)
    try:
        with opened(game, keys, replay, open_rival, window) as screen:
            screen.typed = Typed() if memory else None
            keep_going(screen, FPS)
            if output is not None:
                with unused_file(output) as file:
                    screen.save_movie(file)
                screen.written.append(file)
            if screen.rival is not None:
                print(screen.compared())
            return screen.written
    finally:
        window.close()


def film(shown: Play, output: Path) -> Path:
    """Write a movie, and the rival beside it, as an MP4; returns the file.

    Raises:
        UserError: it cannot be written.
    """
    with explained(output, "write", ANOTHER), unused_file(output) as file, Mp4Writer(file, FPS) as video:
        video.add(shown.picture())
        while not shown.over:
            shown.tick()
            video.add(shown.picture())
    if shown.rival is not None:
        print(shown.compared())
    return file
