"""Driving in a window, against the clock or a ghost."""

import kartrl.viewer  # noqa: F401  # before pygame
