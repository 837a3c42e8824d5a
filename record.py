"""Record a drive: `python record.py` is `kartrl record`."""

import sys

from kartrl.cli import main

if __name__ == "__main__":
    sys.exit(main(["record", *sys.argv[1:]]))
