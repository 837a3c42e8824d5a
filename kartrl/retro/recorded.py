"""A recorded drive in a retro game, as a player beside policies: with the same rewards, and the same ends."""

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from kartrl.config import Config
from kartrl.console.libretro import Image
from kartrl.console.movie import Movie, read_movie, read_names
from kartrl.console.states import write_state
from kartrl.envs.wrappers.atari import USUAL
from kartrl.errors import UserError
from kartrl.retro.console import RetroConsole
from kartrl.retro.env import RetroEnv
from kartrl.retro.levels import start_of, state_name
from kartrl.retro.library import Game
from kartrl.retro.settings import BUTTONS, section_of
from kartrl.retro.world import RetroWorld


class RecordedDrive:
    """Plays a movie, frame by frame, until its end or that of its episode.

    Args:
        env: takes buttons, for a frame each.
        movies: by level, each with the file of its start state.
    """

    def __init__(self, env: RetroEnv, movies: Mapping[str, tuple[Movie, Path]]) -> None:
        self._env, self._movies = env, movies
        self._bits = [bit for bit, name in enumerate(env.game.system.buttons) if name is not None]

    def begin(self, level: str, seed: int) -> None:
        """Begin again on a level; nothing is drawn from the seed."""
        movie, state = self._movies[level]
        self._env.reset(seed=seed, options={"state": str(state), "noop": 0})
        self._inputs = movie.inputs[1:]  # the first one is that of the start
        self.total, self.steps, self.ended = 0.0, 0, False
        self.picture: Image = self._render()

    @property
    def over(self) -> bool:
        """Whether it plays no more."""
        return self.ended or self.steps >= len(self._inputs)

    def tick(self) -> None:
        """Advance by a frame, unless it is over."""
        if self.over:
            return
        held = self._inputs[self.steps]
        action = np.array([held >> bit & 1 for bit in self._bits], np.int8)
        _, reward, terminated, truncated, _ = self._env.step(action)
        self.total, self.steps, self.ended = self.total + reward, self.steps + 1, terminated or truncated
        self.picture = self._render()

    def _render(self) -> Image:
        picture = self._env.render()
        assert picture is not None, "it has been reset"
        return picture


@contextlib.contextmanager
def open_recorded(config: Config, files: Sequence[Path], levels: Sequence[str]) -> Iterator[RecordedDrive]:
    """Context manager: recorded drives, with the rewards and ends of a configuration.

    Args:
        config: of the retro game in which they were recorded.
        files: one for each level, or a single one for the only level.
        levels: names of start states, absolute paths, or `POWER_ON`.

    Raises:
        UserError: one cannot be read, or begins elsewhere, or there is none, or more than one.
    """
    world = RetroWorld(config)
    game, wrapper = world.game, config.environment.wrapper
    if wrapper != "none":
        raise UserError(
            f"{files[0]}: recorded drives do not pass through a wrapper, as environment.wrapper = {wrapper}"
        )
    usual = {"actions": BUTTONS, "players": 1, "sticky": "none"}
    section, view = section_of(config).model_copy(update=usual), USUAL._replace(frame_skip=1)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        movies = {}
        for number, level in enumerate(levels):
            movie, state = _movie(game, files, level), folder / f"{number}.state"
            write_state(state, movie.state)
            movies[level] = movie, state
        env = stack.enter_context(contextlib.closing(RetroEnv(game, section, view, levels, "rgb_array")))
        env.isolate()  # movies may be from anywhere
        yield RecordedDrive(env, movies)


def _movie(game: Game, files: Sequence[Path], level: str) -> Movie:
    """The recorded drive that begins at a start state."""
    name, begins = state_name(level), {file: read_names(file) for file in files}
    found = [file for file, (_, state) in begins.items() if len(files) == 1 or state == name]
    if len(found) != 1:
        what = f"{' and '.join(map(str, found))} begin at {name}; name one" if found else f"none begins at {name}"
        raise UserError(f"{files[0].parent}: of its recorded drives, {what}")
    (file,) = found
    state = begins[file][1]
    if state not in ("", name):
        raise UserError(f"{file}: begins at {state}, not at {name}")
    movie = read_movie(file, game.system.buttons)
    with contextlib.closing(RetroConsole(game, None, isolated=True)) as console:
        console.start_at(start_of(level))
        usual = _look(console)
        console.begin(movie.state, file)
        if _look(console) != usual:  # the states' own bytes differ from process to process
            advice = "play from there, or name another with -l"
            raise UserError(f"{file}: does not start where episodes at {name} do; {advice}")
    return movie


def _look(console: RetroConsole) -> list[bytes]:
    """A console's memory and screen after the first frame."""
    console.settle()
    return [*(bytes(block) for block in console.opened().memory.values()), console.screen().tobytes()]
