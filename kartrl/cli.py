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
from kartrl.commands.arguments import Parser, add_config, add_policy, positive
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

    compare = _add(
        commands,
        "compare",
        _compare,
        "compare runs: curves, scores with intervals, who is better; an experiment is trained first",
        "compare ppo-1 ppo-2 appo-1 appo-2 -o ppo-or-appo.png",
        "compare logs/stack1-* logs/stack4-* --by environment.frame_stack --reach 18",
        "compare --config cartpole.toml",
    )
    compare.add_argument("runs", nargs="*", metavar="RUN", help="a run's name or folder")
    compare.add_argument(
        "-c",
        "--config",
        type=Path,
        metavar="FILE",
        help="an experiment (docs/comparing.md): what is missing is trained",
    )
    compare.add_argument(
        "--by", metavar="SECTION.KEY", help="what tells the groups (default: algorithm.name; the experiment's names)"
    )
    compare.add_argument(
        "--metric",
        default="episodic_return",
        help="a column of episodes.csv or a tag of scalars.csv, such as evaluation/train_return (default "
        "episodic_return, of training episodes)",
    )
    compare.add_argument(
        "--reach",
        type=float,
        metavar="VALUE",
        help="also tell when the metric (of 100 episodes: their mean) reached it",
    )
    compare.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="the table and the picture: FILE.md and FILE.png"
    )

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
    add_policy(play, "race against the ghost of this network")
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


def _checkpoint(options: argparse.Namespace) -> Path:
    from kartrl.runtime.run_folders import find_checkpoint

    if options.checkpoint is None:
        raise UserError("which network should drive? Give a run or a checkpoint: -p RUN, or -p logs/<run>/best.pt")
    return find_checkpoint(options.checkpoint)


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


def _compare(options: argparse.Namespace) -> int:
    from rich.console import Console

    from kartrl.commands.compare import Question, compare, compare_experiment

    question = Question(options.by, options.metric, options.reach)
    if options.config is None:
        return compare(options.runs, question, options.output, Console())
    if options.runs:
        raise UserError("give runs or an experiment, not both")
    return compare_experiment(options.config, question, options.output, Console())


def _play(options: argparse.Namespace) -> int:
    from kartrl.commands.play import play

    return play(options, None if options.checkpoint is None else _checkpoint(options))


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
