"""What building a game begins with."""

import argparse
import shutil
import sys
from pathlib import Path


def output_folder(description: str, usual: Path) -> Path:
    """The folder that the command line names; the program ends in one line where the assembler is missing."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "-o", "--output", type=Path, default=usual, metavar="FOLDER", help="output folder (default: the package)"
    )
    output: Path = parser.parse_args().output
    if shutil.which("ca65") is None or shutil.which("ld65") is None:
        sys.exit("ca65 and ld65 are missing: install cc65 (apt-get install cc65, brew install cc65)")
    return output
