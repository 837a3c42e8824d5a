"""A run from its configuration to its end: what `kartrl train` and `kartrl.train` do."""

from __future__ import annotations

import contextlib
import gc
import importlib
import shlex
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console

from kartrl.config import Config, read
from kartrl.envs.named_modules import named_modules, trust_here
from kartrl.envs.spec import EnvSpec
from kartrl.errors import RunFailed, UserError
from kartrl.files import shown
from kartrl.hardware.machine import cores
from kartrl.launch import known, named, typed
from kartrl.learning.counters import Counters
from kartrl.processes.end_request import EndRequest
from kartrl.processes.spawn import start_method
from kartrl.sizing.outlook import Outlook, figures_of
from kartrl.sizing.preloading import preloaded

if TYPE_CHECKING:
    from kartrl.run.callbacks import Callbacks


class Trained(NamedTuple):
    """How a run ended."""

    status: int  # the exit status: 0, or 128 plus the number of the signal that ended it
    folder: Path
    counters: Counters
    ended_by: str  # see `StopRules`; "" if a signal did


def train(
    files: list[str],
    overrides: list[str],
    resume: str | None,
    console: Console,
    plain: bool = False,
    base: str = "",
    callbacks: Callbacks | None = None,
) -> Trained:
    """Train one run, from configuration files or resumed from a checkpoint, until it ends.

    Args:
        resume: None for a new run, else the run to resume: its folder or name, or "" for the newest.
        plain: show lines instead of a panel.
        base: a dumped configuration, of which the files and overrides change some; "": the defaults.

    Raises:
        UserError: bad input.
        RunFailed: a fault ended the run; the display has told it.
    """
    config = read(files, overrides, base)
    known = figures_of(config, files) if resume is None else None
    if resume is None:
        trust_here(named_modules(config.model))  # as it is the user's own configuration
    # The fork server starts, and loads torch, if agents will need it, while this process does.
    start_method(*preloaded(config, known=resume is None))
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
        trusted = trust(config.environment, config.model)
        outlook, untrained = Outlook(config.run, known), stored is None and initial is None
        display = Display(console, folder.path.name, world, plain, spec.action, outlook, untrained)
        try:
            with display:
                display.say(f"Environment: {spec.title}; logs in {shown(folder.path)}")
                display.say(tell_view(config, spec))
                told = [*remarks(config, spec), *first_update(config, spec, sizes), *notes, decisions(config)]
                if resume is None:
                    told = [*tell_presets(config, files), *told]
                if known is not None:
                    speed = known.speed(spec.step_seconds, min(cores(), config.system.learners * sizes.agents))
                    told.append(f"Expected: {outlook.tell(Counters(), speed)}")
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
                server = Server(config, sizes, folder, spec, display, request, stored, source, callbacks)
                status = server.run()
        except (RunFailed, UserError) as failure:
            if isinstance(failure, RunFailed):
                display.say(f"kartrl: the run failed: {failure}")
            if server is not None and server.has_learned and (again := newest_command(folder.path)) is not None:
                display.say(f"kartrl: resume it from its last checkpoint: {again}")
            raise
        display.say(display.summary())
        levels = [level or world.name_level(level) for level in world.levels("test") or world.levels("train")]
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
        return Trained(status, folder.path, display.counters, server.ended_by)


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
    return config, inspect_env(config, console)


def _next_steps(folder: Path, levels: Sequence[str], trusted: str, resume: str, films: bool) -> str:
    """Suggested commands, ready to type: `resume`, and others, prefixed with `trusted`; `record` if it can film."""
    run, level = named(folder), f" -l {shlex.quote(levels[0])}" if levels else ""
    own = known(folder) if levels else ""  # or paths of levels would not be opened
    record = f"Record:   {trusted}{typed('record')} -p {run}{level}\n"
    return f"Resume:   {resume}\n{record * films}Evaluate: {own}{trusted}{typed('evaluate')} -p {run}"
