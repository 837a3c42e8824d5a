"""Lines and tables in the terminal; a table is made to fit, and keeps all of its names."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from rich.box import Box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table


def make_console(**options: Any) -> Console:
    """Where kartrl prints; nothing in a name, such as mine:Snake or [a], is an emoji or markup. `options`: rich's."""
    return Console(emoji=False, markup=False, **options)


def say(console: Console, text: object, style: str = "") -> None:
    """Print text as it is: in one line, however long, and nothing in it is markup."""
    console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)


class Line(NamedTuple):
    """A row of a table."""

    name: str
    cells: Sequence[str]  # one for each heading
    note: str = ""  # after the name
    bold: bool = False
    level: bool = True  # whether the name is that of a level, which may have a prefix in common with others


def fitted(
    heading: str, headings: Sequence[str], sections: Sequence[Sequence[Line]], width: int, box: Box | None
) -> Table:
    """A table at most `width` characters wide, if its names allow it.

    If it is too wide, the common prefix of all level names ("MarioCircuit.") moves into the heading; if it still is,
    columns are left out, the rightmost first: the most important ones are on the left.

    Args:
        sections: rows, with a line between sections.
    """
    lines = [line for section in sections for line in section]
    shared = _shared_part([line.name for line in lines if line.level])
    columns = [[line.cells[k] for line in lines] for k in range(len(headings))]
    whole = [_width([text, *cells]) for text, cells in zip(headings, columns, strict=True)]
    broken = [_width([*text.split(), *cells]) for text, cells in zip(headings, columns, strict=True)]
    ways = [(heading, 0, whole), (heading, 0, broken), (shared.rstrip(".") or heading, len(shared), broken)]
    edge, between = (2, 2) if box is None else (4, 3)
    for title, cut, widths in ways:
        first = _width([title, *(_label(line, cut) for line in lines)])
        room = width - first - edge
        if sum(widths) + between * len(widths) <= room:
            break
    while widths and sum(widths) + between * len(widths) > room:
        widths.pop()
    table = Table(box=box, expand=box is None, header_style="dim" if box is None else "bold")
    table.add_column(title, overflow="fold", width=min(first, width - edge))
    for text, column_width in zip(headings, widths, strict=False):
        table.add_column(text, justify="right", width=column_width)
    for section in sections:
        for line in section:
            cells = line.cells[: len(widths)]
            table.add_row(_label(line, cut), *cells, style="bold" if line.bold else "")
        table.add_section()
    return table


def _label(line: Line, cut: int) -> str:
    return (line.name[cut:] if line.level else line.name) + line.note


def _width(texts: Sequence[str]) -> int:
    return max(map(cell_len, texts), default=0)


def _shared_part(names: Sequence[str]) -> str:
    """The common prefix of all names, up to a dot; "" for a single name."""
    if len(set(names)) < 2:
        return ""
    first, last = min(names), max(names)
    same = next((k for k, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[: first.rfind(".", 0, same) + 1]
