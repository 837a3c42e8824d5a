"""`python -m kartrl` is `kartrl`."""

import signal
import sys

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback while modules load; `main` handles it from then on
    from kartrl.cli import main

    sys.exit(main())
