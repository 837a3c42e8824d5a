"""A show in a window."""

import pygame

from kartrl.kart.play import views
from kartrl.viewer.show import Show
from kartrl.viewer.window import Canvas, Window

KEYS = ("N next   P pause   F11 full screen", "esc quit")


class WatchWindow:
    """A show in a window."""

    def __init__(self, show: Show, window: Window) -> None:
        self.open = True
        """Whether the window is still open."""
        self._show, self._window = show, window
        self._paused = False

    def take(self, event: pygame.event.Event) -> None:
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
        if not self._paused:
            self._show.tick()

    def draw(self) -> None:
        draw(self._window, self._show, KEYS)
        self._window.show()


def draw(canvas: Canvas, show: Show, keys: tuple[str, ...] = ()) -> None:
    """Draw a show, and the keys that one may press."""
    canvas.begin()
    views.show(canvas, show, keys)
