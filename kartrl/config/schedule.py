"""Schedules: values that may change during a run, with one syntax for all keys that take one."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, WithJsonSchema

POWERS = {"constant": 0, "linear": 1, "polynomial": 2}
SYNTAX = "one number, or: linear START END, or: polynomial START END"


@dataclass(frozen=True)
class Schedule:
    """A value that goes from `start` to `end` over a run; `str` gives the syntax of the configuration."""

    kind: Literal["constant", "linear", "polynomial"]
    start: float
    end: float

    def at(self, progress: float) -> float:
        """The value after this fraction of the run, 0 to 1 (`learning.schedules.Progress`)."""
        return self.end + (self.start - self.end) * (1.0 - progress) ** POWERS[self.kind]

    def __str__(self) -> str:
        return str(self.start) if self.kind == "constant" else f"{self.kind} {self.start} {self.end}"


def constant(value: float) -> Schedule:
    """A schedule that never changes."""
    return Schedule("constant", value, value)


def _parse(value: Any) -> Any:
    """The schedule for a number or for text of the configuration; a schedule is returned unchanged."""
    if isinstance(value, Schedule):
        return value
    words = str(value).split()
    try:
        kind, start, end = "constant" if len(words) == 1 else words[0], float(words[-2:][0]), float(words[-1])
        if len(words) not in (1, 3) or kind not in POWERS or (kind == "constant") != (len(words) == 1):
            raise ValueError
    except (IndexError, ValueError):
        raise ValueError(f"must be {SYNTAX}") from None
    if not (math.isfinite(start) and math.isfinite(end)):
        raise ValueError("must be finite")
    return Schedule(kind, start, end)  # type: ignore[arg-type]  # it is one of these


def _within(low: float, high: float) -> Callable[[Schedule], Schedule]:
    def check(schedule: Schedule) -> Schedule:
        if min(schedule.start, schedule.end) < low:
            raise ValueError(f"must be {low:g} or more")
        if max(schedule.start, schedule.end) > high:
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
