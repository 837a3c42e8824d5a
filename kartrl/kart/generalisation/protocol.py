"""The protocol that all runs of a results folder share, and its record in the folder."""

import hashlib
import importlib.metadata
import json
import os
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kartrl import __version__
from kartrl.config import Config, check_own, dump, read
from kartrl.errors import UserError
from kartrl.files import write_whole
from kartrl.kart.game_files import BUNDLED, build_id, game_folder
from kartrl.kart.generalisation.splits import Split
from kartrl.kart.levels import circuit_name, is_path

OURS = ("run.logs", "run.name", "run.seed", "run.agent_steps", "run.minutes", "environment.id", "kart.game")
"""Keys that the benchmark sets, besides [levels]."""
PRESET = "generated"  # the configuration
DEFAULTS = ("kart.game=bundled", "evaluation.minutes=0")
LIBRARIES = ("torch", "numpy", "gymnasium", "stable-retro", "opencv-python-headless")


class Protocol(NamedTuple):
    """How each policy is trained and evaluated."""

    agent_steps: int  # of a split whose `steps` are 1
    episodes: int  # per circuit
    overrides: tuple[str, ...]  # section.key=value
    quick: bool = False

    def config_of(self, split: Split, seed: int, folder: Path) -> Config:
        """Configuration of a training run in this folder."""
        ours = [f"run.logs={folder.parent}", f"run.name={folder.name}", f"run.seed={seed}"]
        levels = ["levels.*=none", *(f"levels.{key}=train" for key in split.train)]
        levels += [f"levels.{key}=test" for keys in split.unseen.values() for key in keys]
        steps = f"run.agent_steps={round(self.agent_steps * split.steps)}"
        return read([PRESET], [*DEFAULTS, *self.overrides, steps, *ours, *levels])


def validate(protocol: Protocol) -> None:
    """Refuse overrides that are invalid, or change a key that the benchmark sets."""
    keys = (override.partition("=")[0].strip() for override in protocol.overrides)
    levels = [key for key in keys if key.startswith("levels.")]
    check_own(protocol.overrides, [*OURS, *levels], "the benchmark")
    read([PRESET], protocol.overrides)


def record_protocol(folder: Path, protocol: Protocol, splits: Sequence[Split]) -> None:
    """Record the protocol in the folder, or check that it equals the recorded one, so that results are comparable.

    Raises:
        UserError: the protocols differ.
    """
    file = folder / "protocol.json"
    own = _description(protocol, splits)
    if file.exists():
        try:
            noted: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            same = {key: noted[key] for key in ("protocol", "kartrl", "rom_build_id", "config")}
            noted_splits = noted["splits"]
        except (OSError, ValueError, KeyError) as error:
            raise UserError(f"{file}: damaged; choose another folder with -o") from error
        for key, value in same.items():
            if value != own[key]:
                what = " ".join(f"{value} there, {own[key]} now".split())
                what = "the configuration differs" if key == "config" else f"{key.replace('_', ' ')}: {what}"
                raise UserError(f"{folder}: has results of another protocol ({what}); choose another folder with -o")
        for name, split in own["splits"].items():
            if noted_splits.get(name, split) != split:
                raise UserError(f"{folder}: has results of another split {name}; choose another folder with -o")
        own = {**noted, "splits": {**noted_splits, **own["splits"]}}
    write_json(file, own)


def record_circuits(folder: Path, circuits: Iterable[str]) -> None:
    """Record hashes of the generated circuits, or check them: another version of the generator gives other circuits.

    Args:
        circuits: names and paths of start states; only the latter are checked.

    Raises:
        UserError: a circuit has changed.
    """
    file = folder / "circuits.json"
    noted: dict[str, str] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    for circuit in filter(is_path, circuits):
        name = circuit_name(circuit)
        digest = hashlib.sha1(Path(circuit).read_bytes(), usedforsecurity=False).hexdigest()
        if noted.setdefault(name, digest) != digest:
            raise UserError(
                f"{folder}: circuit {name} differs from the one measured before; choose another folder with -o"
            )
    write_json(file, noted)


def _description(protocol: Protocol, splits: Sequence[Split]) -> dict[str, Any]:
    build = build_id(game_folder("bundled"))
    described = {
        "benchmark": "kartrl generalisation 1",
        "protocol": {
            "agent_steps": protocol.agent_steps,
            "episodes": protocol.episodes,
            "policy": "greedy",
            "quick": protocol.quick,
        },
        "kartrl": __version__,
        "rom": BUNDLED,
        "rom_build_id": f"{build:08x}",
        "config": dump(read([PRESET], [*DEFAULTS, *protocol.overrides, "levels.*=none"]), comments=False),
        "splits": {split.name: {"train": split.train, "steps": split.steps, **split.sets()} for split in splits},
        "libraries": {name: importlib.metadata.version(name) for name in LIBRARIES},
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors",
    }
    as_read: dict[str, Any] = json.loads(json.dumps(described))
    return as_read


def write_json(file: Path, content: Any) -> None:
    """Write a JSON file atomically."""
    write_whole(file, json.dumps(content, indent=1).encode())
