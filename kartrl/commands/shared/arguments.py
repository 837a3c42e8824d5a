"""Shared parts of the commands' arguments: the parser, and options for the configuration and the policy."""

import argparse
import difflib
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from kartrl.errors import UserError
from kartrl.files import user_path
from kartrl.options import POLICY, positive

Command = Callable[[argparse.Namespace], int]  # returns the exit status
EXIT_STATUS = 2  # for bad input
FILM_STEPS = 9000  # agent steps of an episode that is filmed: ten minutes of a kart or an Atari game


class Parser(argparse.ArgumentParser):
    """A parser whose help ends with examples, and which suggests the nearest command for an unknown one.

    Args:
        examples: as typed, without "kartrl".
        on_use: called with the parser before it parses, to add its arguments lazily.
    """

    def __init__(
        self, *, examples: Sequence[str] = (), on_use: "Callable[[Parser], None] | None" = None, **options: Any
    ) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **options)
        self._commands: Any = None
        self._on_use = on_use
        self.show(*examples)

    def show(self, *examples: str) -> None:
        """End the help with these examples."""
        self.epilog = "\n".join(["examples:", *(f"  kartrl {example}" for example in examples)]) if examples else None

    def runs(self, command: Command, *examples: str) -> None:
        """Set the command to run with the parsed options, and its examples in the help."""
        self.set_defaults(run=command)
        self.show(*examples)

    def command_of(self, words: Sequence[str]) -> "Parser | None":
        """The parser of the command, or action of one, among these words, with its arguments; None if there is none."""
        name = next((word for word in words if self._commands is not None and word in self._commands.choices), None)
        if name is None:
            return None
        parser: Parser = self._commands.choices[name]
        if parser._on_use is not None:
            parser._on_use(parser)
            parser._on_use = None
        return parser.command_of(words) or parser

    def arguments(self) -> list[argparse.Action]:
        """All arguments, for completion."""
        return self._actions

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self._on_use is not None:
            self._on_use(self)
        known, left = super().parse_known_args(args, namespace)
        if left and self._commands is None:  # the parser of all commands would refer to its own help
            hint = "; a level is -l A, several levels are A,B or -l A -l B" * ("-l" in self._option_string_actions)
            self.error(f"unrecognized arguments: {' '.join(left)}{hint}")
        return known, left

    def add_subparsers(self, **options: Any) -> Any:
        self._commands = super().add_subparsers(**options)
        return self._commands

    def error(self, message: str) -> NoReturn:
        """Print one line about bad input, and exit with status 2."""
        wrong = re.search(r"invalid choice: '([^']*)'", message)
        if wrong is not None and self._commands is not None:
            known = list(self._commands.choices)
            near = difflib.get_close_matches(wrong[1], known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(known)}"
            message = f"unknown command {wrong[1][:40]!r}: {hint}"
        self.exit(EXIT_STATUS, f"{self.prog}: {message} (see {self.prog} --help)\n")


def add_policy(parser: argparse.ArgumentParser, text: str = "the network that drives", several: bool = False) -> None:
    """Add the arguments that select the network, or `several`, and how it acts; see `policies_of`."""
    about = f"{text}: {POLICY} (default, and checkpoint.pt: the newest run's best, else the bundled one)"
    more = "; several are compared in a table" * several
    parser.add_argument("runs", nargs="*" if several else "?", metavar="RUN", type=policy, help=about + more)
    parser.add_argument("-p", "--checkpoint", metavar="RUN", type=policy, help="the same as RUN")
    add_driving(parser)


def policies_of(options: argparse.Namespace) -> list[str | None]:
    """The names given to the arguments of `add_policy`; one that is None if there are none.

    Raises:
        UserError: they are given both ways.
    """
    runs = options.runs if isinstance(options.runs, list) else [options.runs] * (options.runs is not None)
    if runs and options.checkpoint is not None:
        raise UserError(f"-p {options.checkpoint}: name a policy one way, as {runs[0]} or with -p")
    return runs or [options.checkpoint]


def policy(name: str) -> str | None:
    """An argparse `type`: `checkpoint.pt`, unless there is such a file, is the default: what training has made."""
    return None if name == "checkpoint.pt" and not Path(name).exists() else os.path.expanduser(name)


def add_driving(parser: argparse.ArgumentParser) -> None:
    """Add the options for how a network acts."""
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument(
        "--greedy", dest="greedy", action="store_true", default=True, help="take the most probable action (default)"
    )
    choice.add_argument("--sampled", dest="greedy", action="store_false", help="sample actions from the policy")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda", "mps"), default="auto")


def add_max_steps(parser: argparse.ArgumentParser, film: bool) -> None:
    """Add the option that limits an episode; `film`: of a film."""
    default = f"{FILM_STEPS:,}" if film else "the run's evaluation.max_steps, 108,000 unless set"
    parser.add_argument(
        "--max-steps",
        type=positive,
        default=FILM_STEPS if film else None,
        metavar="N",
        help=f"truncate an episode{' that is filmed' * film} after N agent steps (default {default})",
    )


def add_levels(parser: argparse.ArgumentParser, text: str, one: bool = False) -> None:
    """Add the option that names levels; it takes one argument at a time, so that it cannot take what follows.

    record.py has it as -s too.

    Args:
        one: whether only one level is possible.
    """
    from kartrl.launch import is_script  # loads pydantic, which `--help` does not need

    parser.add_argument(
        "-l",
        "--level",
        *["-s", "--state"] * is_script(),
        dest="state",
        action="extend",
        type=several,
        default=[],
        metavar="CIRCUIT",
        help=text + "; several: A,B or -l A -l B" * (not one),
    )


def several(text: str) -> list[str]:
    """An argparse `type` for `extend`: names separated by commas; a file whose name contains one is one name."""
    return [text] if user_path(text).exists() else [name for name in text.split(",") if name]


def add_world(parser: argparse.ArgumentParser) -> None:
    """Add the option that changes the environment compared with training."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        help="override a value of the environment that it was trained on, such as kart.opponents=3; repeatable",
    )
