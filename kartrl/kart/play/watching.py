"""Shows a trained policy on one level after another, frame by frame, with its line on the map and its observation."""

from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
import pygame

from kartrl.console.libretro import Image
from kartrl.driving.driver import Driver, with_newer
from kartrl.driving.episodes import Step, reset_options, steps
from kartrl.envs.episode import Episode
from kartrl.envs.worlds import CONSOLE_FPS
from kartrl.envs.wrappers.pictures import picture_of
from kartrl.errors import UserError
from kartrl.kart.play import views
from kartrl.learning import checkpoint
from kartrl.viewer.window import Canvas, Window

SIDE = 320  # of the map, pixels
SHADE = 0.55  # factor of the map's brightness, so that the line stands out
LINE = (255, 207, 92)  # colour of the line
HOLD_SECONDS = 2.0  # for which the end of an episode is shown
KEYS = ("N next   P pause   F11 full screen", "esc quit")


class Show:
    """Drives an episode on each level in turn, then starts over with other seeds.

    Args:
        driver: used by this show only; its environment must render.
        path: the driver's checkpoint.
        follow: folder of a run; each episode is driven by its newest checkpoint.
        seconds: maximum length of an episode; 0: unlimited.
        say: called with a line that names the checkpoint, at first and whenever it changes.
    """

    def __init__(
        self,
        driver: Driver,
        path: Path,
        follow: Path | None,
        greedy: bool,
        seconds: float,
        say: Callable[[str], None],
    ) -> None:
        self._driver, self._path, self._follow, self._greedy, self._say = driver, path, follow, greedy, say
        inner = driver.env.unwrapped
        self._each_frame = hasattr(inner, "on_frame")
        self.rate = float(CONSOLE_FPS) if self._each_frame else driver.world.pictures_per_second(driver.env)
        """Ticks per second of play."""
        self._limit = round(seconds * self.rate) if seconds else None
        self._levels = driver.levels or ("",)
        self._frames: deque[Image] = deque()
        if self._each_frame:
            inner.on_frame = self._frames.append  # type: ignore[attr-defined]
        self.rounds = 0
        """Number of times that all levels have been driven."""
        self._place = -1
        self._say(f"Showing {path}: {self.policy}")
        self.next()

    def next(self) -> None:
        """Begin an episode on the next level; if a run is followed, with its newest checkpoint."""
        self._place += 1
        if self._place == len(self._levels):
            self._place, self.rounds = 0, self.rounds + 1
        self._take_newest()
        driver, level = self._driver, self._levels[self._place]
        options = reset_options(driver.world, level)
        self._frames.clear()
        self._steps: Iterator[Step] = steps(driver.env, driver.network, options, greedy=self._greedy, seed=self.rounds)
        self._ticks = self._held = 0
        self.episode: Episode | None = None
        """The episode, once it has ended."""
        self._total, self._count = 0.0, -1
        self._map = _Map(driver.world.map(level)) if level else None
        self._advance()
        self.picture = self._frames.popleft()
        """The frame to show, uint8 [H, W, 3]."""

    def tick(self) -> None:
        """Advance by one frame; the end of an episode is shown for `HOLD_SECONDS`."""
        self._ticks += 1
        if not self._frames and not self._step.ended:
            self._advance()
        if self._frames:
            self.picture = self._frames.popleft()
        elif self._step.ended:
            self._held += 1
        if self._step.ended and not self._frames and self.episode is None:
            self.episode = self._driver.world.make_episode(self._step.info, self._step.terminated)
        if self._held >= HOLD_SECONDS * self.rate or self._ticks == self._limit:
            self.next()

    def _advance(self) -> None:
        """Advance the episode by one step; afterwards at least one frame is queued."""
        self._step = next(self._steps)
        self._total, self._count = self._total + self._step.reward, self._count + 1
        if not self._frames:
            self._frames.append(picture_of(self._driver.env))
        if self._map is not None:
            self._map.add(self._driver.world.trace(self._step.info)[:2])

    def _take_newest(self) -> None:
        newest = None if self._follow is None else checkpoint.newest(self._follow)
        if newest is None or newest == self._path:
            return
        try:
            self._driver = with_newer(self._driver, newest)
        except UserError:  # the run has deleted it meanwhile: wait for the next one
            return
        self._path = newest
        self._say(f"Showing {newest}: {self.policy}")

    @property
    def title(self) -> str:
        """The level's name, or the environment's."""
        world, level = self._driver.world, self._levels[self._place]
        return world.name_level(level) if level else world.config.environment.id

    @property
    def policy(self) -> str:
        """The policy's age in agent steps, as text."""
        return f"{self._driver.agent_steps:,} agent steps"

    @property
    def progress(self) -> str:
        """Steps and return of the episode so far, as text."""
        return f"step {self._count:,}, return {self._total:.1f}"

    @property
    def summary(self) -> str:
        """The episode's result, as text; "" before its end."""
        return "" if self.episode is None else self._driver.world.tell_episode(self.episode)

    @property
    def map(self) -> Image | None:
        """The level's map with the line driven so far, uint8 [`SIDE`, `SIDE`, 3]; None if there is none."""
        return None if self._map is None else self._map.image

    @property
    def position(self) -> tuple[float, float]:
        """Position on the map, 0 to 1 towards east and south."""
        return (0.0, 0.0) if self._map is None else self._map.here

    @property
    def seen(self) -> list[Image]:
        """The images of the network's observation, newest first, uint8 [H, W, 3]; empty for a vector."""
        observation, section = np.asarray(self._step.observation), self._driver.world.config.environment
        return [] if observation.ndim == 1 else images_of(observation, observation.shape[2] // section.frames)

    @property
    def numbers(self) -> list[float]:
        """The network's observation if it is a vector, else empty."""
        observation = np.asarray(self._step.observation)
        return observation.tolist() if observation.ndim == 1 else []

    def draw(self, canvas: Canvas, keys: tuple[str, ...] = ()) -> None:
        """Draw everything."""
        canvas.begin()
        views.show(canvas, self, keys)


class _Map:
    """A map with a growing line."""

    def __init__(self, picture: Image | None) -> None:
        """`picture`: the map, uint8 [H, W, 3]; None: no map, nothing is drawn."""
        self.image: Image | None = None
        self.here = (0.0, 0.0)
        self._last: tuple[int, int] | None = None
        if picture is not None:
            self._size = picture.shape[1], picture.shape[0]
            small = cv2.resize(picture, (SIDE, SIDE), interpolation=cv2.INTER_AREA)
            self.image = (small * SHADE).astype(np.uint8)

    def add(self, place: tuple[float, ...]) -> None:
        """Extend the line to (x, y), in pixels of the map."""
        if self.image is None:
            return
        self.here = place[0] / self._size[0], place[1] / self._size[1]
        point = round(self.here[0] * SIDE), round(self.here[1] * SIDE)
        if self._last is not None:
            cv2.line(self.image, self._last, point, LINE, 2, cv2.LINE_AA)
        self._last = point


def images_of(observation: npt.NDArray[np.uint8], channels: int) -> list[Image]:
    """The images [H, W, 3] that are stacked in [H, W, C], newest (last in the stack) first.

    Args:
        channels: per image; if not 3, only the last one is shown, in grey.
    """
    stack = np.split(observation, observation.shape[2] // channels, axis=2)
    return [image if channels == 3 else image[..., -1:].repeat(3, 2) for image in reversed(stack)]


class WatchWindow:
    """A show in a window."""

    def __init__(self, show: Show, window: Window) -> None:
        self.open = True
        """Whether the window is still open."""
        self._show, self._window = show, window
        self._paused = False

    def take(self, event: pygame.event.Event) -> None:
        """Handle an event of the window."""
        if event.type == pygame.QUIT:
            self.open = False
        elif event.type == pygame.KEYDOWN:
            if event.key == pygame.K_ESCAPE:
                self.open = False
            elif event.key == pygame.K_F11:
                self._window.toggle_full_screen()
            elif event.key in (pygame.K_p, pygame.K_PAUSE):
                self._paused = not self._paused
            elif event.key in (pygame.K_n, pygame.K_RIGHT):
                self._show.next()

    def tick(self) -> None:
        """Advance by one frame."""
        if not self._paused:
            self._show.tick()

    def draw(self) -> None:
        """Draw the window."""
        self._show.draw(self._window, KEYS)
        self._window.show()
