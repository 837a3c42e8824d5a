"""`kartrl clean`: removes what old checkpoints, and replays of ended runs, hold on the disk."""

import argparse
import sys
from pathlib import Path

from rich.box import HEAVY_HEAD

from kartrl.commands.shared.arguments import Parser
from kartrl.config import read
from kartrl.errors import UserError
from kartrl.files import explained
from kartrl.metrics.tables import Line, fitted, make_console, say
from kartrl.options import add_config, config_files

OTHERS = "best.pt and the last checkpoint stay, and so does a run that is training"


def add_arguments(parser: Parser) -> None:
    parser.runs(run, "clean", "clean my-run --yes", "clean -c mine.cfg")
    parser.add_argument("runs", nargs="*", metavar="RUN", help=f"names or folders of runs (default: all); {OTHERS}")
    add_config(parser)
    parser.add_argument("-y", "--yes", action="store_true", help="remove without asking")


def run(options: argparse.Namespace) -> int:
    """Show what would be removed, and remove it on a yes; returns the exit status."""
    from kartrl.run.folders import find_run  # loads torch
    from kartrl.run.places import runs_in
    from kartrl.run.run_folder import RunFolder, is_training, left_behind

    console, logs = make_console(), read(config_files(options), options.set).run.logs_folder
    folders = [find_run(name, logs) for name in options.runs] or runs_in(logs)
    found = {folder: files for folder in folders if not is_training(folder) and (files := left_behind(folder))}
    if not found:
        where = ", ".join(options.runs) or f"runs in {logs} (KARTRL_LOGS=FOLDER: elsewhere)"
        say(console, f"Nothing to remove: {where}")
        return 0
    lines = [Line(str(folder), [_told(files, ".pt"), _told(files, "")]) for folder, files in found.items()]
    console.print(fitted("run", ["old checkpoints", "replay of the ended run"], [lines], console.width, HEAVY_HEAD))
    total = _told([file for files in found.values() for file in files], ".pt", "")
    if not options.yes and not _agreed(f"Remove these files, {total}? {OTHERS} [y/N] "):
        console.print("Nothing is removed; --yes removes without asking", highlight=False)
        return 0
    for path in found:
        try:
            folder = RunFolder(path)
        except UserError as error:  # it trains again, or is not ours to write to
            say(console, f"{error}; left as it is")
            continue
        try:
            with explained(path, "remove"):
                for file in left_behind(path):
                    file.unlink(missing_ok=True)
        finally:
            folder.release()
        say(console, f"Removed from {path}")
    return 0


def _told(files: list[Path], *kinds: str) -> str:
    """Number and size of the checkpoints (".pt") or of the other files ("")."""
    sizes = [file.stat().st_size for file in files if ("" if file.suffix != ".pt" else ".pt") in kinds]
    return f"{len(sizes)}, {sum(sizes) / 1e6:,.2f} MB" if sizes else "-"


def _agreed(question: str) -> bool:
    if not sys.stdin.isatty():
        return False
    try:
        return input(question).strip().lower() in ("y", "yes")
    except EOFError:
        return False
