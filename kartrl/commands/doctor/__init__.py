"""`kartrl doctor`: checks whether this machine is ready for a run; each line says what to do.

Each check imports what it needs: a missing or broken library affects only its own line of the report.
"""

import argparse
from collections.abc import Callable, Iterator
from typing import NamedTuple

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from kartrl.commands.doctor import configured, game, machine
from kartrl.commands.doctor.configured import Examined, State
from kartrl.commands.shared.arguments import Parser
from kartrl.commands.shared.results import add_formats, console_for, print_results
from kartrl.errors import UserError
from kartrl.options import add_config, config_files

CHECKS: dict[str, Callable[[Examined], tuple[State, str]]] = {
    "python": machine.check_python,
    "configuration": configured.check_configuration,
    "torch": machine.check_torch,
    "emulator": game.check_emulator,
    "bundled ROM": game.check_bundled_rom,
    "cartridge": game.check_cartridge,
    "atari": game.check_atari,
    "environment": configured.check_environment,
    "auto chooses": configured.check_sizes,
    "cores": machine.check_cores,
    "memory": configured.check_memory,
    "logs": machine.check_logs,
    "cartridge folder": machine.check_data,
    "temporary folder": machine.check_temporary,
    "video": machine.check_video,
}
COLOURS = {"ok": "green", "warning": "yellow", "problem": "bold red"}


def add_arguments(parser: Parser) -> None:
    parser.runs(run, "doctor", "doctor -c mine.cfg --json")
    add_config(parser)
    add_formats(parser, "check")


def run(options: argparse.Namespace) -> int:
    """Print the report; returns the exit status."""
    findings: list[Finding] = []
    status = doctor(config_files(options), options.set, console_for(options), findings.append)
    checks = [found._asdict() for found in findings]
    print_results(options, checks, ready=status == 0, checks=checks)
    return status


class Finding(NamedTuple):
    """A line of the report."""

    state: State
    subject: str
    text: str  # the result and, if not ok, what to do


def doctor(
    files: list[str], overrides: list[str], console: Console, keep: Callable[[Finding], None] = lambda _: None
) -> int:
    """Print the result of each check as soon as it is known: a row of a table in a terminal, else a plain line.

    Args:
        keep: called with each.

    Returns:
        0 if a run with this configuration can start, else 1.
    """
    problems = 0
    for found in examine(files, overrides, console):
        keep(found)
        state, subject, text = found
        problems += state == "problem"
        if console.is_terminal:
            row = Table.grid(Column(width=8), Column(width=17), Column(), padding=(0, 1))
            row.add_row(Text(state, COLOURS[state]), subject, Text(text))
            console.print(row)
        else:
            console.print(f"{state:<8} {subject:<17} {text}", markup=False, highlight=False, soft_wrap=True)
    console.print(f"Not ready: {problems} to fix." if problems else "Ready.", highlight=False)
    return int(problems > 0)


def examine(files: list[str], overrides: list[str], console: Console) -> Iterator[Finding]:
    """Run all checks; an exception in one is reported as its finding."""
    examined = Examined(files, overrides, console)
    for subject, check in CHECKS.items():
        try:
            state, text = check(examined)
        except UserError as error:
            state, text = "problem", str(error)
        except ImportError as error:
            state, text = "problem", f"a library is missing or broken ({error}): pip install -r requirements.lock"
        except Exception as error:
            state, text = "problem", f"check failed: {type(error).__name__}: {error}"
        yield Finding(state, subject, " ".join(text.split()))
