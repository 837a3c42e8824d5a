"""Reading a configuration."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kartrl.config import Config, read
from kartrl.errors import UserError
from kartrl.library.functions import reference


def read_config(files: str | Path | Sequence[str | Path] = (), overrides: Mapping[str, Any] | None = None) -> Config:
    """Read a configuration: the defaults, then each file, then the overrides.

    Args:
        files: an INI file, the name of a bundled configuration, such as "cartpole", or the .json card of an exported
            ONNX file, for its environment; or several.
        overrides: "section.key" -> value, such as `{"run.seed": 2, "model.core": "lstm"}`. Keys that name a function
            take the function itself: `{"environment.id": make_env}`, one that returns a Gymnasium environment, also a
            class; `environment.wrapper`. kartrl's processes import it: it must be at the top level of a file.

    Raises:
        UserError: a file cannot be read, or a section, key or value is invalid; it names the nearest valid one;
            or other processes could not import a function.
    """
    names = [files] if isinstance(files, str | Path) else files
    cards = [name for name in names if Path(name).suffix == ".json"]
    settings = [setting for card in cards for setting in settings_of(_settings_in(Path(card)))]
    return read([name for name in names if name not in cards], [*settings, *settings_of(overrides)])


def _settings_in(card: Path) -> dict[str, Any]:
    """The settings of the environment for which a policy was exported.

    Raises:
        UserError: the file cannot be read, or is no such card.
    """
    try:
        settings = json.loads(card.read_bytes())["environment"]["settings"]
        return {str(key): value for key, value in settings.items()}
    except OSError as error:
        raise UserError(f"{card}: cannot read this card ({error.strerror or error})") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"{card}: is not the card of an exported ONNX file") from error


def settings_of(overrides: Mapping[str, Any] | None) -> list[str]:
    """Overrides as on the command line, `section.key=value`."""
    return [f"{key}={_text(key, value)}" for key, value in (overrides or {}).items()]


def _text(key: str, value: Any) -> str:
    if callable(value):
        return reference(value, key)
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
