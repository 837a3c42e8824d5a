"""The section [levels]: levels to train on, and levels held out for testing. The world has the syntax of its keys."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

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

    def complete(self, uses: dict[str, Any]) -> dict[str, Any]:
        """The default keys, then these in their order: the last key for a level counts.

        Raises:
            ValueError: together they cannot be; the message is one line.
        """
        return {key: use for key, use in self.defaults.items() if key not in uses} | uses


def fits_file(key: str) -> bool:
    """Whether a key can be read back from an INI file, where some would be read as something else, or not at all."""
    whole = key.isprintable() and key == key.strip() and len(key) <= 1000
    return whole and key[:1] not in ("", "#", "[") and "=" not in key
