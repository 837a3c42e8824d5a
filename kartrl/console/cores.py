"""Where stable-retro's emulators are."""

import importlib.util
import sys
from pathlib import Path

from kartrl.errors import UserError

ENDING = "dylib" if sys.platform == "darwin" else "so"


def retro_folder() -> Path:
    """Folder of the package stable-retro.

    Raises:
        UserError: it is not installed.
    """
    found = importlib.util.find_spec("stable_retro")
    if found is None or found.origin is None:
        raise UserError(
            "stable-retro, which has the emulators, is not installed (it supports Linux on x86-64 and macOS on arm64 "
            "only); train another environment instead: --set environment.id=CartPole-v1"
        )
    return Path(found.origin).parent


def core_file(name: str) -> Path:
    """Path of an emulator core, such as "snes9x".

    Raises:
        UserError: stable-retro is not installed, or has no such core for this platform.
    """
    file = retro_folder() / "cores" / f"{name}_libretro.{ENDING}"
    if not file.is_file():
        raise UserError(f"stable-retro has no emulator {name} for this platform: there is no {file}")
    return file
