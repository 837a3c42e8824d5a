"""`kartrl report`: one HTML file about one or several runs, to send to somebody."""

from __future__ import annotations

import argparse
import os
from functools import partial
from pathlib import Path

from rich.console import Console

from kartrl.commands.shared.arguments import Parser, add_levels, add_max_steps
from kartrl.commands.shared.progress import Progress
from kartrl.errors import UserError
from kartrl.files import check_folder, check_replaceable, explained, output_file, safe_name, user_path, write_whole
from kartrl.metrics.tables import make_console, say
from kartrl.options import whole_number


def add_arguments(parser: Parser) -> None:
    parser.runs(
        run,
        "report",
        "report my-run -o my-run.html",
        "report ppo-1 ppo-2 ppo-3 appo-1 appo-2 appo-3",
        "report my-run --episodes 0",
    )
    parser.add_argument(
        "runs",
        nargs="*",
        metavar="RUN",
        type=os.path.expanduser,
        help="a run's name or folder, or an experiment's; several are compared (default: the newest)",
    )
    parser.add_argument(
        "-o", "--output", type=user_path, metavar="FILE", help="the HTML file (default: named after the run, here)"
    )
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")
    parser.add_argument("--by", default="algorithm.name", metavar="SECTION.KEY", help="as in kartrl compare")
    parser.add_argument("--metric", default="episodic_return", help="of the curves and scores, as in kartrl compare")
    add_levels(parser, "drive on these circuits only")
    parser.add_argument(
        "--episodes",
        type=partial(whole_number, least=0),
        default=3,
        metavar="N",
        help="greedy episodes of each run on each level that its evaluations drive, with lines and a film (default 3; "
        "0: drive nothing, show what the evaluations during training have left)",
    )
    add_max_steps(parser, film=False)


def run(options: argparse.Namespace) -> int:
    """Write the report; returns the exit status."""
    from kartrl.report.driven import look  # these load torch
    from kartrl.report.page import make_page
    from kartrl.report.runs import read_runs
    from kartrl.run.folders import find_runs

    console = make_console()
    named = [folder for name in options.runs for folder in find_runs(name)]
    folders = [*{folder.resolve(): folder for folder in named}.values()] or [_newest(console)]
    name = safe_name(folders[0].resolve().name) if len(folders) == 1 else "report"
    file = output_file(options.output, name, ".html")
    check_replaceable({file: None}, options.force)
    check_folder(file)
    runs = read_runs(folders, options.metric, options.by)
    with Progress(console, None) as progress:
        shown = look(runs, options.state, options.episodes, options.max_steps, console, progress.tell)
    page = make_page(runs, shown)
    with explained(f"-o {file}", "write"):
        write_whole(file, page)
    say(console, f"Report: {file} ({len(page) / 1e6:.1f} MB)")
    return 0


def _newest(console: Console) -> Path:
    from kartrl.config import Run
    from kartrl.run.folders import newest_first

    logs = Run().logs_folder
    if not (found := newest_first(logs)):
        raise UserError(f"which run? {logs} has none with a checkpoint; name one, or KARTRL_LOGS=FOLDER")
    say(console, f"Run: {found[0]}, the newest (report RUN: another)")
    return found[0]
