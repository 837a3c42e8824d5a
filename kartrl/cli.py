"""The command line: one subcommand, one function. What a command needs is imported when it runs, so that `--help`
is quick and agent processes stay small."""

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from kartrl import __version__
from kartrl.commands.circuit import add_parser as add_circuit_parser
from kartrl.errors import UserError

Command = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; bad input is one line on stderr and exit status 2."""
    signal.signal(signal.SIGTERM, _end)
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        return options.command(options)
    except UserError as error:
        print(f"kartrl: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _end(number: int, _: FrameType | None) -> NoReturn:
    """SIGTERM ends a command as Ctrl-C does: what it has begun is tidied up."""
    raise SystemExit(128 + number)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kartrl", description="Train an agent to drive a kart, or to play any pixel game."
    )
    parser.add_argument("--version", action="version", version=f"kartrl {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    train = _add(commands, "train", _train, "train a network (what run.py does)")
    add_config(train, "configurations, one run each")
    train.add_argument(
        "--parallel", action="store_true", help="run several configurations at once, not one after another"
    )
    train.add_argument(
        "--resume",
        nargs="?",
        const="",
        metavar="RUN",
        help="go on with this run, or with the newest one: its weights, optimizer, counters and random generators",
    )

    record = _add(commands, "record", _record, "film a drive and draw its line (what record.py does)")
    record.add_argument(
        "-s", "--state", metavar="CIRCUIT", help="a name, as MarioCircuit.Act3, or a path; without it, names are listed"
    )
    _add_policy(record)
    record.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="the MP4; the picture of the line goes beside it"
    )
    record.add_argument("--episodes", type=_positive, default=1, help="races to film (default 1)")

    evaluate = _add(commands, "evaluate", _evaluate, "race on every circuit and print a table")
    evaluate.add_argument(
        "-s",
        "--state",
        nargs="+",
        default=[],
        metavar="CIRCUIT",
        help="only these; as in [levels], also random:100-119",
    )
    _add_policy(evaluate)
    evaluate.add_argument("--episodes", type=_positive, default=5, help="races on each circuit (default 5)")

    play = _add(commands, "play", _play, "drive yourself: in a window, against the clock or a ghost")
    play.add_argument(
        "-s",
        "--state",
        metavar="CIRCUIT",
        help="a circuit, or several to choose from in the window: whatever [levels] takes (default: all there are)",
    )
    _add_policy(play, "race against this network's ghost: a checkpoint, such as logs/<run>/best.pt")
    play.add_argument(
        "--ghost", type=Path, metavar="FILE", help="race against a movie's ghost: a .bk2 of an earlier drive"
    )
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

    bench = _add(
        commands,
        "bench",
        _bench,
        "measure how fast this machine could train, how fast it does, and where the time goes",
    )
    add_config(bench)
    bench.add_argument("--seconds", type=_positive, default=90, help="length of a window of training (default 90)")
    bench.add_argument(
        "--warm", type=_positive, default=15, help="seconds between the first update and the window (default 15)"
    )
    bench.add_argument("--repeat", type=_positive, default=1, help="windows (default 1)")
    bench.add_argument(
        "--peer",
        default="",
        metavar="COMMAND",
        help="another system's training that prints '@B steps=N upd=N', as benchmarks/peers",
    )
    bench.add_argument("--json", type=Path, metavar="FILE", help="write the figures here")

    benchmark = _add(
        commands, "benchmark", _benchmark, "train on some circuits, and measure how well others are driven"
    )
    benchmark.add_argument("what", choices=("generalisation",), help="what docs/generalisation.md describes")
    benchmark.add_argument("--quick", action="store_true", help="some minutes instead of a night, to see that it works")
    benchmark.add_argument(
        "--splits", nargs="+", default=[], metavar="SPLIT", help="only these: within, across (or across-1 ...), random"
    )
    benchmark.add_argument("--seeds", type=_positive, help="seeds 1 to this (default 3; quick: 1)")
    benchmark.add_argument(
        "--steps", type=_positive, help="agent steps of each training (default 2,000,000; quick: 100,000)"
    )
    benchmark.add_argument("--episodes", type=_positive, help="races on each circuit (default 3; quick: 1)")
    benchmark.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="override one value; repeatable"
    )
    benchmark.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="folder of the results; to go on, name it again"
    )

    rom = _add(commands, "import-rom", _import_rom, "take in your own cartridge's ROM")
    rom.add_argument("file", type=Path, help="the ROM file, with or without a copier header")
    rom.add_argument("--states", type=Path, metavar="DIR", help="folder with start states, <circuit>.state")

    add_circuit_parser(commands)

    doctor = _add(commands, "doctor", _doctor, "tell whether this machine is ready for a run, and what is missing")
    add_config(doctor)

    config = _add(commands, "config", _config, "print the configuration that a run would have")
    add_config(config)
    return parser


def _add(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, command: Command, text: str
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text, description=text)
    parser.set_defaults(command=command)
    return parser


def add_config(parser: argparse.ArgumentParser, files: str = "configurations, the later over the earlier") -> None:
    """The options that say which configuration a command works with."""
    parser.add_argument("-c", "--config", nargs="+", default=[], metavar="FILE", help=files)
    parser.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="override one value; repeatable"
    )


def _add_policy(parser: argparse.ArgumentParser, text: str = "a checkpoint, such as logs/<run>/best.pt") -> None:
    parser.add_argument("-p", "--checkpoint", type=Path, metavar="FILE", help=text)
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument(
        "--greedy", dest="greedy", action="store_true", default=True, help="take the likeliest action (default)"
    )
    choice.add_argument("--sampled", dest="greedy", action="store_false", help="sample the actions")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda", "mps"), default="auto")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def _checkpoint(options: argparse.Namespace) -> Path:
    if options.checkpoint is None:
        raise UserError("which network should drive? Give a checkpoint: -p logs/<run>/best.pt")
    return options.checkpoint


def _train(options: argparse.Namespace) -> int:
    from rich.console import Console

    from kartrl.commands.train import train, train_each

    if len(options.config) <= 1:
        return train(options.config, options.set, options.resume, Console())
    if options.resume is not None:
        raise UserError("--resume goes with one run: give one configuration at most")
    return train_each(options.config, options.set, options.parallel)


def _record(options: argparse.Namespace) -> int:
    from rich.console import Console

    from kartrl.commands.record import list_circuits, record

    console = Console()
    if options.state is None and options.checkpoint is None:
        list_circuits(console)
        return 0
    record(
        options.state, _checkpoint(options), options.output, options.episodes, options.greedy, options.device, console
    )
    return 0


def _evaluate(options: argparse.Namespace) -> int:
    from rich.console import Console

    from kartrl.commands.evaluate import evaluate

    evaluate(_checkpoint(options), options.state, options.episodes, options.greedy, options.device, Console())
    return 0


def _play(options: argparse.Namespace) -> int:
    from kartrl.commands.play import play

    return play(options)


def _bench(options: argparse.Namespace) -> int:
    from rich.console import Console

    from kartrl.commands.bench import Settings, bench

    settings = Settings(options.seconds, options.warm, options.repeat, options.peer, options.json)
    bench(options.config, options.set, settings, Console())
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

    return doctor(options.config, options.set, Console())


def _config(options: argparse.Namespace) -> int:
    from kartrl.commands.config import show_config

    return show_config(options.config, options.set)
