"""The section [levels]: levels to train on, and levels held out for testing. The world has the syntax of its keys."""

import fnmatch
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from kartrl.config.wording import nearest

Use = Literal["train", "test", "none"]


class Levels(BaseModel):
    """Which levels to train on, and which to hold out for testing."""

    model_config = ConfigDict(frozen=True)
    uses: dict[str, Use] = Field({}, max_length=1000)  # by key
    found: dict[str, Use] | None = Field(None, exclude=True)
    """The levels that the keys stand for, looked up on this machine by `World.prepare`; never saved."""


class LevelSyntax(ABC):
    """What the keys of [levels] may be in a world."""

    hints: ClassVar[tuple[str, ...]] = ()
    """Lines about the keys, for the file."""
    defaults: ClassVar[Mapping[str, Use]] = {}

    @abstractmethod
    def mistake(self, key: str, in_file: bool = True) -> str | None:
        """What is wrong with a key, in one line; None if it is valid. Does not check that files exist.

        Args:
            in_file: whether it must be fit for a configuration file.
        """

    def is_path(self, key: str) -> bool:
        """Whether a key, or a level, is a path of the user's files rather than a name."""
        return False

    def expand(self, key: str) -> list[str]:
        """The levels that a valid key stands for, unless `World.named_uses` looks them up itself."""
        return [key]

    def complete(self, uses: dict[str, Any]) -> dict[str, Any]:
        """The default keys, then these in their order: the last key for a level counts.

        Raises:
            ValueError: together they cannot be; the message is one line.
        """
        return {key: use for key, use in self.defaults.items() if key not in uses} | uses


class NamedLevels(LevelSyntax):
    """A fixed list of levels; a key is the name of one or a glob, such as `easy.*`; the last key for a level counts.

    Args:
        defaults: all levels, in their order, and how each is used by default. Names fit a file: `fits_file`.
    """

    def __init__(self, defaults: Mapping[str, Use]) -> None:
        self.defaults: Mapping[str, Use] = defaults  # type: ignore[misc]  # of each instance
        self.hints = ("keys: a level by name, or several by a glob",)  # type: ignore[misc]

    def expand(self, key: str) -> list[str]:
        return [key] if key in self.defaults else fnmatch.filter(self.defaults, key)

    def mistake(self, key: str, in_file: bool = True) -> str | None:
        if self.expand(key):
            return None
        if any(letter in key for letter in "*?["):
            return "no level has this name"
        return f"no such level; the nearest valid one is {nearest(key, [*self.defaults])!r}"


def fits_file(key: str) -> bool:
    """Whether a key can be read back from an INI file, where some would be read as something else, or not at all."""
    whole = key.isprintable() and key == key.strip() and len(key) <= 1000
    return whole and key[:1] not in ("", "#", "[") and "=" not in key
