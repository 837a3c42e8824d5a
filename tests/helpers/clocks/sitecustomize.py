"""Clocks that jump, in every process whose Python finds this file first; which, two environment variables say."""

import glob
import itertools
import os
import time

monotonic, wall = time.monotonic, time.time
jumps = itertools.cycle((86400.0, -86400.0, 0.0))
suspended = os.environ.get("KARTRL_TEST_SUSPENDED")  # a file, or a pattern


def jumping() -> float:
    """A day later, a day earlier and right, by turns."""
    return wall() + next(jumps)


def resumed() -> float:
    """A thousand seconds later from when there is the file: as after a suspension of all processes."""
    return monotonic() + (1000.0 if glob.glob(suspended) else 0.0)


if suspended:
    time.monotonic = resumed
if os.environ.get("KARTRL_TEST_JUMPS"):
    time.time = jumping
