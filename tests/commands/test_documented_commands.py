"""Every command that README, docs, comments, help and a run's last lines print, run for its first seconds.

A command of a user is run by `kartrl.cli.main`, and interrupted after `CPU_SECONDS`. What would take minutes is begun:
`train` as far as to the checks before its processes start, of which `test_printed_commands_work` starts some.
"""

import argparse
import contextlib
import importlib
import importlib.util
import io
import os
import re
import runpy
import shlex
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from commands import ROOT, run
from documented import Typed, read, sources
from forking import MODULES
from prepared_folder import CARTPOLE, KART, OWN, SHORT, copy_changeable, prepare

import kartrl.config
from kartrl.cli import main, make_parser
from kartrl.commands.tune import make_plan as plan_search
from kartrl.comparison.experiment import read_experiment
from kartrl.config import Config
from kartrl.envs.spec import EnvSpec
from kartrl.envs.worlds import load_world
from kartrl.kart.generalisation import make_plan
from kartrl.kart.generalisation.protocol import validate
from kartrl.kart.levels import generated
from kartrl.learning import checkpoint
from kartrl.metrics.trackers import check_tracker
from kartrl.nodes.session import check
from kartrl.options import config_files
from kartrl.run import folders
from kartrl.run.initial_weights import load_initial
from kartrl.run.resuming import resumed_config
from kartrl.sizing.auto import choose_sizes
from kartrl.sizing.inspection import inspect_env

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("stable_retro") is None, reason="no SNES emulator on this platform"),
    pytest.mark.skipif(shutil.which("bash") is None, reason="examples are for a shell"),
]
CPU_SECONDS, SECONDS = 0.3, 0.8  # the first seconds: of this process, and where it waits for a player
MOST_BUILT = 4  # circuits
WHOLE = "circuit build |export my-run -o my-policy "  # which make files that later examples name
SHORTER = {name: ["--episodes", "1"] for name in ("evaluate", "export", "report")}  # added to what is typed
# What needs something that a test does not have is only parsed, with its configuration.
ABSENT = {
    r"docker ": "a Docker engine",
    r"(ray|ssh|scp) |.* --ray ": "a cluster",
    r"(tensorboard|optuna-dashboard|pip|apt|python3?(\.11)? -m venv) ": "a network, or it serves until it is ended",
    r"python -m rl_zoo3": "another trainer",
    r"python (benchmarks|tests|game)/": "minutes, an idle machine, or an assembler",
    r".*=cuda:": "a GPU",
    r"hf |kartrl .*hf://": "the Hugging Face Hub",
    r"kartrl (import-rom|play --game cartridge)": "a cartridge of one's own",
}
PACKAGES = {  # the same if a package is not installed
    r".*(pong|Boxing|ALE/|breakout|replay_atari)": "ale_py",
    r".*(lunarlander|bipedalwalker|car_racing)": "Box2D",
    r".*hopper": "mujoco",
    r".*(coinrun|starpilot|unseen)": "envpool",
    r".*minigrid": "minigrid",
    r".*(export .* -o|watch) my-policy": "huggingface_hub",
    r".*tracker=wandb": "wandb",
    r".*tracker=mlflow": "mlflow",
    r".*tracker=trackio": "trackio",
}
GROUPS: dict[str, Callable[[str], bool]] = {
    "README": lambda source: not source.startswith(("docs", "kartrl ")),
    "docs, A to D": lambda source: re.match("docs/[a-d]", source) is not None,
    "docs, E to Z": lambda source: re.match("docs/[e-z]", source) is not None,
    "help": lambda source: source.startswith("kartrl "),
}

