"""Reading a configuration."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kartrl.config import Config, read
from kartrl.config.arguments import text_of
from kartrl.errors import UserError, brief
from kartrl.files import explained
from kartrl.library.functions import reference


def read_config(files: str | Path | Sequence[str | Path] = (), overrides: Mapping[str, Any] | None = None) -> Config:
    """Read a configuration: the defaults, then each file, then the overrides.

    Args:
        files: an INI file, the name of a bundled configuration, such as "cartpole", or the .json card of an exported
            ONNX file, for its environment; or several.
        overrides: "section.key" -> value, such as `{"run.seed": 2, "model.core": "lstm"}`. Keys that name a function
            take the function itself: `{"environment.id": make_env}`, one that returns a Gymnasium environment, also a
            class; `environment.wrapper`. kartrl's processes import it: it must be at the top level of a file. A value
            that is text is read as on the command line: `{"environment.kwargs.name": "'3'"}` for the text 3.

    Raises:
        UserError: a file cannot be read, or a section, key or value is invalid; it names the nearest valid one;
            or other processes could not import a function.
    """
    names = [files] if isinstance(files, str | Path) else files
    if not isinstance(names, Sequence) or not all(isinstance(name, str | Path) for name in names):
        raise UserError(f"read_config: files must be names or paths (got {str(files)[:80]!r})")
    cards = [name for name in names if Path(name).suffix == ".json"]
    settings = [setting for card in cards for setting in settings_of(_settings_in(Path(card)))]
    return read([name for name in names if name not in cards], [*settings, *settings_of(overrides)])


def _settings_in(card: Path) -> dict[str, Any]:
    """The settings of the environment for which a policy was exported.

    Raises:
        UserError: the file cannot be read, or is no such card.
    """
    try:
        with explained(card, "read this card"):
            settings = json.loads(card.read_bytes())["environment"]["settings"]
        return {str(key): value for key, value in settings.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"{card}: is not the card of an exported ONNX file") from error


def settings_of(overrides: Mapping[str, Any] | None) -> list[str]:
    """Overrides as on the command line, `section.key=value`.

    Raises:
        UserError: they are no mapping, or a value can be in no configuration.
    """
    if overrides is not None and not isinstance(overrides, Mapping):
        raise UserError(f"overrides: must be a dict, such as {{'run.seed': 2}} (got {str(overrides)[:80]!r})")
    return [f"{key}={_text(str(key), value)}" for key, value in (overrides or {}).items()]


def _text(key: str, value: Any) -> str:
    try:
        if callable(value) and not key.startswith("environment.kwargs."):
            return reference(value, key)
        return text_of(key, value)
    except (TypeError, ValueError) as error:
        text = brief(value, 80)
        raise UserError(
            f"{key} = {text}: an argument of an environment is made of finite numbers, text, True, False and None, in "
            f"lists, tuples, sets and dicts ({error})"
        ) from error


def checked_config(config: Any, name: str) -> Config:
    """The configuration, if it is one.

    Raises:
        UserError: it is something else, given to the function of this name.
    """
    if not isinstance(config, Config):
        given = brief(config, 80)
        raise UserError(f"{name}: the configuration must be one of kartrl.read_config's (got {given!r})")
    return config


def as_names(levels: str | Sequence[str]) -> Sequence[str]:
    """The names of levels that were given, several or one alone."""
    return [levels] if isinstance(levels, str) else levels
