"""The command line: one subcommand, one function. What a command needs is imported when it runs, so that `--help`
is quick and agent processes stay small."""

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import NoReturn

from kartrl import __version__
from kartrl.commands.arguments import (
    POLICY,
    Parser,
    add_config,
    add_driving,
    add_policy,
    positive,
    setting,
    whole_number,
)
from kartrl.commands.circuit import add_parser as add_circuit_parser
from kartrl.errors import RunFailed, UserError, shortage
from kartrl.interrupts import deferred

Command = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; bad input is one line on stderr and exit status 2."""
    signal.signal(signal.SIGINT, deferred(signal.default_int_handler))
    signal.signal(signal.SIGTERM, deferred(_end))
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as `nohup` has it
        signal.signal(signal.SIGHUP, deferred(_end))
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        return options.command(options)
    except UserError as error:
        print(f"kartrl: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except RunFailed as error:
        print(f"kartrl: {error}", file=sys.stderr)
        return 1
    except Exception as error:
        if (cause := shortage(error)) is None:
            raise
        print(f"kartrl: {cause}", file=sys.stderr)
        return 1


def _end(number: int, _: FrameType | None) -> NoReturn:
    """SIGTERM and SIGHUP end a command as Ctrl-C does: what it has begun is tidied up."""
    raise SystemExit(128 + number)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="kartrl",
        description="Train an agent to drive a kart, or to play any pixel game.",
        examples=[
            "train",
            "train --env CartPole-v1 --minutes 2",
            "record -p RUN -s MarioCircuit.Act4",
            "COMMAND --help",
        ],
    )
    parser.add_argument("--version", action="version", version=f"kartrl {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    train = _add(
        commands,
        "train",
        _train,
        "train a network (what run.py does)",
        "train",
        "train --env CartPole-v1 --seed 2 --minutes 1 --name cartpole-2",
        "train -c mine.cfg --set optimizer.learning_rate=0.0005",
        "train -c common.cfg a.cfg -c common.cfg b.cfg --parallel",
        "train --resume cartpole-2 --minutes 5",
        "train --init cartpole-2 --seed 3 --set optimizer.learning_rate=0.0002",
    )
    add_config(train, several=True)
    train.add_argument(
        "--parallel", action="store_true", help="with several -c: all runs at once, not one after another"
    )
    train.add_argument(
        "--plain", action="store_true", help="no panel, but lines that begin with the run's name, as --parallel prints"
    )
    train.add_argument(
        "--resume",
        nargs="?",
        const="",
        metavar="RUN",
        help="go on with this run (its folder, or its name in logs) or with the newest one: its weights, optimizer, "
        "counters and random generators",
    )
    train.add_argument(
        "--init",
        dest="set",
        action="append",
        type=setting("run.init"),
        metavar="RUN",
        help="a new run that begins with the weights of this one (its best checkpoint), or of this file",
    )
    train.add_argument(
        "--with-optimizer",
        dest="set",
        action="append_const",
        const="run.init_optimizer=true",
        help="with --init: and with its optimizer's state",
    )

    record = _add(
        commands,
        "record",
        _record,
        "film a drive and draw its line (what record.py does)",
        "record -p my-run -s MarioCircuit.Act4",
        "record -p logs/my-run/checkpoints/0000500000.pt -s RainbowRoad.Act1 -o rainbow.mp4",
        "record",
    )
    record.add_argument(
        "-s", "--state", metavar="CIRCUIT", help="a name, as MarioCircuit.Act3, or a path; without it, names are listed"
    )
    add_policy(record)
    record.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="the MP4; the picture of the line goes beside it"
    )
    record.add_argument("--episodes", type=positive, default=1, help="races to film (default 1)")

    evaluate = _add(
        commands,
        "evaluate",
        _evaluate,
        "race on every circuit and print a table",
        "evaluate -p my-run",
        "evaluate -p my-run -s '*.Act1' random:100-119 --episodes 3",
    )
    evaluate.add_argument(
        "-s",
        "--state",
        nargs="+",
        default=[],
        metavar="CIRCUIT",
        help="only these; as in [levels], also random:100-119",
    )
    add_policy(evaluate)
    evaluate.add_argument("--episodes", type=positive, default=5, help="races on each circuit (default 5)")

    watch = _add(
        commands,
        "watch",
        _watch,
        "see a policy drive: in a window, circuit after circuit, with its line and what it sees",
        "watch",
        "watch my-run",
        "watch logs/my-run/best.pt -s '*.Act1' -o film.mp4",
    )
    watch.add_argument(
        "checkpoint",
        nargs="?",
        metavar="RUN",
        help=f"{POLICY}; a run that is training is followed (default: the newest run's best, else the one that comes "
        "with kartrl)",
    )
    watch.add_argument(
        "-s", "--state", nargs="+", default=[], metavar="CIRCUIT", help="only these; as in [levels], also random:20"
    )
    watch.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="no window, but an MP4 (so it is where there is no display)"
    )
    watch.add_argument(
        "--seconds", type=positive, default=0, help="go on to the next circuit after so many (default: after the race)"
    )
    add_driving(watch)

    play = _add(
        commands,
        "play",
        _play,
        "drive yourself: in a window, against the clock or a ghost",
        "play -s RainbowRoad.Act1",
        "play -s MarioCircuit.Act4 -p my-run",
        "play --replay drive.bk2 -o drive.mp4",
    )
    play.add_argument(
        "-s",
        "--state",
        metavar="CIRCUIT",
        help="a circuit, or several to choose from in the window: whatever [levels] takes (default: all there are)",
    )
    add_policy(play, "the network whose ghost you race against")
    play.add_argument(
        "--ghost", type=Path, metavar="FILE", help="race against a movie's ghost: a .bk2 of an earlier drive"
    )
    play.add_argument("--alone", action="store_true", help="race against the clock, without a ghost")
    play.add_argument(
        "--opponents", type=int, choices=range(4), default=0, help="karts that the game drives (default 0)"
    )
    play.add_argument(
        "--replay",
        type=Path,
        metavar="FILE",
        help="show a movie; with -o FILE.mp4 it becomes a video, without a window",
    )
    play.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="keep each race as a movie: FILE.bk2, and beside it FILE-2.bk2, ...",
    )
    play.add_argument(
        "--game",
        choices=("auto", "bundled", "cartridge"),
        default="auto",
        help="auto: your own cartridge, if there is one",
    )

    export = _add(
        commands,
        "export",
        _export,
        "make a checkpoint small, to give it away, with a card that says what it is",
        "export my-run -o my-kart.pt --half",
    )
    export.add_argument("checkpoint", metavar="RUN", help=POLICY)
    export.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="the .pt; the card is its .md")
    export.add_argument("--half", action="store_true", help="weights in half precision: half as large")
    export.add_argument(
        "-s", "--state", nargs="+", default=[], metavar="CIRCUIT", help="drive on these only, for the card"
    )
    export.add_argument(
        "--episodes",
        type=partial(whole_number, least=0),
        default=3,
        help="races on each circuit, for the card (default 3; 0: none)",
    )

    bench = _add(
        commands,
        "bench",
        _bench,
        "measure how fast this machine could train, how fast it does, and where the time goes",
        "bench",
        "bench -c mine.cfg --seconds 60 --repeat 3 --json bench.json",
    )
    add_config(bench, shortcuts=False)
    bench.add_argument("--seconds", type=positive, default=90, help="length of a window of training (default 90)")
    bench.add_argument(
        "--warm", type=positive, default=15, help="seconds between the first update and the window (default 15)"
    )
    bench.add_argument("--repeat", type=positive, default=1, help="windows (default 1)")
    bench.add_argument(
        "--peer",
        default="",
        metavar="COMMAND",
        help="another system's training that prints '@B steps=N upd=N', as benchmarks/peers",
    )
    bench.add_argument("--json", type=Path, metavar="FILE", help="write the figures here")

    benchmark = _add(
        commands,
        "benchmark",
        _benchmark,
        "train on some circuits, and measure how well others are driven",
        "benchmark generalisation --quick",
        "benchmark generalisation --splits within random -o results/",
    )
    benchmark.add_argument("what", choices=("generalisation",), help="what docs/generalisation.md describes")
    benchmark.add_argument("--quick", action="store_true", help="some minutes instead of a night, to see that it works")
    benchmark.add_argument(
        "--splits", nargs="+", default=[], metavar="SPLIT", help="only these: within, across (or across-1 ...), random"
    )
    benchmark.add_argument("--seeds", type=positive, help="seeds 1 to this (default 3; quick: 1)")
    benchmark.add_argument(
        "--steps", type=positive, help="agent steps of each training (default 2,000,000; quick: 100,000)"
    )
    benchmark.add_argument("--episodes", type=positive, help="races on each circuit (default 3; quick: 1)")
    benchmark.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="override one value; repeatable"
    )
    benchmark.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="folder of the results; to go on, name it again"
    )

    rom = _add(
        commands,
        "import-rom",
        _import_rom,
        "take in your own cartridge's ROM",
        "import-rom my-dump.sfc --states my-states/",
    )
    rom.add_argument("file", type=Path, help="the ROM file, with or without a copier header")
    rom.add_argument("--states", type=Path, metavar="DIR", help="folder with start states, <circuit>.state")

    add_circuit_parser(commands)

    doctor = _add(
        commands,
        "doctor",
        _doctor,
        "tell whether this machine is ready for a run, and what is missing",
        "doctor",
        "doctor -c mine.cfg",
    )
    add_config(doctor)

    config = _add(
        commands,
        "config",
        _config,
        "print the configuration that a run would have",
        "config",
        "config -c mine.cfg --set model.hidden_size=128",
    )
    add_config(config)
    return parser


def _add(
    commands: "argparse._SubParsersAction[Parser]", name: str, command: Command, text: str, *examples: str
) -> Parser:
    parser = commands.add_parser(name, help=text, description=text, examples=examples)
    parser.set_defaults(command=command)
    return parser


def _config_files(options: argparse.Namespace) -> list[str]:
    """The files of a command that works with one configuration."""
    if len(options.config) > 1:
        raise UserError("-c may be given once here: -c A B changes A by B")
    return [file for files in options.config for file in files]


def _train(options: argparse.Namespace) -> int:
    from rich.console import Console

    from kartrl.commands.train import train, train_each
    from kartrl.output import outlast_readers

    outlast_readers(tell=True)
    if len(options.config) > 1:
        if options.resume is not None:
            raise UserError("--resume goes with one run: give -c once at most")
        return train_each(options.config, options.set, options.parallel)
    if options.parallel:
        raise UserError("--parallel needs several runs, each with a -c of its own: -c A -c B (-c A B changes A by B)")
    return train(_config_files(options), options.set, options.resume, Console(), options.plain)


def _record(options: argparse.Namespace) -> int:
    from rich.console import Console

    from kartrl.commands.policy import find_policy
    from kartrl.commands.record import list_circuits, record

    console, level = Console(), options.state
    if level is None and options.checkpoint is None:
        list_circuits(console)
        return 0
    path = find_policy(options.checkpoint, level is not None, console)
    record(level, path, options.output, options.episodes, options.greedy, options.device, console)
    return 0


def _evaluate(options: argparse.Namespace) -> int:
    from rich.console import Console

    from kartrl.commands.evaluate import evaluate
    from kartrl.commands.policy import find_policy

    console = Console()
    path = find_policy(options.checkpoint, bool(options.state), console)
    evaluate(path, options.state, options.episodes, options.greedy, options.device, console)
    return 0


def _watch(options: argparse.Namespace) -> int:
    from rich.console import Console

    from kartrl.commands.watch import watch

    choices = options.state, options.output, options.seconds, options.greedy, options.device
    watch(options.checkpoint, *choices, Console())
    return 0


def _play(options: argparse.Namespace) -> int:
    from rich.console import Console

    from kartrl.commands.play import play

    return play(options, Console())


def _export(options: argparse.Namespace) -> int:
    from rich.console import Console

    from kartrl.commands.export import export
    from kartrl.runtime.run_folders import find_checkpoint

    path = find_checkpoint(options.checkpoint, "export")
    export(path, options.output, options.half, options.state, options.episodes, "auto", Console())
    return 0


def _bench(options: argparse.Namespace) -> int:
    from rich.console import Console

    from kartrl.commands.bench import Settings, bench

    settings = Settings(options.seconds, options.warm, options.repeat, options.peer, options.json)
    bench(_config_files(options), options.set, settings, Console())
    return 0


def _benchmark(options: argparse.Namespace) -> int:
    from kartrl.commands.benchmark import benchmark

    return benchmark(options)


def _import_rom(options: argparse.Namespace) -> int:
    from kartrl.commands.import_rom import import_rom

    return import_rom(options)


def _doctor(options: argparse.Namespace) -> int:
    from rich.console import Console

    from kartrl.commands.doctor import doctor

    return doctor(_config_files(options), options.set, Console())


def _config(options: argparse.Namespace) -> int:
    from kartrl.commands.config import show_config

    return show_config(_config_files(options), options.set)
