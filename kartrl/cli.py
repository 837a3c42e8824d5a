"""The command line: each subcommand is a module of `commands`, imported only when it is used.

So `--help` is fast, and agent processes stay small.
"""

import importlib
import importlib.util
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any, NoReturn

from kartrl import __version__, faults
from kartrl.commands.shared.arguments import Parser
from kartrl.errors import RunFailed, UserError, refusal, shortage
from kartrl.files import user_path
from kartrl.processes.interrupts import deferred

COMMANDS = {
    "train": "train a network (run.py does the same)",
    "record": "record a video of a drive and draw its line (record.py does the same)",
    "watch": "watch a policy drive one circuit after another, with its line and what it observes",
    "evaluate": "race on every circuit and print a table",
    "list": "list runs, bundled configurations, environments, levels, policies and retro games",
    "clean": "remove old checkpoints, and replays of ended runs",
    "compare": "compare runs: curves, scores, confidence intervals; an experiment's missing runs are trained first",
    "report": "write one HTML file about runs to send to somebody: curves, tables, lines, a film",
    "tune": "search the settings with which training scores best: trials side by side, pruned, resumable",
    "race": "let policies, recorded drives and the scripted driver race each other, in a film and a table",
    "play": "drive yourself in a window, against the clock or a ghost",
    "export": "export a small checkpoint for sharing, a folder for a hub, or an ONNX file, with a card",
    "push": "upload an exported policy to the Hugging Face Hub",
    "bench": "measure how fast this machine could train, how fast it does, and where the time goes",
    "benchmark": "train on some circuits, and measure how well the policies drive others",
    "import-rom": "import ROMs of your own",
    "retro": "add a game of your own to stable-retro's",
    "circuit": "create your own circuits, or generate random ones",
    "doctor": "check whether this machine is ready for a run, and report what is missing",
    "config": "print the configuration that a run would use",
}

FOLDERS = "KARTRL_CACHE", "KARTRL_DATA", "TMPDIR"  # environment variables that name one


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; bad input is one line on stderr and exit status 2."""
    signal.signal(signal.SIGINT, deferred(signal.default_int_handler))
    signal.signal(signal.SIGTERM, deferred(_end))
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # ignored under `nohup`
        signal.signal(signal.SIGHUP, deferred(_end))
    for name in FOLDERS:  # so that it is the same for all processes, wherever they are
        if folder := os.environ.get(name):
            os.environ[name] = str(user_path(folder).absolute())
    try:
        faults.check()
        parser = make_parser()
        if "_ARGCOMPLETE" in os.environ and importlib.util.find_spec("argcomplete") is not None:
            _complete(parser)
        options = parser.parse_args(arguments)
        return options.run(options)
    except UserError as error:
        print(f"kartrl: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # stdout's reader has exited, as in `kartrl config | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or Python's exit would report it too
        return 1
    except RunFailed as error:
        print(f"kartrl: {error}", file=sys.stderr)
        return 1
    except Exception as error:
        if (refused := refusal(error)) is not None:
            print(f"kartrl: {refused}", file=sys.stderr)
            return 2
        if (cause := shortage(error)) is None:
            raise
        print(f"kartrl: {cause}", file=sys.stderr)
        return 1


def _end(number: int, _: FrameType | None) -> NoReturn:
    """End a command on SIGTERM and SIGHUP as on Ctrl-C, cleaning up."""
    raise SystemExit(128 + number)


def make_parser() -> Parser:
    """Make the parser of all commands; each adds its arguments when it is used."""
    parser = Parser(
        prog="kartrl",
        description="Train an agent to drive a kart, or to play any pixel game.",
        examples=[
            "train",
            "train --env CartPole-v1 --minutes 2",
            "record RUN -l MarioCircuit.Act4",
            "COMMAND --help",
        ],
    )
    parser.add_argument("--version", action="version", version=f"kartrl {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, text in COMMANDS.items():
        commands.add_parser(name, help=text, description=text, on_use=_load)
    return parser


def _complete(parser: Parser) -> None:
    """Print how the command line that a shell sends could continue, and exit; see `argcomplete`."""
    from kartrl.commands.list import levels
    from kartrl.config import Run, presets, read
    from kartrl.config.ini import preset_ids
    from kartrl.run.places import runs_in

    argcomplete: Any = importlib.import_module("argcomplete")
    logs = Run().logs_folder
    named_levels = lambda: [row["level"] for row in levels(read())]  # noqa: E731
    names = {
        "RUN": lambda: [folder.name for folder in runs_in(logs)],
        "FILE": presets,
        "CIRCUIT": named_levels,
        "FILE|NAME": named_levels,
        "ID": lambda: preset_ids().values(),
    }
    files = argcomplete.FilesCompleter()
    command = parser.command_of(os.environ.get("COMP_LINE", "").split())
    for action in command.arguments() if command is not None else ():
        if isinstance(action.metavar, str) and action.metavar in names:
            setattr(action, "completer", lambda prefix, find=names[action.metavar], **_: [*find(), *files(prefix)])  # noqa: B010
    argcomplete.autocomplete(parser)


def _load(parser: Parser) -> None:
    """Add a command's arguments, and the function that runs it, from its module to its parser."""
    name = parser.prog.split()[-1].replace("-", "_")
    importlib.import_module(f"kartrl.commands.{name}").add_arguments(parser)
