"""The command line: one subcommand, one module of `commands`, which is imported when it is asked for.

So `--help` is quick, and agent processes stay small.
"""

import argparse
import importlib
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

from kartrl import __version__
from kartrl.commands.arguments import Parser
from kartrl.errors import RunFailed, UserError, shortage
from kartrl.interrupts import deferred

COMMANDS = {
    "train": "train a network (what run.py does)",
    "record": "film a drive and draw its line (what record.py does)",
    "watch": "see a policy drive, circuit after circuit, with its line and what it sees",
    "evaluate": "race on every circuit and print a table",
    "compare": "compare runs: curves, scores with intervals, who is better; an experiment is trained first",
    "play": "drive yourself: in a window, against the clock or a ghost",
    "export": "make a checkpoint small, to give it away, with a card that says what it is",
    "bench": "measure how fast this machine could train, how fast it does, and where the time goes",
    "benchmark": "train on some circuits, and measure how well others are driven",
    "import-rom": "take in your own cartridge's ROM",
    "circuit": "create your own circuits, or generate random ones",
    "doctor": "tell whether this machine is ready for a run, and what is missing",
    "config": "print the configuration that a run would have",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; bad input is one line on stderr and exit status 2."""
    signal.signal(signal.SIGINT, deferred(signal.default_int_handler))
    signal.signal(signal.SIGTERM, deferred(_end))
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as `nohup` has it
        signal.signal(signal.SIGHUP, deferred(_end))
    try:
        options = make_parser().parse_args(arguments)
        return options.run(options)
    except UserError as error:
        print(f"kartrl: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except RunFailed as error:
        print(f"kartrl: {error}", file=sys.stderr)
        return 1
    except Exception as error:
        if (cause := shortage(error)) is None:
            raise
        print(f"kartrl: {cause}", file=sys.stderr)
        return 1


def _end(number: int, _: FrameType | None) -> NoReturn:
    """SIGTERM and SIGHUP end a command as Ctrl-C does: what it has begun is tidied up."""
    raise SystemExit(128 + number)


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands; each adds its arguments when it is asked for."""
    parser = Parser(
        prog="kartrl",
        description="Train an agent to drive a kart, or to play any pixel game.",
        examples=[
            "train",
            "train --env CartPole-v1 --minutes 2",
            "record -p RUN -s MarioCircuit.Act4",
            "COMMAND --help",
        ],
    )
    parser.add_argument("--version", action="version", version=f"kartrl {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, text in COMMANDS.items():
        commands.add_parser(name, help=text, description=text, on_use=_load)
    return parser


def _load(parser: Parser) -> None:
    """Give the parser of a command its arguments, which are in the command's module, and what runs it."""
    name = parser.prog.split()[-1].replace("-", "_")
    importlib.import_module(f"kartrl.commands.{name}").add_arguments(parser)
