"""Resolves the keys of [levels] or `-l` to circuits: finds files and builds missing ones, before processes start."""

import glob
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from kartrl.config import Config, Levels
from kartrl.config.levels import Use
from kartrl.errors import UserError
from kartrl.files import user_path
from kartrl.kart.game_files import circuits, game_folder, resolve_game
from kartrl.kart.levels import (
    CIRCUITS,
    LEVELS,
    circuit_name,
    is_generated,
    is_path,
    is_random,
    mistake,
    names_of,
    numbers_of,
)
from kartrl.kart.settings import sections_of
from kartrl.metrics.tables import say


def with_circuits(config: Config, console: Console | None = None) -> Config:
    """The configuration with [levels] resolved to names and absolute paths of start states.

    So is `kart.game = auto`: a run and its checkpoints stay with the game, whichever is imported later.

    Raises:
        UserError: see `look_up`.
    """
    kart = sections_of(config).kart
    game = resolve_game(kart.game)
    found = look_up(config.levels.uses, game, console, defaults=True)
    levels = config.levels.model_copy(update={"found": found})
    return config.replaced(kart=kart.model_copy(update={"game": game}), levels=levels)


def with_one_circuit(config: Config) -> Config:
    """The configuration with one of the game's own circuits, `with_circuits`; nothing is built.

    Raises:
        UserError: see `game_folder`; or it has none.
    """
    folder = game_folder(sections_of(config).kart.game)
    circuit = next((name for name in circuits(folder) if name in CIRCUITS), None)
    if circuit is None:
        raise UserError(f"{folder}: no start state; make one with `kartrl play --game cartridge`")
    return with_circuits(config.model_copy(update={"levels": Levels(uses={circuit: "train"})}))


def circuits_of(keys: Iterable[str], game: str, console: Console | None = None) -> tuple[str, ...]:
    """Resolve keys, in any form of a key of [levels], to circuits.

    Raises:
        UserError: see `look_up`; or a key is not valid.
    """
    keys = list(keys)
    for key in keys:
        if (wrong := mistake(key, in_file=False)) is not None:
            raise UserError(
                f"circuit {key[:80]!r}: {wrong}; the game has {', '.join(circuits(game_folder(game))) or 'none'}"
            )
    return tuple(look_up(dict.fromkeys(keys, "test"), game, console))


def look_up(
    levels: Mapping[str, Use], game: str, console: Console | None = None, defaults: bool = False
) -> dict[str, Use]:
    """Resolve the keys of [levels]: circuit (a name, or the absolute path of a start state) -> train or test.

    Args:
        game: auto, bundled or cartridge.
        defaults: keys of the default configuration are not the user's wish: skip those that the game cannot have.

    Raises:
        UserError: a file is missing or no file matches, a circuit cannot be built, or two have the same name.
    """
    own = {key: use for key, use in levels.items() if is_path(key) or is_random(key)}
    while own and own[first := next(iter(own))] == "none":  # nothing before it that it could exclude
        del own[first]
    found: dict[str, Use] = {}
    with _Building(game, console) as building:
        for key, use in levels.items():
            if defaults and key in LEVELS and is_random(key) and not building.for_bundled:
                continue
            if key in own:
                members = building.random(key) if is_random(key) else building.files(key)
            else:
                members = [] if is_path(key) or is_random(key) else names_of(key)
            found |= dict.fromkeys(members, use)
    found = {circuit: use for circuit, use in found.items() if use != "none"}
    called: dict[str, str] = {}
    for circuit in found:
        other = called.setdefault(circuit_name(circuit), circuit)
        if other != circuit:
            raise UserError(
                f"[levels]: {other} and {circuit} are both called {circuit_name(circuit)}; rename one of them"
            )
    return found


