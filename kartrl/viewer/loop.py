"""The main loop of a window: events, ticks at a steady pace, and drawing."""

import time
from typing import Protocol

import pygame

from kartrl.viewer.pace import Pacer

LONGEST = 0.05  # maximum seconds between polls for events


class Screen(Protocol):
    """A screen to show in a window."""

    open: bool
    """Whether to continue."""

    def take(self, event: pygame.event.Event) -> None:
        """Handle an event of the window."""

    def tick(self) -> None:
        """Advance by one tick."""

    def draw(self) -> None:
        """Draw the window."""


def keep_going(screen: Screen, rate: float) -> None:
    """Run at `rate` ticks per second until the screen is left."""
    pacer = Pacer(time.perf_counter(), rate)
    while screen.open:
        for event in pygame.event.get() if pygame.display.get_init() else ():  # an environment may have closed it
            screen.take(event)
        ticks = pacer.due(time.perf_counter())
        for _ in range(ticks):
            screen.tick()
        if ticks:
            screen.draw()
        time.sleep(min(pacer.wait(time.perf_counter()), LONGEST))
