"""The reward, the end of an episode, the crop and the actions of a stable-retro scenario.json."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kartrl.config import Crop
from kartrl.config.wording import nearest
from kartrl.errors import UserError
from kartrl.files import read_text
from kartrl.retro.buttons import Groups

Values = Mapping[str, int]
OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "equal": operator.eq,
    "negative-equal": lambda value, reference: -value == reference,
    "not-equal": operator.ne,
    "less-than": operator.lt,
    "greater-than": operator.gt,
    "less-or-equal": operator.le,
    "greater-or-equal": operator.ge,
    "nonzero": lambda value, reference: value != 0,
    "zero": lambda value, reference: value == 0,
    "negative": lambda value, reference: value < 0,
    "positive": lambda value, reference: value > 0,
    "sign": lambda value, reference: (value > 0) - (value < 0),
}  # of a measured value and a reference
MEASUREMENTS = ("absolute", "delta")
LARGEST = float(np.finfo(np.float32).max)  # number; stable-retro has them in single precision


class Measure(NamedTuple):
    """What is measured of a value in memory."""

    name: str
    delta: bool  # the change since the last frame, instead of the value
    operation: Callable[[int, int], int] | None
    reference: int

    def of(self, values: Values, before: Values) -> int:
        """The measured number; one that is not positive does not hold.

        Args:
            values: in this frame.
            before: in the last one.
        """
        value = values[self.name] - before[self.name] if self.delta else values[self.name]
        return value if self.operation is None else int(self.operation(value, self.reference))


class Term(NamedTuple):
    """A part of the reward: a measured number times one of two factors."""

    measure: Measure
    reward: float  # factor of positive numbers
    penalty: float  # of negative ones

    def of(self, values: Values, before: Values) -> np.float32 | float:
        """Its contribution in a frame, rounded as stable-retro does."""
        measured = self.measure.of(values, before)
        if not measured:
            return 0.0
        return np.float32(measured) * np.float32(self.reward if measured > 0 else self.penalty)


class Condition(NamedTuple):
    """Whether all or any of some measured numbers and conditions hold."""

    every: bool
    measures: Sequence[Measure]
    conditions: Sequence[Condition]

    def holds(self, values: Values, before: Values) -> bool:
        """Whether it holds in a frame."""
        if self.every:
            return all(each.of(values, before) > 0 for each in self.measures) and all(
                each.holds(values, before) for each in self.conditions
            )
        return any(each.of(values, before) > 0 for each in self.measures) or any(
            each.holds(values, before) for each in self.conditions
        )


class Scenario(NamedTuple):
    """A scenario.json."""

    rewards: tuple[tuple[Term, ...], ...]  # of each player
    constants: tuple[float, ...]  # rewards per frame of each player
    done: Condition
    crops: tuple[Crop, ...]  # of each player
    actions: Groups | None
    scripted: bool = False  # its reward or end is a Lua script, which only stable-retro runs; see `scripted.py`

    @property
    def pays(self) -> bool:
        """Whether the first player has a reward at all."""
        terms = self.rewards[0] if self.rewards else ()
        return self.scripted or any(self.constants[:1]) or any(term.reward or term.penalty for term in terms)

    def reward(self, values: Values, before: Values, player: int = 0) -> float:
        """The reward of a frame."""
        if player >= len(self.rewards):
            return 0.0
        total = np.float32(self.constants[player])
        for term in self.rewards[player]:
            total = np.float32(total + term.of(values, before))
        return float(total)

    def terms(self, values: Values, before: Values) -> dict[str, float]:
        """The parts of the first player's reward of a frame, by what they measure."""
        parts = {"time": self.constants[0]} if self.constants and self.constants[0] else {}
        for term in self.rewards[0] if self.rewards else ():
            parts[term.measure.name] = parts.get(term.measure.name, 0.0) + float(term.of(values, before))
        return parts

    def is_done(self, values: Values, before: Values) -> bool:
        """Whether the episode ends with a frame."""
        return self.done.holds(values, before)

    def crop(self, player: int = 0) -> Crop:
        """What is observed for a player."""
        return self.crops[player] if player < len(self.crops) else Crop()


NOTHING = Scenario((), (), Condition(False, (), ()), (), None)
"""Of a game without a scenario.json: no reward, and no end."""


def load_scenario(file: Path, names: Container[str]) -> Scenario:
    """Read a scenario.json.

    Args:
        names: of the values in memory.

    Raises:
        UserError: it cannot be read, or is invalid where stable-retro would say nothing or fail later.
    """
    try:
        return _Reader(file, names, json.loads(read_text(file))).scenario()
    except (OSError, ValueError) as error:
        raise UserError(f"{file}: cannot read this scenario ({error})") from error
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise UserError(f"{file}: not a scenario of stable-retro ({type(error).__name__}: {error})") from error


