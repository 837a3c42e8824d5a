"""Options of command lines: those that select the configuration, and types of numbers."""

import argparse
from typing import Any

from kartrl.errors import UserError

POLICY = "a run's name or folder (its best checkpoint), a checkpoint file, an exported folder, or hf://USER/NAME"
SHORTCUTS = {
    "--env": ("environment.id", "ID", "the environment, such as CartPole-v1"),
    "--algo": ("algorithm.name", "NAME", "the algorithm, such as ppo"),
    "--seed": ("run.seed", "N", "random seed"),
    "--steps": ("run.agent_steps", "N", "train for this many agent steps, such as 2e6"),
    "--minutes": ("run.minutes", "M", "train for at most this many minutes"),
    "--name": ("run.name", "NAME", "name of the run: its folder in logs"),
}


def add_config(parser: argparse.ArgumentParser, several: bool = False) -> None:
    """Add the options that select the configuration.

    Args:
        several: whether -c may be repeated, for several runs.
    """
    parser.add_argument(
        "-c",
        "--config",
        nargs="+",
        action="append",
        default=[],
        metavar="FILE",
        help="configuration files, or names of bundled ones such as pong; each overrides those before it"
        + "; repeat -c for several runs" * several,
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="override one value; repeatable"
    )
    for option, (key, metavar, text) in SHORTCUTS.items():
        _add_shortcut(parser, option, key, metavar, f"{text} ({key})")


def add_training(parser: argparse.ArgumentParser) -> None:
    """Add the options that select the configurations of `kartrl train`."""
    add_config(parser, several=True)
    _add_shortcut(parser, "--init", "run.init", "RUN", f"start a new run from the weights of {POLICY}")
    parser.add_argument(
        "--with-optimizer",
        dest="set",
        action="append_const",
        const="run.init_optimizer=true",
        help="with --init: start from its optimizer's state too",
    )
    on_ray = "run the agents on this Ray cluster; auto: the one this machine belongs to, else this machine alone"
    _add_shortcut(parser, "--ray", "cluster.ray", "ADDRESS", on_ray)
    on_nodes = "with --ray: at most this many nodes of agents, instead of one per machine"
    _add_shortcut(parser, "--nodes", "cluster.nodes", "N", on_nodes)


def _add_shortcut(parser: argparse.ArgumentParser, option: str, key: str, metavar: str, text: str) -> None:
    parser.add_argument(option, dest="set", action="append", type=setting(key), metavar=metavar, help=text)


def config_files(options: argparse.Namespace) -> list[str]:
    """The configuration files of a command that accepts only one configuration.

    Raises:
        UserError: -c was repeated.
    """
    if len(options.config) > 1:
        raise UserError("-c may be given once here: in -c A B, B overrides A")
    return [file for files in options.config for file in files]


def setting(key: str) -> Any:
    """An argparse `type` that converts a value to an override of this key, as for `--set`."""
    return lambda value: f"{key}={value}"


def positive(text: str) -> int:
    """An argparse `type`: an integer of at least 1."""
    return whole_number(text, 1)


def whole_number(text: str, least: int, most: int | None = None) -> int:
    """Parse an integer within bounds, such as 5000 or 5e3, for argparse's `type`.

    Raises:
        argparse.ArgumentTypeError: it is not one.
    """
    from kartrl.config.section import whole_numbers  # loads pydantic, which `--help` does not need

    bounds = f"{least} or more" if most is None else f"{least} to {most}"
    try:
        number = int(whole_numbers(text))
    except ValueError:
        number = least - 1
    if number < least or (most is not None and number > most):
        raise argparse.ArgumentTypeError(f"must be a whole number, {bounds} (got {text[:40]!r})")
    return number
