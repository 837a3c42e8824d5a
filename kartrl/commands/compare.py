"""`kartrl compare`: a table and a plot of several runs; those of an experiment are trained first."""

from __future__ import annotations

import argparse
import contextlib
import mimetypes
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console

from kartrl.commands.shared.arguments import Parser
from kartrl.commands.shared.results import add_formats, console_for, print_results
from kartrl.errors import UserError
from kartrl.files import check_folder, explained, unused_file, user_path, whole_file, write_whole
from kartrl.metrics.tables import say

if TYPE_CHECKING:
    from kartrl.comparison.report import Comparison


def add_arguments(parser: Parser) -> None:
    parser.runs(
        run,
        "compare ppo-1 ppo-2 appo-1 appo-2 -o ppo-or-appo.png",
        "compare logs/stack1-* logs/stack4-* --by environment.frame_stack --reach 18",
        "compare --config cartpole.toml",
        "compare ppo-1 ppo-2 ppo-3 --record",
    )
    parser.add_argument("runs", nargs="*", metavar="RUN", type=os.path.expanduser, help="a run's name or folder")
    parser.add_argument(
        "-c",
        "--config",
        type=user_path,
        metavar="FILE",
        help="an experiment (docs/comparing.md); its missing runs are trained first",
    )
    parser.add_argument(
        "--by",
        metavar="SECTION.KEY",
        help="key to group runs by (default: algorithm.name; with --config, the experiment's names)",
    )
    parser.add_argument(
        "--metric",
        default="episodic_return",
        help="a column of episodes.csv or a tag of scalars.csv, such as evaluation/train_return (default "
        "episodic_return, the return of training episodes)",
    )
    parser.add_argument(
        "--reach",
        type=float,
        metavar="VALUE",
        help="also report when the metric (for episodes: the mean of 100) reached this value",
    )
    parser.add_argument(
        "-o", "--output", type=user_path, metavar="FILE", help="write the table to FILE.md and the plot to FILE.png"
    )
    parser.add_argument(
        "--record",
        nargs="?",
        const="results",
        type=user_path,
        metavar="FOLDER",
        help="also write a JSON file for each group on each task, with what repeats it (default results; "
        "docs/comparing.md)",
    )
    parser.add_argument("--force", action="store_true", help="with --record: replace files of these names")
    add_formats(parser, "run")


def run(options: argparse.Namespace) -> int:
    """Compare the named runs or experiment; returns the exit status."""
    record = None if options.record is None else (options.record, options.force)
    tell = partial(print_results, options)
    question = Question(options.by, options.metric, options.reach, tell, record)
    console = console_for(options)
    table = None if options.output is None else _table_file(options.output)
    if options.config is None:
        return compare(options.runs, question, table, console)
    if options.runs:
        raise UserError("give runs or an experiment, not both")
    return compare_experiment(options.config, question, table, console)


class Question(NamedTuple):
    """What to compare."""

    by: str | None  # key of the configuration; None: the algorithm
    metric: str
    least: float | None  # threshold of the metric: when was it reached?
    tell: Callable[..., None] = lambda *_, **__: None  # prints rows of all runs, or fields of the whole, for programs
    record: tuple[Path, bool] | None = None  # folder of records, and whether to replace files there


def compare(names: Sequence[str], question: Question, table: Path | None, console: Console) -> int:
    """Compare existing runs; returns the exit status.

    Args:
        table: the new file of the table, with the plot beside it; None: they are not written.

    Raises:
        UserError: a run is missing, or two cannot be compared.
    """
    from kartrl.comparison.report import make_comparison
    from kartrl.comparison.runs import group, read_run
    from kartrl.run.folders import find_run

    if not names:
        raise UserError("which runs? Give their folders or names, or an experiment: --config EXPERIMENT.toml")
    different = {find_run(name).resolve(): name for name in names}
    runs = [read_run(name, question.metric) for name in different.values()]
    by = question.by or "algorithm.name"
    comparison = make_comparison(group(runs, by), question.metric, by, question.least)
    _tell(comparison, question, table, console)
    _record(comparison, question, {}, console)
    return 0


def compare_experiment(file: Path, question: Question, table: Path | None, console: Console) -> int:
    """Train the missing runs of an experiment's file, then compare; returns the exit status: 1 if a run failed.

    Raises:
        UserError: as `read_experiment`, `train_all` and `compare`.
    """
    from kartrl.comparison.experiment import read_experiment, resumable, train_all
    from kartrl.comparison.report import make_comparison
    from kartrl.comparison.runs import ComparedRun, group, read_run

    by = question.by or "algorithm"
    folder, cells = read_experiment(file, by)
    with resumable(folder, console):
        failed = train_all(cells, console)
    runs: list[ComparedRun] = []
    labels: list[str] = []
    unread: list[UserError] = []

    def leave_out(reason: object) -> None:
        say(console, f"Left out: {reason}", "red")

    for cell in cells:
        if cell not in failed:
            try:
                runs.append(read_run(str(cell.folder), question.metric))
                labels.append(cell.algorithm)
            except UserError as error:
                unread.append(error)
    if unread and not runs:
        raise unread[0]
    for reason in unread:
        leave_out(reason)
    if groups := group(runs, by, [] if question.by else labels, leave_out):
        comparison = make_comparison(groups, question.metric, by, question.least)
        _tell(comparison, question, table or folder / "comparison.md", console, replaced=table is None)
        options = {(cell.algorithm, cell.config.environment.id): cell.options for cell in cells}
        _record(comparison, question, {} if question.by else options, console)
    return 1 if failed or unread else 0


def _table_file(output: Path) -> Path:
    """The table that the option -o stands for; the plot is beside it."""
    written = output.suffix.lower() in (".md", ".png")
    if not output.name or output.is_dir():
        raise UserError(f"-o {output}: name a file, such as comparison.png")
    if not written and mimetypes.guess_type(output.name)[0]:
        raise UserError(f"-o {output}: only .md and .png are written, both; name one of them, or leave out the suffix")
    check_folder(output)
    return output.with_name(f"{output.stem if written else output.name}.md")


def _record(
    comparison: Comparison, question: Question, options: Mapping[tuple[str, str], Sequence[str]], console: Console
) -> None:
    """Write the records that the question asks for; `options`: see `write_records`."""
    if question.record is not None:
        from kartrl.comparison.record import write_records

        for file in write_records(comparison, *question.record, options):
            say(console, f"Recorded in {file}")


def _tell(
    comparison: Comparison, question: Question, table: Path | None, console: Console, replaced: bool = False
) -> None:
    """Print the table, and write it and the plot: new files, unless those of this name are to be `replaced`."""
    from kartrl.comparison.picture import draw
    from kartrl.comparison.report import as_json, as_rows, markdown

    text = markdown(comparison)
    say(console, text)
    question.tell(as_rows(comparison), **as_json(comparison))
    if table is None:
        return
    new = contextlib.nullcontext(table) if replaced else unused_file(table, ".png")
    with explained(f"-o {table}", "write"), new as file:
        picture = file.with_suffix(".png")
        write_whole(file, f"{text}\n![The same runs]({picture.name})\n".encode())
        with whole_file(picture) as temporary:
            draw(comparison, temporary)
    say(console, f"Written to {file} and {picture}")
