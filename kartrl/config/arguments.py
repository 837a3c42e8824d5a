"""Arguments of an environment's constructor, `kwargs.NAME = VALUE` in [environment]: parsing and rendering values."""

import ast
import math
import re
import warnings
from typing import Any

CONSTANTS = {"true": "True", "false": "False", "none": "None", "null": "None"}
OURS = ("id", "disable_env_checker")  # arguments of `gymnasium.make` that kartrl sets itself
PREFIX = "kwargs"
MOST_NESTED = 50  # brackets; Python's parser may exhaust a thread's stack with thousands
_TOKEN = r"""(?x) [\s,:]++ | [\[\](){}] | '(?:[^'\\]|\\.)*+' | "(?:[^"\\]|\\.)*+" | \b(?:true|false|none|null)\b
    | [-+]?\s*+ (?:\d|\.\d)[\w.]*+ (?:(?<=e)[-+]\d++)? (?![-+])"""
_LITERAL = re.compile(f"{_TOKEN[:4]}(?:{_TOKEN[4:]})++", re.IGNORECASE)


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
    """The text's value: a Python literal (numbers, quoted text, tuples, lists, dicts and sets), else the text itself.

    `true`, `false`, `none` and `null` are constants in any case. Numbers that are not finite remain text.
    """
    if _LITERAL.fullmatch(text) is None:
        return text
    tokens = re.findall(_TOKEN, text, re.IGNORECASE)
    depth = most = 0
    for token in tokens:
        depth += (token in "([{") - (token in ")]}")
        most = max(most, depth)
    if most > MOST_NESTED:
        return text
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of "\d" in quotes
            value = ast.literal_eval("".join(CONSTANTS.get(token.lower(), token) for token in tokens))
        render(value)
    except (ValueError, SyntaxError, TypeError):  # no literal, or an element that cannot be hashed
        return text
    return value


def render(value: Any) -> str:
    """The value as one line of text, which `parse` reads back.

    Raises:
        ValueError: it contains a non-finite number.
        TypeError: it contains a value that has no literal.
    """
    value = _plain(value)
    match value:
        case None | bool():
            return str(value).lower()
        case float() if not math.isfinite(value):
            raise ValueError(f"{value} has no literal")
        case int() | float() | str():  # or a subclass, such as NumPy's, whose form is another
            return repr(next(kind(value) for kind in (int, float, str) if isinstance(value, kind)))
        case list():
            return f"[{', '.join(map(render, value))}]"
        case tuple():
            return f"({', '.join(map(render, value))}{',' * (len(value) == 1)})"
        case set() if value:
            return f"{{{', '.join(sorted(map(render, value)))}}}"
        case dict():
            return f"{{{', '.join(f'{render(key)}: {render(item)}' for key, item in value.items())}}}"
    raise TypeError(f"{type(value).__name__} has no literal")


def text_of(key: str, value: Any) -> str:
    """The text that gives a key, such as `environment.kwargs.size`, this value; a value that is text stays as it is.

    Raises:
        ValueError, TypeError: see `render`.
    """
    plain = _plain(value)
    if isinstance(plain, str):
        return plain
    if key.startswith(f"environment.{PREFIX}."):
        return render(plain)
    if isinstance(plain, list | tuple):
        return " ".join(map(str, plain))
    return str(plain).lower() if plain is None or isinstance(plain, bool) else str(plain)


def _plain(value: Any) -> Any:
    """A value of NumPy's types as one of Python's; others as they are."""
    return value.tolist() if hasattr(value, "tolist") else value
