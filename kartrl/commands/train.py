"""`kartrl train`: from configurations to finished runs."""

import argparse
import contextlib
import gc
import importlib
import os
import shlex
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from kartrl.commands.arguments import Parser
from kartrl.config import Config, read
from kartrl.envs.spec import EnvSpec
from kartrl.errors import RunFailed, UserError
from kartrl.files import shown
from kartrl.launch import config_options, follow_starter, known, named, start_training, typed
from kartrl.options import add_config, config_files, setting
from kartrl.processes.end_request import EndRequest, end_at_once
from kartrl.processes.output import outlast_readers
from kartrl.processes.spawn import start_method


def add_arguments(parser: Parser) -> None:
    """Add the arguments of `kartrl train`."""
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
    add_config(parser, several=True)
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
    parser.add_argument(
        "--init",
        dest="set",
        action="append",
        type=setting("run.init"),
        metavar="RUN",
        help="start a new run from the weights of this run (its best checkpoint) or checkpoint file",
    )
    parser.add_argument(
        "--with-optimizer",
        dest="set",
        action="append_const",
        const="run.init_optimizer=true",
        help="with --init: start from its optimizer's state too",
    )
    parser.add_argument(
        "--ray",
        dest="set",
        action="append",
        type=setting("cluster.ray"),
        metavar="ADDRESS",
        help="run the agents on this Ray cluster; auto: the one this machine belongs to, else this machine alone",
    )
    parser.add_argument(
        "--nodes",
        dest="set",
        action="append",
        type=setting("cluster.nodes"),
        metavar="N",
        help="with --ray: at most this many nodes of agents, instead of one per machine",
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
    return train(config_files(options), options.set, options.resume, Console(), options.plain)


def train(files: list[str], overrides: list[str], resume: str | None, console: Console, plain: bool = False) -> int:
    """Train one run, from configuration files or resumed from a checkpoint.

    Args:
        resume: None for a new run, else the run to resume: its folder or name, or "" for the newest.

    Returns:
        The exit status.

    Raises:
        UserError: bad input.
    """
    end_at_once()
    follow_starter()
    config = read(files, overrides)
    # The fork server starts, and loads torch, if agents will need it, while this process does.
    start_method(*["kartrl.acting.own_predictor"] * config.allows_own_networks)
    with contextlib.ExitStack() as stack:
        request = EndRequest(tidy=stack.close)
        stored = server = None
        with _loading_torch():
            from kartrl.envs.named_modules import trust
            from kartrl.envs.worlds import load_world
            from kartrl.metrics.terminal import Display
            from kartrl.sizing.inspection import first_update, remarks, tell_presets, tell_view

            if resume is None:
                with request.raising():
                    config, spec = _inspected(_with_initial(config), console)

            from kartrl.nodes.session import check, find_cluster
            from kartrl.run import folders as runs
            from kartrl.run.initial_weights import anew, load_initial
            from kartrl.run.provenance import provenance
            from kartrl.run.resuming import account, command, newest_command, resumed_config
            from kartrl.run.run_folder import RunFolder, ended_by, has_checkpoint, tidy_killed
            from kartrl.run.server import Server
            from kartrl.run.stopping import words
            from kartrl.sizing.resolve import decisions, resolve
        if resume is not None:
            folder = RunFolder(runs.find(config.run.logs_folder, resume))
            stack.callback(folder.release)
            stored = runs.load_newest(folder.path)
            mended = folder.mend(stored.config, stored.provenance)
            config = resumed_config(stored, files, overrides, ended_by(folder.path))
        tidy_killed(config.run.logs_folder)
        with request.raising():
            if resume is not None:
                config, spec = _inspected(config, console)
            check(config)
            find_cluster(config.cluster.ray)
            world = load_world(config)
            notes: list[str] = []
            source = provenance()
            moved = stored is not None and stored.provenance.get("machine", source["machine"]) != source["machine"]
            config, sizes = resolve(config, spec, notes.append, moved)
        initial = None
        if stored is None:
            if config.run.init != "none":
                initial = load_initial(Path(config.run.init), config, spec)
            folder = runs.create(config, source)
            stack.callback(folder.release)
        trusted = trust(config.environment)
        display = Display(console, folder.path.name, world, plain)
        try:
            with display:
                display.say(f"Environment: {spec.title}; logs in {shown(folder.path)}")
                display.say(tell_view(config, spec))
                told = [*remarks(config, spec), *first_update(config, spec, sizes), *notes, decisions(config)]
                if resume is None:
                    told = [*tell_presets(config, files), *told]
                for remark in told:
                    display.say(remark)
                if initial is not None:
                    display.say(
                        f"Starting from the weights of {config.run.init}, after {initial.counters.agent_steps:,} "
                        f"agent steps{', and its optimizer' * config.run.init_optimizer}; counting from 0"
                    )
                    stored = anew(initial, config)
                elif stored is not None:
                    if mended:
                        display.say("config.cfg could not be read: it is written anew, from the checkpoint")
                    for line in account(stored, config, spec, world.contents()):
                        display.say(line)
                agents = config.system.learners * sizes.agents
                starting = f"{agents} agents" if config.cluster.ray == "none" else "nodes of agents"
                display.say(
                    f"Starting {starting}, model in {config.model.precision} ...; "
                    f"to watch: tensorboard --logdir {shlex.quote(str(shown(folder.path.parent)))}"
                )
                server = Server(config, sizes, folder, spec, display, request, stored, source)
                status = server.run()
        except (RunFailed, UserError) as failure:
            if isinstance(failure, RunFailed):
                display.say(f"kartrl: the run failed: {failure}")
            if server is not None and server.has_learned and (again := newest_command(folder.path)) is not None:
                display.say(f"kartrl: resume it from its last checkpoint: {again}")
            if isinstance(failure, UserError):
                raise
            return 1
        display.say(display.summary())
        levels = world.levels("test") or world.levels("train")
        if has_checkpoint(folder.path):
            again = command(folder.path, config, display.counters)
            display.say(_next_steps(folder.path, levels, trusted, again, spec.renders))
        else:
            taken, needed = display.waiting
            display.say(
                f"Ended after {taken:,} of the {needed:,} agent steps for the first update, "
                f"{sizes.unroll_length} in each environment; nothing was learned. Train longer, or with a smaller "
                "algorithm.unroll_length"
            )
        display.say(words(server.ended_by, request.number))
        return status


@contextlib.contextmanager
def _loading_torch() -> Iterator[None]:
    """Context manager: another thread loads torch meanwhile, which takes most of a run's start.

    Without garbage collection that takes a tenth less time, and later collections leave out what has been loaded.
    """
    gc.disable()
    thread = threading.Thread(target=importlib.import_module, args=("torch",), name="loading")
    thread.start()
    try:
        yield
        gc.freeze()
    finally:
        thread.join()  # torch cannot be loaded while Python exits
        gc.enable()


def _with_initial(config: Config) -> Config:
    """The configuration with the checkpoint for `run.init`, checked before levels, which may take long, are built."""
    if config.run.init == "none":
        return config

    from kartrl.envs.worlds import load_world
    from kartrl.run.folders import find_checkpoint
    from kartrl.run.initial_weights import load_initial
    from kartrl.sizing.inspection import inspect_env

    path = find_checkpoint(config.run.init, "--init", config.run.logs_folder)
    if (one := load_world(config).prepare_one()) is not None:
        spec = inspect_env(one)
        load_initial(path, config.model_copy(update={"environment": load_world(one).fit(spec).environment}), spec)
    return config.model_copy(update={"run": config.run.model_copy(update={"init": str(path)})})


def _inspected(config: Config, console: Console) -> tuple[Config, EnvSpec]:
    """The configuration with everything looked up, and the environment's spec; no process of the run exists yet."""
    from kartrl.envs.worlds import load_world
    from kartrl.metrics.trackers import check_tracker
    from kartrl.sizing.inspection import inspect_env

    check_tracker(config)
    config = load_world(config).prepare(console)
    return config, inspect_env(config)


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


def _next_steps(folder: Path, levels: Sequence[str], trusted: str, resume: str, films: bool) -> str:
    """Suggested commands, ready to type: `resume`, and others, prefixed with `trusted`; `record` if it can film."""
    run, level = named(folder), f" -s {shlex.quote(levels[0])}" if levels else ""
    own = known(folder) if levels else ""  # or paths of levels would not be opened
    record = f"Record:   {trusted}{typed('record')} -p {run}{level}\n"
    return f"Resume:   {resume}\n{record * films}Evaluate: {own}{trusted}{typed('evaluate')} -p {run}"
