"""What `auto` chose: a value that stands in the configuration as `auto (2)`, and is used as the 2 that it is."""

import re
from collections.abc import Container
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kartrl.config.config import Config

TEXT = re.compile(r"auto \((.+)\)")


class ChosenNumber(int):
    """A number that `auto` chose."""


class ChosenName(str):
    """A name that `auto` chose, such as a device's."""


Chosen = ChosenNumber | ChosenName


def chosen(value: int | str) -> Chosen:
    """This value, as one that `auto` chose."""
    return ChosenNumber(value) if isinstance(value, int) else ChosenName(value)


def is_auto(value: Any) -> bool:
    """Whether the user left this value to `auto`, which may have chosen it since."""
    return value == "auto" or isinstance(value, Chosen)


def unchosen(config: "Config", kept: Container[str] = ()) -> "Config":
    """The configuration with `auto` in place of what it chose, except for the keys `kept`, as section.key."""
    sections = {}
    for name, section in config.sections.items():
        keys = {key for key, value in section if isinstance(value, Chosen) and f"{name}.{key}" not in kept}
        if keys:
            sections[name] = section.model_copy(update=dict.fromkeys(keys, "auto"))
    return config.replaced(**sections) if sections else config
