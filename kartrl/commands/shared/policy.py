"""Selects the policy: the one that the user names, else the newest run's, else the one bundled with kartrl."""

from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from kartrl import kart
from kartrl.config import Config, Run
from kartrl.config.worlds import settings_of
from kartrl.errors import UserError
from kartrl.launch import typed
from kartrl.metrics.tables import say

SHIPPED = Path(kart.__file__).parent / "weights" / "kart.pt"
"""The bundled policy for the bundled game; its card is beside it. `kartrl export` makes both."""
OTHER = "-p RUN: another"

Fits = Callable[[Config], bool]


def find_policy(name: str | None, levels: bool, console: Console, option: str = "-p") -> Path:
    """The checkpoint to drive with; if the user names none, prints which one it is.

    Args:
        name: a checkpoint's file, or a run's name or folder (its best checkpoint); None: not named.
        levels: whether the user names levels, such as circuits: the policy's world must then have levels.
        option: the option that names it, for messages.

    Raises:
        UserError: there is no such checkpoint, or none at all.
    """
    from kartrl.run.folders import find_checkpoint  # loads torch

    if name is not None:
        return find_checkpoint(name, option)
    path = find_default(fitting(levels), True, console)
    if path is None:
        raise UserError(
            f"which policy should drive? {Run().logs_folder} has no{' kart' * levels} run with a checkpoint: "
            f"train one with {typed('train')}, name one with {option} RUN or {option} FILE.pt, or another folder of "
            "runs with KARTRL_LOGS=FOLDER"
        )
    return path


def fitting(levels: bool) -> Fits:
    """Whether a configuration's world has levels, if the user names any."""
    return lambda config: not levels or settings_of(config.environment.id).levels is not None


def find_default(fits: Fits, bundled: bool, console: Console, what: str = "Policy") -> Path | None:
    """The best checkpoint of the newest run in logs that fits, else the weights bundled with kartrl; prints which.

    Args:
        fits: whether a run with this configuration is suitable.
        bundled: whether a policy for the bundled game is suitable.
        what: the role of the policy, for the printed line.

    Returns:
        None if there is neither.
    """
    from kartrl.run.folders import find_newest  # loads torch

    path, origin = find_newest(fits), "of the newest run"
    if path is None and bundled and SHIPPED.is_file():
        path, origin = SHIPPED, "which comes with kartrl"
    if path is not None:
        say(console, f"{what}: {path}, {origin} ({OTHER})")
    return path