DONE: set[Typed] = set()
SEEN: dict[str, EnvSpec] = {}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The current folder, in which all that commands name is found; no display, no own cartridge."""
    for name in MODULES:  # before anything is interrupted, or half of a module would be left
        importlib.import_module(name)
    folder = tmp_path_factory.mktemp("prepared")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in ("DISPLAY", "WAYLAND_DISPLAY", "KARTRL_LOGS"):
            patch.delenv(name, raising=False)
        for name in ("KARTRL_DATA", "KARTRL_CACHE"):
            patch.setenv(name, str(folder / name))
        patch.setenv("SDL_VIDEODRIVER", "dummy")
        patch.setattr("sys.stdin", io.StringIO())
        patch.syspath_prepend(str(folder))
        prepare(folder)
        yield folder


@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Ctrl-C in a weak reference's callback
@pytest.mark.parametrize("group", GROUPS)
def test_documented_commands_work(prepared: Path, group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    copy_changeable(prepared)
    failures, there = [], {*prepared.iterdir()}
    for source, scripts in sources().items():
        for script in scripts if GROUPS[group](source) else ():
            commands, errors = read(script, prepared)
            failures += [f"{source}: {script}\n    {errors}"] if errors else []
            for typed in commands:
                if typed not in DONE:
                    DONE.add(typed)
                    monkeypatch.setenv("KARTRL_IMPORT", typed.trusted or "mine")
                    failures += [f"{source}: {error}" for error in failing(typed)]
    for file in {*prepared.iterdir()} - there:  # what commands have written, for the next group
        shutil.rmtree(file) if file.is_dir() else file.unlink()
    assert not failures, "\n".join(failures)


def test_exceptions_are_still_needed(prepared: Path) -> None:
    commands = [typed for scripts in sources().values() for script in scripts for typed in read(script, prepared)[0]]
    words = [" ".join(typed.words) for typed in commands]
    for pattern in (*ABSENT, *PACKAGES):
        assert any(re.match(pattern, line) for line in words), f"no example needs the exception {pattern}"


def failing(typed: Typed) -> list[str]:
    """What is wrong with the command, if anything."""
    with contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            execute(*typed.words)
        except (Exception, SystemExit) as error:
            return [f"{' '.join(typed.words)}\n    {type(error).__name__}: {error} {said.getvalue()}"]
    return []


def execute(program: str, *arguments: str) -> None:
    """Run a command for its first seconds, begin it, or parse it: as far as is possible here."""
    words = " ".join((program, *arguments))
    if program == "make":
        made = subprocess.run([program, "-n", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
        for line in re.findall(r"^\.venv/bin/((?:python run\.py|kartrl) .*)$", made.stdout, re.MULTILINE):
            execute(*shlex.split(line))
        return
    if program == "docker" and arguments[:1] == ("run",) and "kartrl" in arguments:
        program, arguments = inside(arguments)
    if program in ("python", "run.py", "record.py"):
        script, *rest = [program, *arguments][program == "python" :]
        if script in ("run.py", "record.py"):
            rest = ["-l" if word == "-s" else word for word in rest]  # which record.py alone has
            program, arguments = "kartrl", ({"run.py": "train", "record.py": "record"}[script], *rest)
        elif script.endswith(".py"):
            parse_script(ROOT / script, rest)
    if program != "kartrl":
        assert any(re.match(pattern, words) for pattern in ABSENT), "a program that no test knows"
        return
    if "--help" in arguments:
        with pytest.raises(SystemExit, match=r"^0$"):
            main(arguments)
        return
    options = make_parser().parse_args(arguments)
    configs = parsed(options)
    missing = {name for pattern, name in PACKAGES.items() if re.match(pattern, words)}
    if any(re.match(pattern, words) for pattern in ABSENT) or not all(map(importlib.util.find_spec, missing)):
        return
    command = arguments[0]
    if command in ("train", "bench"):
        for config in configs:
            begin(config, options)
    elif command == "benchmark":
        sizes = options.seeds, options.steps, options.episodes
        validate(make_plan(options.output, options.quick, options.splits, sizes, options.set).protocol)
    elif command == "tune":
        look(plan_search(options).config)
    elif command == "compare" and options.config is not None:
        for cell in read_experiment(options.config, options.by or "algorithm")[1]:
            look(cell.config)
    else:
        page = ["--port", "0"] if "--web" in arguments else []  # another test may have the usual one
        fewer = [] if "--onnx" in arguments else SHORTER.get(command, [])  # its card has no results
        status = started([*arguments, *page, *fewer], waits=command == "play" or bool(page))
        assert status in (0, 130), f"exit status {status}"


def inside(arguments: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """The program that `docker run` runs in the container, and its arguments."""
    entry = arguments[arguments.index("--entrypoint") + 1] if "--entrypoint" in arguments else "run.py"
    return entry, arguments[len(arguments) - arguments[::-1].index("kartrl") :]


def parsed(options: argparse.Namespace) -> list[Config]:
    """The configurations of a command."""
    if not (hasattr(options, "config") and isinstance(options.config, list)):
        return []
    files = options.config if len(options.config) > 1 else [config_files(options)]
    return [kartrl.config.read(some, options.set) for some in files]


def begin(config: Config, options: argparse.Namespace) -> None:
    """What `train` and `bench` do before they start processes."""
    initial = None
    if getattr(options, "resume", None) is not None:
        folder = folders.find(config.run.logs_folder, options.resume)
        stored = checkpoint.load(checkpoint.newest(folder) or folder)
        config = resumed_config(stored, config_files(options), options.set)
    elif config.run.init != "none":
        initial = folders.find_checkpoint(config.run.init, "--init", config.run.logs_folder)
    check_tracker(config)
    check(config)
    spec = look(config)
    choose_sizes(config, spec)
    if initial is not None:
        load_initial(initial, load_world(config).fit(spec), spec)


def look(config: Config) -> EnvSpec:
    """The environment's spec, inspected in a process of its own, once; few circuits are built for that."""
    world = load_world(config)
    many = generated(config.levels.uses) > MOST_BUILT
    ready = (many and world.prepare_one()) or world.prepare()
    key = f"{ready.environment} {ready.world} {ready.levels.found}"
    if key not in SEEN:
        SEEN[key] = inspect_env(ready)
    return SEEN[key]


