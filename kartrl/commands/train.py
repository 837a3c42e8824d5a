"""`kartrl train`: from configurations to finished runs."""

import contextlib
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from kartrl.config import read
from kartrl.errors import RunFailed
from kartrl.launch import config_options, start_training
from kartrl.runtime.processes import start_method


def train(files: list[str], overrides: list[str], resume: str | None, console: Console) -> int:
    """One run, from these configuration files or going on from a checkpoint.

    Args:
        files: configuration files, each changing what came before.
        overrides: `section.key=value`.
        resume: None for a new run, else what to go on with: a run's folder or name, or "" for the newest.

    Returns:
        The exit status.

    Raises:
        UserError: bad input.
    """
    start_method()  # what it starts comes up while this process loads torch
    from kartrl.envs.worlds import load_world
    from kartrl.learning import checkpoint
    from kartrl.metrics.terminal import Display
    from kartrl.runtime import run_folders as runs
    from kartrl.runtime.inspection import inspect_env
    from kartrl.runtime.server import Server
    from kartrl.runtime.sizes import choose_sizes

    with contextlib.ExitStack() as stack:
        stored, config = None, read(files, overrides)
        if resume is not None:
            folder = runs.lock(runs.find(Path(config.run.logs), resume))
            stack.callback(runs.release, folder)
            stored = runs.load_newest(folder.path)
            config = runs.resumed_config(stored, files, overrides)
        config = load_world(config).prepare(console)
        world = load_world(config)
        spec = inspect_env(config)  # what can be wrong with it comes out here, before any process is started
        sizes = choose_sizes(config, spec)
        if stored is None:
            folder = runs.create(config)
            stack.callback(runs.release, folder)
        try:
            with Display(console, folder.path.name, world) as display:
                display.say(
                    f"Training on {spec.title}; logs in {folder.path}; to watch: tensorboard --logdir {config.run.logs}"
                )
                if stored is not None:
                    display.say(
                        f"Going on at {stored.counters.agent_steps:,} agent steps, {stored.counters.updates:,} updates"
                    )
                server = Server(config, sizes, folder.path, spec, display, stored)
                status = server.run()
                best = folder.path / "best.pt"
                path = best if best.exists() else checkpoint.newest(folder.path)
                display.say(_next_steps(folder.path, path, world.levels("test") or world.levels("train")))
                return status
        except RunFailed as failure:
            console.print(f"kartrl: the run failed: {failure}", highlight=False, markup=False)
            console.print(
                f"kartrl: go on from the last checkpoint with: python run.py --resume {folder.path}", highlight=False
            )
            return 1


def train_each(files: list[str], overrides: list[str], parallel: bool) -> int:
    """One run for each configuration file, in processes of their own: one after another, or all at once."""
    for file in files:
        read([file], overrides)  # all errors before the first run begins
    processes: list[subprocess.Popen[str]] = []
    try:
        for file in files:
            processes.append(start_training(config_options([file], overrides)))
            if not parallel:
                processes[-1].wait()
        return max(abs(process.wait()) for process in processes)
    except SystemExit:  # of a SIGTERM, which came to this process alone; Ctrl-C reaches all
        for process in processes:
            process.terminate()
        raise
    finally:
        for process in processes:
            process.wait()


def _next_steps(folder: Path, path: Path | None, levels: Sequence[str]) -> str:
    if path is None:
        return f"Ended before the first update; nothing was learned. Logs are in {folder}"
    level = f" -s {shlex.quote(levels[0])}" if levels else ""
    return (
        f"Saved. Go on: python run.py --resume {folder}\nLook: python record.py{level} -p {path}\n"
        f"Compare: kartrl evaluate -p {path}"
    )
