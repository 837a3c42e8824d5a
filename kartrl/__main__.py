"""`python -m kartrl` is `kartrl`."""

import sys

from kartrl.cli import main

if __name__ == "__main__":
    sys.exit(main())
