"""The one point for injecting faults, for tests: the environment variable `KARTRL_FAULTS`.

It holds words POINT=FAULT and VALUE=NUMBER. A point is one of `POINTS`; a fault is `raise` (an exception), `refuse`
(as a machine that allows no further process), `stall` (an hour), `wait` (a second) or `pause` (some milliseconds, at
random), with `@N` after it from the Nth time on. A number replaces kartrl's own. Without the variable nothing happens.
"""

import difflib
import errno
import os
import random
import threading
import time
from collections import Counter

from kartrl.errors import UserError

VARIABLE = "KARTRL_FAULTS"
FAULTS = ("raise", "refuse", "stall", "wait", "pause")
POINTS = {
    "predictor": "a predictor's thread acts; predictor-1: that one alone",
    "trainer": "a trainer's thread updates; trainer-1: that one alone",
    "evaluator": "the server starts the evaluator",
    "fork_server": "the server starts the fork server, whose folder exists",
}
VALUES = {
    "report": "seconds between two reports of scalars",
    "histogram": "seconds between two histograms of the weights",
    "update": "seconds that such a histogram waits for the end of an update",
    "reading": "agent steps between two readings of the losses",
    "join": "seconds for a role to end before it is killed",
    "emulator": "seconds for an emulator's answer",
    "onnx": "difference from the network up to which an exported file is written",
}
_reached: Counter[str] = Counter()


def _given() -> dict[str, str]:
    return dict(word.partition("=")[::2] for word in os.environ.get(VARIABLE, "").split())


def check() -> None:
    """Refuse a variable that names anything else than the points, faults and values that there are.

    Raises:
        UserError: it does.
    """
    for name, what in _given().items():
        fault, _, first = what.partition("@")
        is_point = _point(name) in POINTS
        for word, known in ((_point(name), (*POINTS, *VALUES)), (fault, FAULTS if is_point else (fault,))):
            if word not in known:
                near = difflib.get_close_matches(word[:80], known, n=1, cutoff=0.0)[0]
                raise UserError(f"{VARIABLE}: unknown {word[:80]!r}; the nearest valid one is {near!r}")
        if not ((first or "1") if is_point else what).replace(".", "", 1).isdecimal():
            raise UserError(f"{VARIABLE}: {name}={what[:80]} has no number")


def _point(name: str) -> str:
    """The entry of `POINTS` for a thread's name."""
    return name.rstrip("0123456789").rstrip("-")


def value(name: str, usual: float) -> float:
    """`usual`, or the number that replaces it."""
    return float(_given().get(name, usual))


def reach(point: str = "") -> None:
    """Do what is to happen at this point; without an argument at the one of this thread's name."""
    if VARIABLE not in os.environ:
        return
    name, given = point or threading.current_thread().name, _given()
    fault, _, first = given.get(name, given.get(_point(name), "")).partition("@")
    _reached[name] += 1
    if _reached[name] < int(first or 1):
        return
    if fault == "raise":
        raise RuntimeError(f"injected at {name}")
    if fault == "refuse":
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    if fault in ("stall", "wait"):
        time.sleep(3600.0 if fault == "stall" else 1.0)
    if fault == "pause" and random.random() < 0.1:
        time.sleep(0.01 * random.random())
