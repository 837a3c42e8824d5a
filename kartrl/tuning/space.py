"""What is searched: keys of the configuration, each with its range or choices, checked against the configuration."""

import itertools
import math
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import optuna
from optuna.distributions import BaseDistribution
from optuna.distributions import CategoricalDistribution as Choices
from optuna.distributions import FloatDistribution as Numbers
from optuna.distributions import IntDistribution as Integers

from kartrl.config import Config, check_override, read
from kartrl.config.algorithms import ALGORITHMS
from kartrl.config.arguments import text_of
from kartrl.config.schedule import Schedule
from kartrl.config.section import kinds, whole_numbers
from kartrl.errors import UserError
from kartrl.files import read_text, user_path

NUMBER = r"[-+]?(?:\d[\d_]*(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?"
RANGE = re.compile(rf"(?P<log>log:)?(?P<low>{NUMBER})(?:\.\.|(?(log):|\.\.))(?P<high>{NUMBER})", re.ASCII)
COMMA = re.compile(r",(?![^(\[{]*[)\]}])")  # not within brackets
FORMS = "LOW..HIGH, log:LOW:HIGH, or choices A,B,C"
OURS = ("run.seed", "run.name", "run.logs", "run.agent_steps", "run.minutes")

MOST_COMBINATIONS = 10_000

Value = str | int | float
Params = Mapping[str, Value]  # key -> value of a trial


class Parameter(NamedTuple):
    """A key that is searched."""

    key: str
    distribution: BaseDistribution
    words: tuple[str, ...] = ("",)  # of the value's text, "" where the number stands; one word unless it is a schedule

    def override(self, value: Value) -> str:
        """The text for `--set`."""
        return f"{self.key}={' '.join(word or str(value) for word in self.words)}"

    def suggest(self, trial: optuna.Trial) -> Value:
        """The trial's value, which it samples if it has none yet."""
        match self.distribution:
            case Choices(choices=choices):
                return str(trial.suggest_categorical(self.key, choices))
            case Integers() as its:
                return trial.suggest_int(self.key, its.low, its.high, log=its.log)
            case Numbers() as its:
                return trial.suggest_float(self.key, its.low, its.high, log=its.log)
        raise TypeError(self.distribution)

    def candidates(self, text: str) -> Iterator[Value]:
        """Values that may stand for this text of a configuration."""
        match self.distribution:
            case Choices(choices=choices):
                yield from map(str, choices)
            case Integers() | Numbers() as its:
                words = text.split()
                if len(words) == len(self.words) and re.fullmatch(NUMBER, word := words[self.words.index("")]):
                    value = float(word)
                    if its.low <= value <= its.high:
                        yield int(value) if isinstance(its, Integers) else value


Space = tuple[Parameter, ...]


def read_space(items: Sequence[str], option: str, config: Config) -> Space:
    """The parameters that arguments `KEY=RANGE`, `KEY=A,B,C`, or names of TOML files, give.

    Args:
        option: `--search`, or `--grid`, for which each has a list of values.
        config: the base configuration.

    Raises:
        UserError: one is not valid, names the nearest key; or one is there twice.
    """
    found: dict[str, Parameter] = {}
    for item in items:
        given = [item.partition("=")[::2]] if "=" in item and not os.path.isfile(user_path(item)) else _in_file(item)
        for name, spec in given:
            parameter = _parse(name.strip(), spec, option, config)
            if parameter.key in found:
                raise UserError(f"{option} {parameter.key}: is there twice")
            found[parameter.key] = parameter
    if not found:
        raise UserError(f"{option} {' '.join(items)}: has no key: expected KEY={FORMS}")
    if option == "--grid":
        if ranged := [key for key, one in found.items() if not isinstance(one.distribution, Choices)]:
            raise UserError(f"--grid {ranged[0]}: needs a list of values, {ranged[0]}=A,B,C; --search takes ranges")
        number = math.prod(len(list(one.candidates(""))) for one in found.values())
        if number > MOST_COMBINATIONS:
            raise UserError(f"--grid: makes {number:,} combinations; more than {MOST_COMBINATIONS:,} are refused")
    return tuple(found.values())


def check_effect(space: Space, config: Config) -> None:
    """Refuse keys of algorithms that no trial uses.

    Raises:
        UserError: names the first one.
    """
    used = {config.algorithm.name}
    for key, distribution, _ in space:
        if key == "algorithm.name" and isinstance(distribution, Choices):
            used |= set(map(str, distribution.choices))
    for section, key in (parameter.key.split(".", 1) for parameter in space):
        if section in ALGORITHMS and section not in used:
            raise UserError(f"{section}.{key}: has no effect, as algorithm.name is {config.algorithm.name}")


def scored_apart(space: Space) -> list[str]:
    """The keys whose values change what a return counts, so that returns of two trials do not compare."""
    pattern = r"reward\.|levels\.|environment\.(kwargs\.|wrapper)|retro\.(scenario|reward)"
    return [key for key, *_ in space if re.match(pattern, key)]


def overrides(space: Space, params: Params) -> list[str]:
    """The texts for `--set` of a trial's parameters."""
    return [parameter.override(params[parameter.key]) for parameter in space]


def shortly(space: Space, params: Params) -> str:
    """A trial's parameters, for a line in the terminal."""
    return ", ".join(f"{one.key} {short(params[one.key])}" for one in space) if params else ""


