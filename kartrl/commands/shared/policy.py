"""Selects the policy: the one that the user names, else the newest run's, else the one bundled with kartrl."""

import argparse
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console

from kartrl import kart
from kartrl.config import Config, Run
from kartrl.config.worlds import settings_of
from kartrl.errors import UserError
from kartrl.launch import typed
from kartrl.metrics.tables import say

if TYPE_CHECKING:
    from kartrl.driving.driver import Driver

SHIPPED = Path(kart.__file__).parent / "weights" / "kart.pt"
"""The bundled policy for the bundled game; its card is beside it. `kartrl export` makes both."""
OTHER = "-p RUN: another"

Fits = Callable[[Config], bool]


class Driving(NamedTuple):
    """How a policy drives; the options are those of `add_levels`, `add_driving`, `add_world` and `add_max_steps`."""

    levels: Sequence[str] = ()  # as a user names them; empty: those of the checkpoint's configuration
    greedy: bool = True
    device: str = "auto"
    overrides: Sequence[str] = ()
    max_steps: int | None = None

    @classmethod
    def of(cls, options: argparse.Namespace) -> "Driving":
        """What a command line says."""
        return cls(options.state, options.greedy, options.device, options.set, options.max_steps)

    def opened(self, path: Path, console: Console, **more: Any) -> AbstractContextManager["Driver"]:
        """See `open_driver`."""
        from kartrl.driving.driver import open_driver  # loads torch

        more |= {"console": console, "overrides": self.overrides, "max_steps": self.max_steps}
        return open_driver(path, self.levels, self.device, **more)


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
