"""The configuration as INI text: read, merged, validated, dumped.

`default.cfg` is `dump(Config())`; any other file holds what differs from it.
"""

import configparser
import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError

from kartrl.config.algorithms import A2C, Algorithm, Impala
from kartrl.config.levels import Levels, merged, mistake
from kartrl.config.section import Section
from kartrl.config.sections import Environment, Evaluation, Model, Optimizer, Reward, Run, System
from kartrl.errors import UserError


class Config(Section):
    """The whole configuration."""

    run: Run = Run()
    system: System = System()
    environment: Environment = Environment()
    reward: Reward = Reward()
    levels: Levels = Levels()
    model: Model = Model()
    algorithm: Algorithm = Algorithm()
    impala: Impala = Impala()
    a2c: A2C = A2C()
    optimizer: Optimizer = Optimizer()
    evaluation: Evaluation = Evaluation()


Values = dict[str, dict[str, str]]
HINTS = (
    "the game's own circuits by name or glob (*.Act1), start states and circuit files by path, folder or glob",
    "(mine/, a/*.state), and generated ones: random:100 (numbers 0 to 99), random:100-119, random:100:ice; of two keys",
    "for one circuit the last counts",
)


def read(files: Sequence[str | Path] = (), overrides: Iterable[str] = (), base: str = "") -> Config:
    """Defaults, then `base` (a dumped configuration), then each file, then each `section.key=value`.

    Raises:
        UserError: a file cannot be read, or a section, key or value is not valid; it names the nearest valid one.
    """
    values: Values = {}
    if base:
        _merge(values, _parse(base, "the stored configuration"), "the stored configuration")
    for file in files:
        try:
            text = Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{file}: cannot read this configuration ({_reason(error)})") from error
        _merge(values, _parse(text, str(file)), str(file))
    for override in overrides:
        name, equals, value = override.partition("=")
        section, dot, key = name.strip().partition(".")
        if not (equals and dot):
            raise UserError(
                f"--set {_short(override)}: expected section.key=value, as in --set optimizer.learning_rate=0.001"
            )
        _merge(values, {section: {key: value.strip()}}, f"--set {_short(override)}")
    return _validate(values, str(files[-1]) if files else "--set")


def dump(config: Config) -> str:
    """The configuration as INI text, each section and key with its one-line explanation."""
    lines: list[str] = []
    for name in Config.model_fields:
        section = getattr(config, name)
        lines += [f"# {(type(section).__doc__ or '').splitlines()[0]}", f"[{name}]"]
        if isinstance(section, Levels):
            lines += [f"# {line}" for line in HINTS]
            lines += [f"{circuit} = {use}" for circuit, use in section.circuits.items()]
        else:
            for key, info in type(section).model_fields.items():
                lines += [f"# {info.description}", f"{key} = {_text(getattr(section, key))}"]
        lines.append("")
    return "\n".join(lines)


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _short(text: str, limit: int = 80) -> str:
    """A stranger's text for a message: in one line, and not long."""
    return repr(text[:limit])[1:-1][:limit]


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def _parse(text: str, source: str) -> Values:
    parser = configparser.ConfigParser(
        interpolation=None, default_section="\0", comment_prefixes="#", delimiters=("=",)
    )
    parser.optionxform = str  # type: ignore[assignment, method-assign]  # names of circuits have capitals
    try:
        parser.read_string(text, source)
    except configparser.Error as error:
        raise UserError(f"{source}: not a valid configuration: {_short(' '.join(str(error).split()), 200)}") from error
    return {
        name: {key: " ".join(value.splitlines()) for key, value in parser[name].items()} for name in parser.sections()
    }


def _merge(values: Values, new: Values, source: str) -> None:
    for section, keys in new.items():
        if section not in Config.model_fields:
            _unknown(source, f"section [{_short(section)}]", section, list(Config.model_fields))
        for key, value in keys.items():
            if section == "levels":
                if (wrong := mistake(key)) is not None:
                    raise UserError(f"{source}: [levels] {_short(key)}: {wrong}")
                values.get(section, {}).pop(key, None)  # what is said later counts
            elif key not in (known := list(getattr(Config(), section).__class__.model_fields)):
                _unknown(source, f"key '{_short(key)}' in [{section}]", key, known)
            if not value.isprintable():  # it could not be written to a file and read again
                raise UserError(
                    f"{source}: [{section}] {key}: holds characters that cannot be printed (got '{_short(value)}')"
                )
            values.setdefault(section, {})[key] = value
            _validate({section: {key: value}}, source, only=(section, key))


def _unknown(source: str, what: str, name: str, known: Sequence[str]) -> NoReturn:
    near = difflib.get_close_matches(name[:80], known, n=1, cutoff=0.0)
    raise UserError(f"{source}: unknown {what}; the nearest valid one is {near[0]!r}")


def _validate(values: Values, source: str, only: tuple[str, str] | None = None) -> Config:
    """The configuration of these values; with `only`, just errors of that key count (others may yet be overridden)."""
    tree: dict[str, Any] = dict(values)
    if "levels" in tree:
        tree["levels"] = {"circuits": merged(tree["levels"])}
    try:
        return Config.model_validate(tree)
    except ValidationError as errors:
        for error in errors.errors():
            path = [str(part) for part in error["loc"] if part != "circuits"]
            if only is not None and tuple(path[:2]) != only:
                continue
            message = error["msg"].removeprefix("Value error, ")
            given = f" (got {repr(error['input'])[:80]})" if len(path) > 1 else ""
            raise UserError(
                f"{source}: [{path[0]}] {' '.join(path[1:2])}: {message}{given}".replace(" :", ":")
            ) from errors
        return Config()
