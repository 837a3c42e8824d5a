"""Arguments of an environment's constructor, `kwargs.NAME = VALUE` in [environment]: typed values as text and back."""

import json
from typing import Any

CONSTANTS = {"true": True, "false": False, "none": None, "null": None}
OURS = ("id", "render_mode", "disable_env_checker")  # arguments of `gymnasium.make` that kartrl gives
PREFIX = "kwargs"


def is_argument(key: str) -> bool:
    """Whether a key of [environment] is an argument."""
    return key.partition(".")[0] == PREFIX


def name_of(key: str) -> str:
    """`continuous` of `kwargs.continuous`."""
    return key.partition(".")[2]


def mistake(key: str) -> str | None:
    """What is wrong with the key of an argument, in one line; None if it is valid."""
    name = name_of(key)
    if not name.isidentifier():
        return "expected kwargs.NAME, a key for each argument, as in kwargs.continuous = false"
    return "kartrl gives this argument itself" if name in OURS else None


def parse(text: str) -> Any:
    """A constant in any case, or what the text means as JSON (numbers, "quoted text", lists); else the text itself."""
    if text.lower() in CONSTANTS:
        return CONSTANTS[text.lower()]
    try:
        value = json.loads(text)
        render(value)
    except (ValueError, RecursionError):  # no JSON, a number that is not finite, or a stranger's thousand brackets
        return text
    return value


def render(value: Any) -> str:
    """The text of a value, in one line; `parse` gives the value back.

    Raises:
        ValueError: it holds a number that is not finite.
    """
    return json.dumps(value, allow_nan=False)
