"""`kartrl config`: prints the configuration that a run would have."""

import argparse

from kartrl.commands.arguments import Parser
from kartrl.config import dump, read
from kartrl.options import add_config, config_files


def add_arguments(parser: Parser) -> None:
    """Add the arguments of `kartrl config`."""
    parser.runs(run, "config", "config -c mine.cfg --set model.hidden_size=128")
    add_config(parser)


def run(options: argparse.Namespace) -> int:
    """Print it as an INI file; returns the exit status."""
    print(dump(read(config_files(options), options.set)), end="")
    return 0
