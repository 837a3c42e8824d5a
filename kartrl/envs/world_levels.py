"""The part of a world's interface that is about its levels; its defaults are those of a world without any."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from kartrl.errors import UserError
from kartrl.files import user_path

if TYPE_CHECKING:
    from rich.console import Console

    from kartrl.config import Config
    from kartrl.config.levels import LevelSyntax

MANY = 12  # more levels than this are shown and logged by group


class WorldLevels:
    """See the module, and `World`."""

    level_word: ClassVar[str] = "level"
    """What a level is called, in headings and in tags: `train_levels/...`."""
    config: Config

    @property
    def syntax(self) -> LevelSyntax | None:
        """The syntax of [levels] that the world brings; None: it has no levels, unless it overrides `levels`."""
        from kartrl.config.worlds import settings_of

        return settings_of(self.config.environment.id).levels

    def uses(self) -> dict[str, str]:
        """The use of each level of a prepared configuration."""
        found = self.config.levels.found
        return {**(self.named_uses() if found is None else found)}

    def named_uses(self) -> Mapping[str, str]:
        """The use of each level that a key of [levels] names, as far as nothing has to be looked up."""
        syntax, keys = self.syntax, self.config.levels.uses
        return {} if syntax is None else {level: use for key, use in keys.items() for level in syntax.expand(key)}

    def prepare(self, console: Console | None = None) -> Config:
        """The configuration with everything that is looked up, built or fetched once, before processes start.

        Args:
            console: shows progress.

        Raises:
            UserError: something that the configuration names does not exist.
        """
        return self.config

    def prepare_one(self) -> Config | None:
        """As `prepare`, with one level that is at hand, for a look at the environment before levels are built.

        None: `prepare` builds none.

        Raises:
            UserError: there is no level at hand.
        """
        return None

    def levels(self, use: str) -> tuple[str, ...]:
        """The levels for "train" or "test", of a prepared configuration."""
        return tuple(level for level, of in self.uses().items() if of == use)

    def count_levels(self, use: str) -> int:
        """Number of levels for "train" or "test"."""
        return len(self.levels(use))

    def all_levels(self) -> tuple[str, ...]:
        return self.levels("train") + self.levels("test")

    def level_keys(self) -> list[str]:
        """The levels of a configuration that is not prepared, as a user names them; none is built."""
        return list(self.all_levels())

    def openable(self, own: bool) -> tuple[Config, list[str]]:
        """A checkpoint's configuration with those levels that may be opened, and the keys of those that may not.

        Paths are opened only for the user's own runs, if there is still something at them.

        Args:
            own: whether a run of the user's has saved the checkpoint; a stranger's files are of another machine.

        Raises:
            UserError: too many levels would have to be built.
        """
        return self._without([key for key in self._paths() if not (own and _leads_somewhere(key))])

    def impersonal(self) -> Config:
        """The configuration to give away: with what `auto` stands for here, and without the user's own files."""
        return self._without(self._paths())[0]

    def _paths(self) -> list[str]:
        """The keys of [levels] that are paths."""
        syntax = self.syntax
        return [key for key in self.config.levels.uses if syntax is not None and syntax.is_path(key)]

    def _without(self, left: Sequence[str]) -> tuple[Config, list[str]]:
        """The configuration without these keys of [levels], and those of them that have a use."""
        uses = self.config.levels.uses
        kept = {key: use for key, use in uses.items() if key not in left}
        levels = self.config.levels.model_copy(update={"uses": kept, "found": None})
        return self.config.replaced(levels=levels), [key for key in left if uses[key] != "none"]

    def find_levels(self, keys: Sequence[str], console: Console | None = None) -> tuple[str, ...]:
        """The levels that a user names on the command line; missing ones are built now.

        Raises:
            UserError: there is no such level.
        """
        syntax, found = self.syntax, dict[str, None]()
        for key in keys:
            none = f"{self.config.environment.id} has no levels; leave it out"
            if wrong := none if syntax is None else syntax.mistake(key, in_file=False):
                raise UserError(f"-l {key}: {wrong}")
            found |= dict.fromkeys([] if syntax is None else syntax.expand(key))
        return tuple(found)

    def find_uses(self, names: Sequence[str]) -> dict[str, str]:
        """The use, "train" or "test", of the levels with these short names, for those in the configuration."""
        uses = {self.name_level(level): use for level, use in self.uses().items() if use != "none"}
        return {name: uses[name] for name in names if name in uses}

    def contents(self) -> dict[str, str]:
        """Digests of the user's files among the levels, by their names, so that a resume can tell what has changed."""
        return {name: digest(file.read_bytes()) for name, file in sorted(self.own_files().items())}

    def own_files(self) -> dict[str, Path]:
        """The levels that are files of the user's, by their short names."""
        syntax = self.syntax
        paths = [level for level in self.all_levels() if syntax is not None and syntax.is_path(level)]
        return {self.name_level(level): Path(level) for level in paths}

    def reset_options(self, level: str) -> dict[str, Any]:
        """Options of the environment's `reset` that select this level."""
        return {}

    def name_level(self, level: str) -> str:
        """Its short name in logs and tables."""
        return level

    def group_of(self, name: str) -> str:
        """The group of a level, if there are too many levels for a row each.

        Args:
            name: a short name.
        """
        return name

    @property
    def grouped(self) -> bool:
        """Whether there are too many levels for tags of their own."""
        return len(self.all_levels()) > MANY


def digest(content: bytes) -> str:
    """A short digest of a level's content."""
    return blake2b(content, digest_size=8).hexdigest()


def _leads_somewhere(key: str) -> bool:
    """Whether there is a file or a folder at a path, or any that match it."""
    path = str(user_path(key))
    return os.path.exists(path) or bool(glob.glob(path))
