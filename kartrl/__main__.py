"""`python -m kartrl` is `kartrl`."""

import signal
import sys
from pathlib import Path

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback while modules load; `main` handles it from then on
    if getattr(sys.modules["kartrl"], "__file__", None) is None:  # a folder with a checkout: see `keep_importable`
        del sys.modules["kartrl"]
        sys.path.insert(0, str(Path(__file__).parents[1]))
    from kartrl.cli import main

    sys.exit(main())
