"""Reading a configuration."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kartrl.config import Config, read


def read_config(files: str | Path | Sequence[str | Path] = (), overrides: Mapping[str, Any] | None = None) -> Config:
    """Read a configuration: the defaults, then each file, then the overrides.

    Args:
        files: an INI file or the name of a bundled configuration, such as "cartpole"; or several.
        overrides: "section.key" -> value, such as `{"run.seed": 2, "model.core": "lstm"}`.

    Raises:
        UserError: a file cannot be read, or a section, key or value is invalid; it names the nearest valid one.
    """
    names = [files] if isinstance(files, str | Path) else files
    return read(names, settings_of(overrides))


def settings_of(overrides: Mapping[str, Any] | None) -> list[str]:
    """Overrides as on the command line, `section.key=value`."""
    return [f"{key}={_text(value)}" for key, value in (overrides or {}).items()]


def _text(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
