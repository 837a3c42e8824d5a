"""The fields of the JSON that commands print, as docs/reference/json.md lists them."""

import re
from collections.abc import Iterator
from typing import Any

from commands import ROOT

ROW = re.compile(r"^\| (?:`([^`]+)` )?\| (.+) \|$", re.MULTILINE)  # object, its fields


def documented(command: str, table: int = 0) -> list[str]:
    """The fields in one of the tables of a command's section, with the object that each is in."""
    section = re.split(r"^## ", (ROOT / "docs" / "reference" / "json.md").read_text(), flags=re.MULTILINE)
    (text,) = [part for part in section if part.startswith(f"{command}\n")]
    rows = ROW.findall(text.split("| object |")[table + 1].partition("|---|---|")[2].partition("\n\n")[0])
    return [place + field for place, fields in rows for field in re.findall("`([^`]+)`", fields)]


def check_fields(printed: dict[str, Any], fields: list[str]) -> None:
    """Check that an object has exactly these fields, and the version first.

    Those within a null or an empty list cannot be seen.
    """
    assert next(iter(printed)) == "kartrl"
    found = {*_leaves({key: value for key, value in printed.items() if key != "kartrl"})}
    patterns = {field: re.escape(field).replace(r"\*", r".+") for field in fields}
    unknown = [leaf for leaf in found if not any(_may_be(leaf, field, patterns[field]) for field in fields)]
    absent = [field for field in fields if not any(_may_be(leaf, field, patterns[field]) for leaf in found)]
    assert (unknown, absent) == ([], [])


def _may_be(leaf: str, field: str, pattern: str) -> bool:
    """Whether a printed value is the field, or is a null or an empty list where it would be."""
    return re.fullmatch(pattern, leaf.removesuffix("?")) is not None or (
        leaf.endswith("?") and field.startswith((f"{leaf[:-1]}.", f"{leaf[:-1]}["))
    )


def _leaves(value: Any, place: str = "") -> Iterator[str]:
    """The places of all values; those of nulls and of empty lists and objects end in "?"."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, f"{place}.{key}" if place else key)
    elif isinstance(value, list) and value:
        for inner in value:
            yield from _leaves(inner, f"{place}[]")
    else:
        yield f"{place}?" if value in (None, [], {}) else place
