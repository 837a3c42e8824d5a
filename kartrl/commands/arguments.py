"""What the commands' arguments have in common: their parser, the configuration, the network that drives."""

import argparse
import difflib
import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from kartrl.errors import UserError

Command = Callable[[argparse.Namespace], int]  # returns the exit status
EXIT_STATUS = 2  # of bad input
POLICY = "a run's name or folder (its best checkpoint), or a checkpoint file"
SHORTCUTS = {
    "--env": ("environment.id", "ID", "the environment, such as CartPole-v1"),
    "--seed": ("run.seed", "N", "seed of everything that is drawn"),
    "--minutes": ("run.minutes", "M", "train for so many minutes at most"),
    "--name": ("run.name", "NAME", "name of the run: its folder in logs"),
}


class Parser(argparse.ArgumentParser):
    """A parser whose help ends with examples, and that names the nearest command for one that does not exist.

    Args:
        examples: as they are typed, without "kartrl".
        on_use: called with the parser before it parses, to add its arguments then.
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
        """Have `command` run with what was parsed, and end the help with these examples of it."""
        self.set_defaults(run=command)
        self.show(*examples)

    def parse_known_args(self, *arguments: Any) -> Any:  # type: ignore[override]  # argparse gives both by position
        """See `argparse`."""
        if self._on_use is not None:
            self._on_use(self)
        return super().parse_known_args(*arguments)

    def add_subparsers(self, **options: Any) -> Any:
        """See `argparse`."""
        self._commands = super().add_subparsers(**options)
        return self._commands

    def error(self, message: str) -> NoReturn:
        """Print one line about bad input, and end with status 2."""
        wrong = re.search(r"invalid choice: '([^']*)'", message)
        if wrong is not None and self._commands is not None:
            known = list(self._commands.choices)
            near = difflib.get_close_matches(wrong[1], known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            message = f"no command {wrong[1][:40]!r}: {hint}"
        self.exit(EXIT_STATUS, f"{self.prog}: {message} (see {self.prog} --help)\n")


def add_config(parser: argparse.ArgumentParser, several: bool = False, shortcuts: bool = True) -> None:
    """The options that say which configuration a command works with.

    Args:
        several: whether -c may be repeated, for several runs.
        shortcuts: whether it takes `SHORTCUTS` too.
    """
    parser.add_argument(
        "-c",
        "--config",
        nargs="+",
        action="append",
        default=[],
        metavar="FILE",
        help="configurations, each changing what came before: files, or names of those that come along, as pong"
        + "; repeated: several runs" * several,
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="change one value; repeatable"
    )
    for option, (key, metavar, text) in SHORTCUTS.items() if shortcuts else ():
        parser.add_argument(
            option, dest="set", action="append", type=setting(key), metavar=metavar, help=f"{text} ({key})"
        )


def add_policy(parser: argparse.ArgumentParser, text: str = "the network that drives") -> None:
    """The options that say which network drives, and how."""
    about = f"{text}: {POLICY} (default: the newest run's best, else the one that comes with kartrl)"
    parser.add_argument("-p", "--checkpoint", metavar="RUN", help=about)
    add_driving(parser)


def add_driving(parser: argparse.ArgumentParser) -> None:
    """The options that say how a network drives."""
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument(
        "--greedy", dest="greedy", action="store_true", default=True, help="take the likeliest action (default)"
    )
    choice.add_argument("--sampled", dest="greedy", action="store_false", help="sample the actions")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda", "mps"), default="auto")


def add_world(parser: argparse.ArgumentParser) -> None:
    """The option that has a network drive in another world than in training."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="environment.KEY=VALUE",
        help="what is other than in training, as environment.opponents=3; repeatable",
    )


def config_files(options: argparse.Namespace) -> list[str]:
    """The files of a command that works with one configuration.

    Raises:
        UserError: -c was repeated.
    """
    if len(options.config) > 1:
        raise UserError("-c may be given once here: -c A B changes A by B")
    return [file for files in options.config for file in files]


def setting(key: str) -> Any:
    """A value of this key as `--set` takes it, for argparse's `type`."""
    return lambda value: f"{key}={value}"


def positive(text: str) -> int:
    """A number of at least 1, as argparse's `type`."""
    return whole_number(text, 1)


def whole_number(text: str, least: int, most: int | None = None) -> int:
    """A number within bounds, for argparse's `type`.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    bounds = f"{least} or more" if most is None else f"{least} to {most}"
    if not re.fullmatch(r"-?\d+", text) or int(text) < least or (most is not None and int(text) > most):
        raise argparse.ArgumentTypeError(f"must be a whole number, {bounds} (got {text[:40]!r})")
    return int(text)
