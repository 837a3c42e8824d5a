"""Arguments of an environment's constructor, `kwargs.NAME = VALUE` in [environment]: parsing and rendering values."""

import json
from typing import Any

CONSTANTS = {"true": True, "false": False, "none": None, "null": None}
OURS = ("id", "render_mode", "disable_env_checker")  # arguments of `gymnasium.make` that kartrl sets itself
PREFIX = "kwargs"


def is_argument(key: str) -> bool:
    """Whether a key of [environment] is a constructor argument."""
    return key.partition(".")[0] == PREFIX


def name_of(key: str) -> str:
    """`continuous` of `kwargs.continuous`."""
    return key.partition(".")[2]


def mistake(key: str) -> str | None:
    """What is wrong with an argument's key, in one line; None if it is valid."""
    name = name_of(key)
    if not name.isidentifier():
        return "expected kwargs.NAME, one key per argument, as in kwargs.continuous = false"
    return "kartrl sets this argument itself" if name in OURS else None


def parse(text: str) -> Any:
    """The text's value as a constant in any case, or as JSON (numbers, "quoted text", lists); else the text itself."""
    if text.lower() in CONSTANTS:
        return CONSTANTS[text.lower()]
    try:
        value = json.loads(text)
        render(value)
    except (ValueError, RecursionError):  # not JSON, a non-finite number, or thousands of nested brackets
        return text
    return value


def render(value: Any) -> str:
    """The value as one line of text, which `parse` reads back.

    Raises:
        ValueError: it contains a non-finite number.
    """
    return json.dumps(value, allow_nan=False)