def short(value: Any) -> str:
    """A value of a trial, for a table."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def grid(space: Space) -> list[dict[str, Value]]:
    """Every combination of choices, in order: the last key changes fastest."""
    lists = [list(parameter.candidates("")) for parameter in space]
    return [dict(zip([one.key for one in space], values, strict=True)) for values in itertools.product(*lists)]


def defaults_in(space: Space, files: Sequence[str], given: Sequence[str]) -> dict[str, Value] | None:
    """The parameters that give the base configuration itself; None if it is not in the space."""
    base, values = read(files, given), {}
    for parameter in space:
        section, _, key = parameter.key.partition(".")
        its = base.environment.kwargs.get(key.partition(".")[2]) if key.startswith("kwargs.") else None
        its = getattr(base.sections.get(section), key, its)
        for value in parameter.candidates(str(its)):
            if _reads_as(base, files, [*given, parameter.override(value)]):
                values[parameter.key] = value
                break
        else:
            return None
    return values


def _reads_as(base: Config, files: Sequence[str], given: Sequence[str]) -> bool:
    try:
        return read(files, given) == base
    except UserError:  # this choice does not go with the other values
        return False


def _in_file(name: str) -> Iterator[tuple[str, Any]]:
    """Keys and their ranges in a TOML file: a string, or a list of choices, each."""
    file = user_path(name)
    try:
        tree = tomllib.loads(read_text(file))
    except OSError as error:
        raise UserError(f"{name}: expected KEY={FORMS}, or a TOML file ({error.strerror or error})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{name}: not valid TOML: {error}") from error
    yield from _leaves(tree, file)


def _leaves(tree: Mapping[str, Any], file: Path, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        match value:
            case dict():
                yield from _leaves(value, file, f"{prefix}{name}.")
            case str():
                yield prefix + name, value
            case list() if value:
                yield prefix + name, [_choice(prefix + name, one, file) for one in value]
            case _:
                raise UserError(f"{file}: {prefix}{name}: must be text, {FORMS}, or a list of choices")


def _choice(key: str, value: Any, file: Path) -> str:
    try:
        return text_of(key, value)
    except (TypeError, ValueError) as error:
        raise UserError(f"{file}: {key}: {str(value)[:80]!r} cannot be a choice ({error})") from error


def _parse(key: str, spec: str | Sequence[str], option: str, config: Config) -> Parameter:
    if key in OURS:
        raise UserError(f"{option} {key}: cannot be searched; tune gives it to each training (--seed, --steps, ...)")
    if key == "environment.id":
        raise UserError(f"{option} {key}: scores of two environments cannot be compared; tune each one: --env ID")
    words = re.sub(rf"(\d)\s*\.\.\s*({NUMBER})", r"\1..\2", spec).split() if isinstance(spec, str) else []
    ranges = [place for place, word in enumerate(words) if RANGE.fullmatch(word)]
    if len(ranges) == 1:
        return _parse_range(key, words, ranges[0], option, config)
    if any(word.startswith("log:") for word in words) or len(ranges) > 1:
        raise UserError(f"{option} {key}={spec}: expected {FORMS}")
    choices = [text.strip() for text in (COMMA.split(spec) if isinstance(spec, str) else spec)]
    for text in choices:
        check_override(f"{key}={text}", option, config)
    if len(choices) < 2 and option == "--search":
        raise UserError(f"{option} {key}={choices[0]}: expected {FORMS}; --set gives one value")
    meant = choices if "kwargs." in key else [_numbers(text) for text in choices]  # an argument 1 is not 1.0
    if twice := [text for place, text in enumerate(choices) if meant[place] in meant[:place]]:
        raise UserError(f"{option} {key}: {twice[0]} is there twice")
    return Parameter(key, Choices(choices))


def _numbers(text: str) -> list[float | str]:
    """The words of a value, numbers by what they are worth: 1e-4 is 0.0001."""
    return [float(word) if re.fullmatch(NUMBER, word) else word for word in text.split()]


def _parse_range(key: str, words: Sequence[str], place: int, option: str, config: Config) -> Parameter:
    found = RANGE.fullmatch(words[place])
    assert found is not None
    low, high, log = (*(found[name].replace("_", "") for name in ("low", "high")), found["log"] is not None)
    template = (*words[:place], "", *words[place + 1 :])
    for bound in (low, high):
        check_override(f"{key}={' '.join(word or bound for word in template)}", option, config)
    integers = [re.fullmatch(r"[-+]?\d+", whole_numbers(bound)) is not None for bound in (low, high)]
    section, _, name = key.partition(".")
    known = frozenset[Any]()
    if not name.startswith("kwargs."):
        known = kinds(type(config.sections[section]), name) if section in config.sections else known
        if bool in known or not {int, float, Schedule} & known:
            raise UserError(f"{option} {key}: takes no range; list its choices: {key}=A,B,C")
    whole = all(integers) and not {float, Schedule} & known
    lowest, highest = float(low), float(high)
    if not -math.inf < lowest < highest < math.inf:
        raise UserError(f"{option} {key}={words[place]}: {low} must be less than {high}")
    if log and lowest <= 0:
        raise UserError(f"{option} {key}={words[place]}: a range by log must begin above 0")
    if whole:
        first, last = int(whole_numbers(low)), int(whole_numbers(high))
        return Parameter(key, Integers(first, last, log), template)
    return Parameter(key, Numbers(lowest, highest, log), template)
