"""The levels of a retro game are its start states: the syntax of the keys of [levels].

A key is the name of a start state or a glob of such names, "power on", or the path of a `.state` file or a glob of such
paths, relative to the current folder. If several keys name the same state, the last one counts. If none is left, the
state that the game's integration chooses is for training; with `* = none` there is none.
"""

import fnmatch
import glob
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from kartrl.config.levels import LevelSyntax, Use, fits_file
from kartrl.config.wording import nearest
from kartrl.errors import UserError
from kartrl.files import user_path

ENDING = ".state"
POWER_ON = "power on"  # the level without a start state
ALL = "*"


class StateSyntax(LevelSyntax):
    """See the module."""

    hints: ClassVar = (
        "keys: start states by name or glob (GreenHill*), and .state files of your own by path (./mine/*.state); the",
        "last key that names a state counts. Without keys: the game's default state, for training",
    )

    def mistake(self, key: str, in_file: bool = True) -> str | None:
        """See `LevelSyntax`."""
        if in_file and not fits_file(key):
            return "not allowed in a configuration; begin paths with ./ and rename files with = or special characters"
        if is_path(key) and ("**" in key or not key.endswith(ENDING)):
            return f"a path must be of {ENDING} files, without **"
        return None

    def is_path(self, key: str) -> bool:
        """See `LevelSyntax`."""
        return is_path(key)


def is_path(key: str) -> bool:
    """Whether a key is a path rather than a name."""
    return "/" in key or "\\" in key or key.endswith(ENDING)


def states_of(keys: Sequence[str], states: Sequence[str], game: str) -> dict[str, str]:
    """The start states that keys stand for, each with its last key: names, or absolute paths.

    Args:
        states: names of the game's states.

    Raises:
        UserError: a key stands for none, or two states have the same name.
    """
    found: dict[str, str] = {}
    for key in keys:
        names = _files(key) if is_path(key) else _named(key, states)
        if not names:
            advice = "" if is_path(key) else f"; the nearest is {nearest(key, [*states, POWER_ON])!r}"
            raise UserError(f"{game} has no start state {key[:80]!r}{advice}")
        found |= dict.fromkeys(names, key)
    called: dict[str, str] = {}
    for state in found:
        if (other := called.setdefault(state_name(state), state)) != state:
            raise UserError(f"{other} and {state} are both called {state_name(state)}; rename one of them")
    return found


def _named(key: str, states: Sequence[str]) -> list[str]:
    """The start states that a key names that is no path."""
    return [key] if key in states else [POWER_ON] if key in ("", POWER_ON) else fnmatch.filter(states, key)


def _files(key: str) -> list[str]:
    path = user_path(key)
    places = [path] if os.path.isfile(path) else sorted(map(Path, glob.glob(str(path))))
    return [str(place.absolute()) for place in places]


def resolved(uses: Mapping[str, Use], states: Sequence[str], default: str, game: str) -> dict[str, Use]:
    """The use of each start state that [levels] names, those for no use left out.

    Args:
        default: the one for training if it names none.

    Raises:
        UserError: see `states_of`.
    """
    keys = states_of([key for key in uses if states or key != ALL], states, game)
    return _in_use({state: uses[key] for state, key in keys.items()}, uses, default)


def single_keys(uses: Mapping[str, Use], states: Sequence[str], default: str) -> list[str]:
    """The states in use, a key for each, but for those that a path stands for."""
    singles = {single: use for key, use in uses.items() for single in ([key] if is_path(key) else _named(key, states))}
    return [*_in_use(singles, uses, default)]


def uses_by_name(uses: Mapping[str, Use], names: Iterable[str], states: Sequence[str], default: str) -> dict[str, Use]:
    """The uses of the states with these short names, judged by the keys and the names of files, which may be gone."""
    own: dict[str, Use] = {}
    for key, use in uses.items():
        meant = (_files(key) or [key]) if is_path(key) else _named(key, states)
        own |= dict.fromkeys(map(state_name, meant), use)
    found = _in_use(own, uses, state_name(default))
    return {name: found[name] for name in names if name in found}


def _in_use(found: Mapping[str, Use], uses: Mapping[str, Use], default: str) -> dict[str, Use]:
    """Those found that are of use; if none is, the default start state for training, unless the keys exclude all."""
    used: dict[str, Use] = {state: use for state, use in found.items() if use != "none"}
    if not used and uses.get(ALL) != "none":
        used = {default: "train"}
    return used


def start_of(level: str) -> str | None:
    """The start state of a level; None: the console is switched on."""
    return None if level in ("", POWER_ON) else level


def state_name(level: str) -> str:
    """A level's short name."""
    return Path(level).name.removesuffix(ENDING) if is_path(level) else level or POWER_ON


def group_of(name: str) -> str:
    """The group of a state, where there are too many for a row each: its name without the last part."""
    return name.rpartition(".")[0] or "others"
