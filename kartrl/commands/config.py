"""`kartrl config`: the configuration that a run would have."""

from collections.abc import Sequence

from kartrl.config import dump, read


def show_config(files: Sequence[str], overrides: Sequence[str]) -> int:
    """Print it as an INI file; the exit status."""
    print(dump(read(files, overrides)), end="")
    return 0
