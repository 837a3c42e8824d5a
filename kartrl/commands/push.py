"""`kartrl push`: uploads an exported policy to the Hugging Face Hub."""

import argparse

from kartrl.commands.shared.arguments import Parser
from kartrl.files import user_path


def add_arguments(parser: Parser) -> None:
    parser.runs(run, "push my-policy hf://USER/NAME", "push my-policy hf://USER/NAME@next --private")
    parser.add_argument("folder", metavar="FOLDER", type=user_path, help="what `kartrl export -o FOLDER` has written")
    parser.add_argument("address", metavar="hf://USER/NAME[@BRANCH]", help="where to, made if it is missing")
    parser.add_argument("--private", action="store_true", help="make it private, seen by you alone")


def run(options: argparse.Namespace) -> int:
    """Upload; returns the exit status."""
    from kartrl.run.policies import push  # loads torch

    print(f"Pushed to {options.address}: {push(options.folder, options.address, options.private)}")
    return 0