def uses_by_name(levels: Mapping[str, Use], names: Iterable[str]) -> dict[str, Use]:
    """The uses of the circuits with these short names, judged by the keys and the names of files: none is built."""
    names = set(names)
    uses: dict[str, Use] = {}
    for key, use in levels.items():
        if is_random(key):
            meant = {name for name in names if is_generated(name, numbers_of(key))}
        elif is_path(key):
            meant = names & {circuit_name(str(file.with_suffix(".state"))) for file in _files_or_key(key)}
        else:
            meant = names & set(names_of(key))
        uses |= dict.fromkeys(meant, use)
    return uses


class _Building:
    """Finds the start states of circuits that are not the game's own and builds missing ones; a context manager."""

    def __init__(self, game: str, console: Console | None) -> None:
        self._game, self._console = game, console
        columns = (
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}", markup=False),
        )
        hidden = console is None or not console.is_terminal
        self._progress = Progress(
            TextColumn("preparing circuits", markup=False), *columns, console=console, transient=True, disable=hidden
        )

    def __enter__(self) -> "_Building":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    @property
    def for_bundled(self) -> bool:
        """Whether the game is the bundled one, for which circuits can be built."""
        return resolve_game(self._game) == "bundled"

    def random(self, key: str) -> list[str]:
        """The start states of `random:...`, as absolute paths."""
        from kartrl.kart.circuits.library import random_states

        self._check_game(key)
        numbers, kind = numbers_of(key)
        task = self._progress.add_task("", total=len(numbers))
        files = random_states(
            numbers,
            kind,
            lambda name: self._progress.update(task, advance=1, description=name),
            lambda count: self._announce(key, count),
        )
        self._progress.remove_task(task)
        return [str(file.resolve()) for file in files]

    def files(self, key: str) -> list[str]:
        """The start states at a path, as absolute paths, or as names if they are the game's own."""
        files = list(_files(key))
        if not files:
            hint = (
                f"; to use circuit files, write {Path(key) / '*.toml'}" if list(user_path(key).glob("*.toml")) else ""
            )
            raise UserError(f"[levels] {key}: no start state (*.state) there{hint}")
        task = self._progress.add_task("", total=len(files))
        states = []
        for file in files:
            self._progress.update(task, description=file.name)
            states.append(self._state(key, file))
            self._progress.advance(task)
        self._progress.remove_task(task)
        return states

    def _state(self, key: str, file: Path) -> str:
        if file.suffix == ".toml":
            from kartrl.kart.circuits.library import state_of

            self._check_game(key)
            file = state_of(file, lambda count: self._announce(str(file), count))
        file = file.resolve()
        folder = game_folder(self._game)
        return file.stem if file.parent == folder.resolve() and file.stem in circuits(folder) else str(file)

    def _announce(self, key: str, count: int) -> None:
        if self._console is not None:
            what = f"Building {count} circuit{'s' * (count > 1)}, {key}: about a second each, once"
            say(self._console, what)

    def _check_game(self, key: str) -> None:
        if not self.for_bundled:
            raise UserError(
                f"[levels] {key}: circuits are made for the bundled game, not for {game_folder(self._game).name}; "
                "set kart.game=bundled"
            )


def _files_or_key(key: str) -> list[Path]:
    """As `_files`; if it is gone, the file that a path names, which a folder does not."""
    try:
        return list(_files(key))
    except UserError:
        return [user_path(key)] if key.endswith((".state", ".toml")) else []


def _files(key: str) -> Iterator[Path]:
    """The start states and circuit files that match a path: a file, a folder or a glob pattern."""
    path = user_path(key)
    places = [path] if os.path.exists(path) else sorted(map(Path, glob.glob(str(path), recursive=True)))
    if not places:
        raise UserError(f"[levels] {key}: nothing there matches (looked in {Path.cwd()})")
    for place in places:
        if place.is_dir():
            yield from sorted(place.glob("*.state"))
        elif place.suffix in (".state", ".toml"):
            yield place
        elif place == path:
            raise UserError(f"[levels] {key}: neither a start state (.state) nor a circuit's file (.toml)")