def started(arguments: list[str], waits: bool) -> int:
    """The exit status of a command that is interrupted after its first seconds, as by Ctrl-C."""
    lock, interrupted = threading.RLock(), []

    def interrupt(*_: object) -> None:
        with lock:  # once, and not after the command's end
            if not interrupted:
                interrupted.append(True)
                os.kill(os.getpid(), signal.SIGINT)

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    timer = threading.Timer(SECONDS, interrupt)
    before = signal.signal(signal.SIGPROF, interrupt)
    signal.setitimer(signal.ITIMER_PROF, 60 if re.match(WHOLE, " ".join(arguments)) else CPU_SECONDS)
    try:
        try:
            if waits:
                timer.start()
            return main(arguments)
        finally:
            with lock:
                interrupted.append(True)
    except KeyboardInterrupt:
        return 130
    finally:
        timer.cancel()
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def parse_script(script: Path, arguments: list[str]) -> None:
    """Have a script parse its arguments, without running it; those that it passes to `kartrl train` are valid too."""

    if "argparse" not in script.read_text(encoding="utf-8"):
        return  # it takes names alone

    class Parsed(Exception):
        pass

    parse_args, parse_known_args = argparse.ArgumentParser.parse_args, argparse.ArgumentParser.parse_known_args

    def parse(parser: argparse.ArgumentParser, *given: object) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(argparse.ArgumentParser, "parse_known_args", parse_known_args)
            options = parse_args(parser, *given)  # type: ignore[arg-type]
        raise Parsed(options)

    def parse_known(parser: argparse.ArgumentParser, *given: object) -> None:
        raise Parsed(parse_known_args(parser, *given))  # type: ignore[call-overload]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", [str(script), *arguments])
        patch.syspath_prepend(str(script.parent))
        patch.setattr(argparse.ArgumentParser, "parse_args", parse)
        patch.setattr(argparse.ArgumentParser, "parse_known_args", parse_known)
        with contextlib.suppress(Parsed):
            runpy.run_path(str(script), run_name="__main__")
            raise AssertionError("it parsed no arguments")


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "overrides",
    [
        CARTPOLE,
        OWN,
        KART,
        (*SHORT, "levels.*=none", "levels.mine.toml=train", "levels.random:3:asphalt=none"),
        ("environment.id=retro/Airstriker-Genesis-v0", "levels.*=none", "levels.power on=train"),
    ],
    ids=["CartPole", "module:Id", "kart", "own circuit", "power on"],
)
def test_printed_commands_work(prepared: Path, overrides: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Those in the last lines of a run."""
    monkeypatch.setenv("KARTRL_IMPORT", "")
    tiny = ("run.agent_steps=300", "model.hidden_size=16", "system.agents=1", "evaluation.minutes=0")
    options = [part for override in (*overrides, *tiny) for part in ("--set", override)]
    trained = run("train", *options, cwd=prepared)
    assert trained.returncode == 0, trained.stdout + trained.stderr
    printed = re.findall(r"^(Resume|Record|Evaluate): +(.*)$", trained.stdout, re.MULTILINE)
    films = [] if overrides is OWN else ["Record"]  # this one does not render
    assert [name for name, _ in printed] == ["Resume", *films, "Evaluate"]
    for _, line in printed:
        assert "''" not in line, "a level that has no name"
        *variables, words = re.match(r"((?:\w+=\S+ )*)(.*)", line).groups()
        arguments = shlex.split(words)
        for variable in shlex.split(variables[0]):
            monkeypatch.setenv(*variable.split("=", 1))
        start = next(place for place, word in enumerate(arguments) if word in ("train", "record", "evaluate"))
        execute("kartrl", *arguments[start:])
