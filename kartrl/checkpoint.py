"""Checkpoints: written whole or not at all, read without running any code they contain."""

import os
import platform
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kartrl import __version__
from kartrl.config import Config, dump, read
from kartrl.errors import UserError
from kartrl.models import Script, make_model
from kartrl.types import Counters

FORMAT = "kartrl checkpoint 1"
LARGEST = 4 << 30  # bytes; a larger file is not one of ours


class Checkpoint(NamedTuple):
    """All that a run needs to go on, and all that driving needs."""

    config: Config
    model: dict[str, Tensor]
    optimizer: dict[str, Any]
    counters: Counters
    observation_shape: tuple[int, ...]
    num_actions: int
    score: float | None = None  # mean return over the train circuits, where it was evaluated


def save(path: Path, checkpoint: Checkpoint) -> None:
    """Write beside `path`, flush to the disk, then rename: whoever reads `path` sees the old file or the new one.

    Raises:
        OSError: the folder cannot be written to or the disk is full; `path` is then as it was.
    """
    content = {
        **checkpoint._asdict(),
        "format": FORMAT,
        "config": dump(checkpoint.config),
        "counters": tuple(checkpoint.counters),
        "versions": {"kartrl": __version__, "torch": str(torch.__version__), "python": platform.python_version()},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            torch.save(content, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    if os.name == "posix":  # the rename itself lasts only once the folder is flushed
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def load(path: Path) -> Checkpoint:
    """Read a checkpoint; nothing in the file is executed (`weights_only`).

    Raises:
        UserError: the file is missing, truncated, damaged, not one of ours, or asks for code to be run.
    """
    try:
        _check_archive(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise UserError(f"{path}: cannot read this checkpoint ({error.strerror or error})") from error
    except UserError:
        raise
    except Exception as error:  # torch.load has no common class for what a foreign file can do to it
        raise UserError(f"{path}: refused: not a kartrl checkpoint (it holds more than weights, or is damaged)") from error
    try:
        if content["format"] != FORMAT:
            raise ValueError(content["format"])
        return Checkpoint(
            config=read(base=content["config"]),
            model={str(name): value for name, value in content["model"].items() if isinstance(value, Tensor)},
            optimizer=dict(content["optimizer"]),
            counters=Counters(*content["counters"]),
            observation_shape=tuple(int(size) for size in content["observation_shape"]),
            num_actions=int(content["num_actions"]),
            score=None if content["score"] is None else float(content["score"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError, UserError) as error:
        raise UserError(f"{path}: not a checkpoint of this version of kartrl ({_line(error)})") from error


def load_model(checkpoint: Checkpoint, device: str | torch.device) -> Script:
    """The scripted network of a checkpoint, on `device`, in evaluation mode.

    Raises:
        UserError: the weights do not fit the network that the checkpoint's own configuration describes.
    """
    model = make_model(checkpoint.config.model, checkpoint.observation_shape, checkpoint.num_actions)
    fit(model, checkpoint.model)
    return model.to(device).eval()


def fit(model: Script, weights: dict[str, Tensor]) -> None:
    """Put `weights` into `model`.

    Raises:
        UserError: names or shapes differ.
    """
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise UserError(f"the checkpoint's weights do not fit this network ({_line(error)[:160]})") from error


def newest_first(run_folder: Path) -> list[Path]:
    """The run's checkpoints, newest first (their names are their numbers of agent steps)."""
    return sorted((run_folder / "checkpoints").glob("*.pt"), reverse=True)


def newest(run_folder: Path) -> Path | None:
    """The run's newest checkpoint, or None."""
    return next(iter(newest_first(run_folder)), None)


def _check_archive(path: Path) -> None:
    """Refuse what is too large, compressed (a bomb), truncated or damaged, before anything is unpacked."""
    if path.is_dir():
        raise UserError(f"{path}: is a folder; give a checkpoint file, such as {path / 'best.pt'}")
    if path.stat().st_size > LARGEST:
        raise UserError(f"{path}: refused: larger than {LARGEST >> 30} GiB")
    try:
        with zipfile.ZipFile(path) as archive:
            compressed = any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist())
            if compressed or archive.testzip() is not None:
                raise UserError(f"{path}: refused: this checkpoint is damaged, or not written by kartrl")
    except zipfile.BadZipFile as error:
        raise UserError(f"{path}: not a checkpoint, or one that was cut short") from error


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
