"""Train: `python run.py` is `kartrl train`."""

import signal
import sys

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback while modules load; `main` sees to it from then on
    from kartrl.cli import main

    sys.exit(main(["train", *sys.argv[1:]]))
