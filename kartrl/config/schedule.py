"""Schedules: values that may change during a run, with one syntax for all keys that take one."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, WithJsonSchema

POWERS = {"constant": 0, "linear": 1, "polynomial": 2}
STEEP = 1e9  # of a jump
SYNTAX = "one number, or: linear START END, or: polynomial START END, or: piecewise AT VALUE AT VALUE ..."


@dataclass(frozen=True)
class Schedule:
    """A value that changes over a run; `str` gives the syntax of the configuration.

    `points` are at least two pairs (the fraction of the run, the value then), in order. Before the first and after the
    last the value is constant; of two pairs at the same fraction the later one holds from there on.
    """

    kind: Literal["constant", "linear", "polynomial", "piecewise"]
    points: tuple[tuple[float, float], ...]

    @property
    def start(self) -> float:
        return self.points[0][1]

    @property
    def values(self) -> list[float]:
        return [value for _, value in self.points]

    @property
    def changes(self) -> bool:
        return len(set(self.values)) > 1

    def at(self, progress: float) -> float:
        """The value after this fraction of the run, 0 to 1 (`learning.schedules.Progress`).

        In a graph, and in recorded work, that is a tensor, and so is the value: nothing depends on comparing it.
        """
        if self.kind != "piecewise":
            start, end = self.values
            return end + (start - end) * (1.0 - progress) ** POWERS[self.kind]
        value = self.start
        for (left, _), (right, end) in pairwise(self.points):
            share = _share(progress, left, right)
            value = value * (1.0 - share) + end * share  # exact where the share is 0 or 1
        return value

    def __str__(self) -> str:
        if self.kind == "constant":
            return str(self.start)
        numbers = sum(self.points, ()) if self.kind == "piecewise" else self.values
        return " ".join(map(str, (self.kind, *numbers)))


def _share(progress: Any, left: float, right: float) -> Any:
    """How much of the way from `left` to `right` is done, 0 to 1; if these are the same, 0 before and 1 from there."""
    share = (progress - left) / (right - left) if right > left else (progress - left) * STEEP + 1.0
    return share.clamp(0.0, 1.0) if hasattr(share, "clamp") else min(max(share, 0.0), 1.0)


def constant(value: float) -> Schedule:
    """A schedule that never changes."""
    return ramp("constant", value, value)


def ramp(kind: Literal["constant", "linear", "polynomial"], start: float, end: float) -> Schedule:
    """A schedule from `start` to `end` over the whole run."""
    return Schedule(kind, ((0.0, start), (1.0, end)))


def _parse(value: Any) -> Any:
    """The schedule for a number or for text of the configuration; a schedule is returned unchanged."""
    if isinstance(value, Schedule):
        return value
    words = str(value).split()
    kind = words.pop(0) if len(words) > 1 else "constant"
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        numbers = []
    if not all(map(math.isfinite, numbers)):
        raise ValueError("must be finite")
    if numbers and kind == "piecewise":
        return _piecewise(numbers)
    if kind not in POWERS or len(numbers) != (1 if kind == "constant" else 2):
        raise ValueError(f"must be {SYNTAX}")
    return ramp(kind, numbers[0], numbers[-1])  # type: ignore[arg-type]  # it is one of these


def _piecewise(numbers: list[float]) -> Schedule:
    """The schedule of `numbers`, AT and VALUE alternately; ValueError says what AT must be."""
    if len(numbers) < 4 or len(numbers) % 2:
        raise ValueError("piecewise must have two or more pairs AT VALUE")
    at = numbers[::2]
    if at != sorted(at) or at[0] < 0 or at[-1] > 1:
        raise ValueError("piecewise must have each AT, a fraction of the run, from 0 to 1 and in order")
    return Schedule("piecewise", tuple(zip(at, numbers[1::2], strict=True)))


def _within(low: float, high: float) -> Callable[[Schedule], Schedule]:
    def check(schedule: Schedule) -> Schedule:
        if min(schedule.values) < low:
            raise ValueError(f"must be {low:g} or more")
        if max(schedule.values) > high:
            raise ValueError(f"must be {high:g} or less")
        return schedule

    return check


def _starts_above_zero(schedule: Schedule) -> Schedule:
    if schedule.start <= 0:
        raise ValueError("must start above 0")
    return schedule


def _plain(schedule: Schedule) -> float | str:
    return schedule.start if schedule.kind == "constant" else str(schedule)


def _of(**limits: float) -> WithJsonSchema:
    return WithJsonSchema({"type": "schedule", **limits})


_Schedule = Annotated[Schedule, BeforeValidator(_parse), PlainSerializer(_plain)]
Cost = Annotated[_Schedule, AfterValidator(_within(0, math.inf)), _of(minimum=0)]
Share = Annotated[_Schedule, AfterValidator(_within(0, 1)), _of(minimum=0, maximum=1)]
Rate = Annotated[Cost, AfterValidator(_starts_above_zero), _of(minimum=0)]
Candidates = Annotated[_Schedule, AfterValidator(_within(1, 1000)), _of(minimum=1, maximum=1000)]
