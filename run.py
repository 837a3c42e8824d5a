"""Train: `python run.py` is `kartrl train`."""

import sys

from kartrl.cli import main

if __name__ == "__main__":
    sys.exit(main(["train", *sys.argv[1:]]))
