"""Driving in a window, against the clock or a ghost."""

import os

os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # pygame prints a banner otherwise