class _Reader:
    """Reads one file, and names it in errors."""

    def __init__(self, file: Path, names: Container[str], content: dict[str, Any]) -> None:
        self._file, self._names, self._content = file, names, content

    def scenario(self) -> Scenario:
        content = self._content
        rewards = content.get("rewards") or ([content["reward"]] if "reward" in content else [])
        done = content.get("done", {})
        scripted = "script" in done or any("script" in reward for reward in rewards)
        scripts = content.get("scripts", []) if scripted else []
        if scripted and not scripts:
            raise UserError(f"{self._file}: scripts is missing: the Lua files with its functions")
        for script in scripts:
            if not (self._file.parent / script).is_file():
                raise UserError(f"{self._file}: scripts: there is no file {script!r} beside it")
        crops = content.get("crops") or ([content["crop"]] if "crop" in content else [])
        return Scenario(
            tuple(tuple(self._terms(reward, "reward.variables")) for reward in rewards),
            tuple(self._constant(reward.get("time")) for reward in rewards),
            self._condition(done, "done"),
            tuple(map(self._crop, crops)),
            content.get("actions"),
            scripted,
        )

    def _crop(self, numbers: Any) -> Crop:
        valid = isinstance(numbers, list) and all(isinstance(number, int) and number >= 0 for number in numbers)
        if not valid or len(numbers) != len(Crop._fields):
            raise UserError(f"{self._file}: crop: must be X, Y, WIDTH and HEIGHT, 0 or more, not {numbers!r}")
        return Crop(*numbers)

    def _terms(self, reward: dict[str, Any], key: str) -> list[Term]:
        return [
            Term(self._measure(name, spec, f"{key}.{name}", delta=True), *self._factors(spec, f"{key}.{name}"))
            for name, spec in reward.get("variables", {}).items()
        ]

    def _constant(self, spec: dict[str, Any] | None) -> float:
        if spec is None:
            return 0.0
        term = Term(self._measure("", spec, "reward.time", delta=True), *self._factors(spec, "reward.time"))
        if not term.reward and term.penalty and not spec.get("op"):
            raise UserError(
                f"{self._file}: reward.time.penalty has no effect, as time is never negative: use a negative "
                "reward.time.reward"
            )
        return float(term.of({"": 1}, {"": 0}))

    def _condition(self, spec: dict[str, Any], key: str) -> Condition:
        condition = spec.get("condition", "any")
        self._known(condition, ("any", "all"), f"{key}.condition")
        measures = [
            self._measure(name, of, f"{key}.variables.{name}", delta=False)
            for name, of in spec.get("variables", {}).items()
        ]
        nodes = [self._condition(of, f"{key}.nodes.{name}") for name, of in spec.get("nodes", {}).items()]
        if condition == "all" and not measures and not nodes and spec and "script" not in spec:
            raise UserError(f"{self._file}: {key}: all of no variables hold at once; name some in {key}.variables")
        return Condition(condition == "all", measures, nodes)

    def _measure(self, name: str, spec: dict[str, Any], key: str, delta: bool) -> Measure:
        """Args:
        delta: whether changes are measured if the file does not say.
        """
        if name and name not in self._names:
            known = list(self._names) if isinstance(self._names, Sequence) else []
            near = f"; the nearest is {nearest(name, known)!r}" if known else ""
            raise UserError(f"{self._file}: {key}: data.json has no {name!r} in the console's memory{near}")
        measurement = spec.get("measurement", "delta" if delta else "absolute")
        self._known(measurement, MEASUREMENTS, f"{key}.measurement")
        operation = spec.get("op")
        if operation is None and not delta:
            raise UserError(f"{self._file}: {key}.op is missing; choose from {', '.join(OPERATIONS)}")
        if operation is not None:
            self._known(operation, tuple(OPERATIONS), f"{key}.op")
        reference = int(self._number(spec, "reference", key))
        return Measure(name, measurement == "delta", OPERATIONS.get(operation or ""), reference)

    def _factors(self, spec: dict[str, Any], key: str) -> tuple[float, float]:
        return self._number(spec, "reward", key), self._number(spec, "penalty", key)

    def _number(self, spec: dict[str, Any], name: str, key: str) -> float:
        value = spec.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
            raise UserError(f"{self._file}: {key}.{name} must be a number, not {value!r}")
        return value

    def _known(self, word: Any, words: Sequence[str], key: str) -> None:
        if word not in words:
            raise UserError(f"{self._file}: {key}: unknown {word!r}; the nearest is {nearest(str(word), words)!r}")
