"""Plain-language messages: pydantic's validation errors, and the nearest valid name."""

import difflib
from collections.abc import Iterable, Sequence

from pydantic_core import ErrorDetails

_INTEGER, _NUMBER = "must be an integer", "must be a number"
_WORDS = {
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be {ge} or more",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be {le} or less",
    "finite_number": "must be a finite number",
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "int_type": _INTEGER,
    "int_parsing": _INTEGER,
    "int_parsing_size": _INTEGER,
    "int_from_float": _INTEGER,
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "literal_error": "must be {expected}",
    "string_type": "must be text",
    "string_too_short": "must not be empty",
    "string_pattern_mismatch": "is not a valid name",
    "tuple_type": "must be a list, [ ... ]",
    "dict_type": "must be a table, {{ ... }}",
    "model_type": "must be a table, {{ ... }}",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
    "missing": "is missing",
    "extra_forbidden": "is unknown",
}


def word(error: ErrorDetails) -> str:
    """An error as a phrase that follows the name of its value."""
    context = {
        name: f"{value:g}" if isinstance(value, float) else value for name, value in error.get("ctx", {}).items()
    }
    if error["type"] in ("value_error", "assertion_error"):
        return str(context["error"])
    return _WORDS.get(error["type"], "is not valid").format(**context)


def word_all(errors: Iterable[ErrorDetails]) -> str:
    """Several errors of one value as one phrase: it would be valid if any one of them were fixed."""
    words = list(dict.fromkeys(map(word, errors)))
    return " or ".join([*words[:1], *(text.removeprefix("must be ") for text in words[1:])])


def nearest(name: str, known: Sequence[str]) -> str:
    """The one of `known`, at least one, that is most similar to a name."""
    by_letters = {each.lower(): each for each in known}
    return by_letters[difflib.get_close_matches(name[:80].lower(), by_letters, n=1, cutoff=0.0)[0]]
