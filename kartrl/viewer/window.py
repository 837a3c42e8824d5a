"""Drawing in a window or in memory: a picture with a panel next to it; images, text, boxes. Independent of races."""

import os
import sys
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt
import pygame

from kartrl.errors import UserError

WIDTH, HEIGHT = 256, 224  # of the console's screen
PANEL = 96  # width of the panel next to it, in console pixels
SCALE = 3  # window pixels per console pixel in a new window, if the display is large enough
INVISIBLE = ("dummy", "offscreen")  # SDL drivers without a display
SMALLEST = 9  # minimum legible height of a letter, pixels

Colour = tuple[int, int, int]
Align = Literal["left", "middle", "right"]
BACK, CARD, LINE = (13, 15, 22), (26, 30, 43), (50, 58, 82)
WHITE, GREY, DIM = (240, 243, 250), (164, 172, 192), (112, 121, 146)
GOLD, GREEN, RED, BLUE = (255, 207, 92), (104, 224, 142), (255, 112, 104), (112, 180, 255)


class Canvas:
    """A surface to draw on, with a picture of the console's size at the left and a panel at the right.

    Args:
        surface: to draw on; None: one in memory, scaled by `SCALE`. Must be closed, like a window.
    """

    def __init__(self, surface: pygame.Surface | None = None) -> None:
        self._surface = surface or pygame.Surface(((WIDTH + PANEL) * SCALE, HEIGHT * SCALE))
        self.begin()

    def begin(self) -> None:
        """Begin a frame: clear the surface, and update the layout, since its size may have changed."""
        if not pygame.font.get_init():  # at first, and when an environment has called `pygame.quit`
            _rendered.cache_clear()
            pygame.font.init()
        width, height = self._surface.get_size()
        self.scale = max(1, min(width // (WIDTH + PANEL), height // HEIGHT))
        """Pixels per console pixel: an integer, for sharp pixels."""
        left = max(0, (width - (WIDTH + PANEL) * self.scale) // 2)
        top = max(0, (height - HEIGHT * self.scale) // 2)
        self.picture = pygame.Rect(left, top, WIDTH * self.scale, HEIGHT * self.scale)
        self.panel = pygame.Rect(self.picture.right, top, PANEL * self.scale, HEIGHT * self.scale)
        self.whole = self.picture.union(self.panel)
        self._surface.fill(BACK)

    def pixels(self) -> npt.NDArray[np.uint8]:
        """The current contents, uint8 [H, W, 3]; a new array."""
        return np.ascontiguousarray(pygame.surfarray.array3d(self._surface).swapaxes(0, 1))

    def image(self, image: npt.NDArray[np.uint8], place: pygame.Rect) -> None:
        """Draw an image, uint8 [H, W, 3], scaled to `place`; sharp where the sizes are integer multiples."""
        height, width = image.shape[:2]
        drawn = pygame.image.frombuffer(np.ascontiguousarray(image).data, (width, height), "RGB")
        times = -(-place.width // width)
        if times > 1:
            drawn = pygame.transform.scale(drawn, (width * times, height * times))
        if drawn.get_size() != place.size:
            drawn = pygame.transform.smoothscale(drawn, place.size)
        self._surface.blit(drawn, place)

    def text(self, text: str, size: float, colour: Colour, x: float, y: float, align: Align = "left") -> int:
        """Draw a line of text with its top at `y`; returns the `y` of the next line. `size` is in console pixels."""
        drawn = _rendered(text, max(SMALLEST, round(size * self.scale)), colour)
        left = x if align == "left" else x - drawn.get_width() / (2 if align == "middle" else 1)
        self._surface.blit(drawn, (round(left), round(y)))
        return round(y + drawn.get_height())

    def box(self, place: pygame.Rect, colour: Colour, opacity: float = 1.0, border: Colour | None = None) -> None:
        """Draw a box with round corners."""
        radius = 3 * self.scale
        if opacity < 1:
            sheet = pygame.Surface(place.size, pygame.SRCALPHA)
            pygame.draw.rect(sheet, (*colour, round(255 * opacity)), sheet.get_rect(), border_radius=radius)
            self._surface.blit(sheet, place)
        else:
            pygame.draw.rect(self._surface, colour, place, border_radius=radius)
        if border is not None:
            pygame.draw.rect(self._surface, border, place, max(1, self.scale // 2), border_radius=radius)

    def dot(self, x: float, y: float, radius: float, colour: Colour) -> None:
        pygame.draw.circle(self._surface, colour, (round(x), round(y)), max(1, round(radius * self.scale)))

    def close(self) -> None:
        """Close it. Closing twice is allowed."""
        _rendered.cache_clear()
        pygame.quit()


class Window(Canvas):
    """An open window; must be closed.

    Raises:
        UserError: there is no display.
    """

    def __init__(self, title: str) -> None:
        _choose_driver()
        self._title = title
        super().__init__(self._open())

    def _open(self) -> pygame.Surface:
        self._windowed: tuple[int, int] | None = None  # its size before full screen
        try:
            pygame.display.init()
            width, height = pygame.display.get_desktop_sizes()[0]
            scale = max(1, min(SCALE, width // (WIDTH + PANEL), height // HEIGHT))
            surface = pygame.display.set_mode(((WIDTH + PANEL) * scale, HEIGHT * scale), pygame.RESIZABLE)
        except pygame.error as error:
            raise UserError(f"cannot open a window ({error}): it needs a display") from error
        pygame.key.stop_text_input()  # otherwise some desktops open an accent menu for a held key
        pygame.display.set_caption(self._title)
        pygame.display.set_icon(_flag())
        return surface

    def begin(self) -> None:
        self._surface = pygame.display.get_surface() or self._open()  # again, if an environment has closed it
        super().begin()

    def toggle_full_screen(self) -> None:
        """Switch between full screen and a window."""
        if self._windowed is None:
            self._windowed = self._surface.get_size()
            pygame.display.set_mode((0, 0), pygame.FULLSCREEN)
        else:
            pygame.display.set_mode(self._windowed, pygame.RESIZABLE)
            self._windowed = None

    def wait(self, text: str) -> None:
        """Show only a line of text, during a long operation."""
        self.begin()
        self.text(text, 10, GREY, self.whole.centerx, self.whole.centery - 5 * self.scale, "middle")
        self.show()
        pygame.event.pump()

    def left(self) -> bool:
        """Whether the window was closed, or Esc pressed, during a `wait`; other events are dropped."""
        events = pygame.event.get()
        return any(event.type == pygame.QUIT or getattr(event, "key", None) == pygame.K_ESCAPE for event in events)

    def show(self) -> None:
        """Show the frame on the display."""
        pygame.display.flip()


@lru_cache(maxsize=512)
def _rendered(text: str, size: int, colour: Colour) -> pygame.Surface:
    return pygame.font.Font(None, size).render(text, True, colour)


def _flag() -> pygame.Surface:
    """The window's icon: a chequered flag."""
    checks = np.indices((4, 4)).sum(0) % 2 * 200 + 40
    return pygame.transform.scale(pygame.surfarray.make_surface(checks[..., None].repeat(3, 2)), (32, 32))


def inside(place: pygame.Rect, image: npt.NDArray[np.uint8]) -> pygame.Rect:
    """The largest rectangle with the proportions of an image, [H, W, 3], centred in `place`."""
    height, width = image.shape[:2]
    scale = min(place.width / width, place.height / height)
    found = pygame.Rect(0, 0, max(1, round(width * scale)), max(1, round(height * scale)))
    found.center = place.center
    return found


def has_display() -> bool:
    """Whether a visible window can be opened, judged by environment variables."""
    if chosen := os.environ.get("SDL_VIDEODRIVER"):
        return chosen not in INVISIBLE
    return not sys.platform.startswith("linux") or bool(_display_drivers())


def _display_drivers() -> list[str]:
    """SDL's drivers for the available displays, on Linux."""
    drivers = (("x11", "DISPLAY"), ("wayland", "WAYLAND_DISPLAY"))
    return [driver for driver, variable in drivers if os.environ.get(variable)]


def _choose_driver() -> None:
    """Restrict SDL to real displays: without one it would open an invisible window."""
    if os.environ.get("SDL_VIDEODRIVER") or not sys.platform.startswith("linux"):
        return
    if not has_display():
        raise UserError("no display (neither DISPLAY nor WAYLAND_DISPLAY is set): a window needs one")
    os.environ["SDL_VIDEODRIVER"] = ",".join(_display_drivers())
