"""`kartrl play --memory`: commands that emulate frames and search the console's memory for a game's variables."""

import contextlib
import json
import operator
import os
import select
from collections.abc import Callable, Iterator

from kartrl.config.wording import nearest
from kartrl.console.search import CHANGES, COMPARISONS, Search
from kartrl.errors import UserError
from kartrl.retro.buttons import encode
from kartrl.retro.console import RetroConsole

LISTED = 20  # values that are printed
LONGEST = 100_000  # frames of a command
QUIT = "quit"
HELP = f"""\
FRAMES [BUTTONS]  emulate frames, with these buttons held, such as: 60 right+b
restart           begin again at the start state
= N               keep the values that are N; also != < > <= >=
{", ".join(CHANGES)}
                  keep those that changed since the last search, stayed the same, increased, decreased; up N and
                  down N: by N
list              the values that are left, as lines for data.json
new               search all of the memory again
values            those that data.json names
{QUIT}"""


class MemoryView:
    """Takes commands, see `HELP`.

    Args:
        console: its memory is searched.
        advance: emulates a frame with these buttons held.
        begin: begins again at the start state.
    """

    def __init__(self, console: RetroConsole, advance: Callable[[int], object], begin: Callable[[], object]) -> None:
        self._console, self._advance, self._begin = console, advance, begin
        self._search = Search(console.game.system.word)

    def answer(self, line: str) -> bool:
        """Obey a command and print what it gives; returns whether to continue."""
        if line.strip() == QUIT:
            return False
        try:
            for each in self.take(line):
                print(each, flush=True)
        except UserError as error:
            print(error, flush=True)
        return True

    def take(self, line: str) -> Iterator[str]:
        """Obey a command; gives lines to print.

        Raises:
            UserError: there is no such command, or button.
        """
        word, *arguments = line.split() or ["help"]
        console = self._console
        if word.isdecimal() and len(arguments) <= 1:
            names = [] if not arguments or arguments == ["none"] else arguments[0].upper().split("+")
            held = encode(names, console.game.system.buttons, line)
            for _ in range(min(int(word), LONGEST)):
                self._advance(held)
            yield from self._named()
        elif word == "restart":
            self._begin()
            yield from self._named()
        elif word == "new":
            self._search = Search(console.game.system.word)
        elif word == "values":
            yield from self._named()
        elif word == "list":
            yield from self._left()
        elif (fits := _condition(word, arguments)) is not None:
            left = self._search.filter(console.opened().memory, fits)
            yield f"{left:,} left"
            if left <= LISTED:
                yield from self._left()
        elif word == "help":
            yield HELP
        else:
            known = [*COMPARISONS, *CHANGES, "list", "new", "restart", "values", QUIT, "help"]
            raise UserError(f"no such command: {line!r}; the nearest is {nearest(word, known)!r}, and help lists all")

    def _named(self) -> Iterator[str]:
        if values := self._console.values():
            yield "  ".join(f"{name} {value}" for name, value in values.items())

    def _left(self) -> Iterator[str]:
        for address, kind, value in self._search.found(LISTED):
            yield f'{value:>12}  "NAME": {json.dumps({"address": address, "type": kind})},'


def converse(view: MemoryView) -> None:
    """Take commands from the terminal until its end."""
    print(HELP, flush=True)
    with contextlib.suppress(EOFError):
        while view.answer(input("> ")):
            pass


class Typed:
    """Commands that are typed in the terminal meanwhile.

    Args:
        terminal: its file descriptor.
    """

    def __init__(self, terminal: int = 0) -> None:
        print(HELP, flush=True)
        self._terminal, self._begun, self._open = terminal, b"", True

    def lines(self) -> Iterator[str]:
        """Those typed since the last call."""
        while self._open and select.select([self._terminal], [], [], 0)[0]:
            read = os.read(self._terminal, 4096)
            self._open = bool(read)
            *lines, self._begun = (self._begun + read).split(b"\n")
            yield from (line.decode(errors="replace") for line in lines)


def _condition(word: str, arguments: list[str]) -> Callable[..., object] | None:
    """What a search keeps, of values and of what they were; None: the command is no search."""
    numbers = [int(argument) for argument in arguments if argument.removeprefix("-").isdecimal()]
    if len(numbers) != len(arguments) or len(numbers) > 1:
        return None
    if word in COMPARISONS and numbers:
        compare = COMPARISONS[word]
        return lambda values, _: compare(values, numbers[0])
    if word in ("up", "down") and numbers:
        step = numbers[0] if word == "up" else -numbers[0]
        return lambda values, before: operator.eq(values - before, step)
    if word in CHANGES and not numbers:
        changed = CHANGES[word]
        return lambda values, before: changed(values - before)
    return None
