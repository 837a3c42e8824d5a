"""`kartrl train`: from configurations to finished runs."""

import argparse
import os
import subprocess

from rich.console import Console

from kartrl.commands.shared.arguments import Parser
from kartrl.config import read
from kartrl.errors import RunFailed, UserError
from kartrl.launch import config_options, follow_starter, start_training
from kartrl.metrics.tables import make_console
from kartrl.options import add_training, config_files
from kartrl.processes.end_request import end_at_once
from kartrl.processes.output import outlast_readers
from kartrl.run import training as run_training


def add_arguments(parser: Parser) -> None:
    parser.runs(
        run,
        "train",
        "train --env CartPole-v1 --seed 2 --minutes 1 --name cartpole-2",
        "train -c mine.cfg --set optimizer.learning_rate=0.0005",
        "train -c common.cfg a.cfg -c common.cfg b.cfg --parallel",
        "train --resume cartpole-2 --minutes 5 --set run.schedules=stretch",
        "train --init cartpole-2 --env CartPole-v1 --seed 3",
        "train --ray 192.168.1.10:6379",
    )
    add_training(parser)
    parser.add_argument(
        "--parallel", action="store_true", help="with several -c: run them all at once, not one after another"
    )
    parser.add_argument(
        "--plain",
        action="store_true",
        help="print lines that begin with the run's name, as --parallel does, instead of a panel",
    )
    parser.add_argument(
        "--resume",
        nargs="?",
        const="",
        type=os.path.expanduser,
        metavar="RUN",
        help="continue this run (its folder, or its name in logs) or the newest one, with its weights, optimizer, "
        "counters and random generators; for its schedules see run.schedules",
    )


def run(options: argparse.Namespace) -> int:
    """Train one run, or several; returns the exit status."""
    outlast_readers(tell=True)
    if len(options.config) > 1:
        if options.resume is not None:
            raise UserError("--resume continues one run: give -c at most once")
        return train_each(options.config, options.set, options.parallel, options.plain)
    if options.parallel:
        raise UserError("--parallel needs several runs, each with its own -c: -c A -c B (in -c A B, B overrides A)")
    return train(config_files(options), options.set, options.resume, make_console(), options.plain)


def train(files: list[str], overrides: list[str], resume: str | None, console: Console, plain: bool = False) -> int:
    """Train one run, from configuration files or resumed from a checkpoint; see `kartrl.run.training.train`.

    Returns:
        The exit status.

    Raises:
        UserError: bad input.
    """
    end_at_once()
    follow_starter()
    try:
        return run_training.train(files, overrides, resume, console, plain).status
    except RunFailed:  # it has been told
        return 1


def train_each(runs: list[list[str]], overrides: list[str], parallel: bool, plain: bool) -> int:
    """Train one run per list of configuration files, each in its own process: one after another, or all at once."""
    configs = [read(files, overrides).run for files in runs]  # report all errors before the first run begins
    folders = [run.logs_folder / run.name for run in configs if run.name != "auto"]
    if twice := next((folder for folder in folders if folders.count(folder) > 1), None):
        raise UserError(f"run.name: several of these runs would be {twice}; leave it out, or train them one by one")
    processes: list[subprocess.Popen[str]] = []
    try:
        for files in runs:
            options = config_options(files, overrides)
            processes.append(start_training([*options, "--plain"] if parallel or plain else options))
            if not parallel:
                processes[-1].wait()
        return max(abs(process.wait()) for process in processes)
    except SystemExit:  # from a SIGTERM, which only this process received; Ctrl-C reaches all
        for process in processes:
            process.terminate()
        raise
    finally:
        for process in processes:
            process.wait()
