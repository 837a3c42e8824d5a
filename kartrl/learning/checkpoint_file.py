"""The file of a checkpoint as such, without PyTorch: the evaluator needs no more of it. `checkpoint` has the rest.

It is a safetensors file. Its header contains everything but tensors, as JSON, and a digest of the content.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

import numpy as np
import safetensors.numpy

from kartrl.errors import UserError
from kartrl.files import write_whole
from kartrl.learning.counters import Counters

FORMAT = "kartrl checkpoint 7"
LARGEST = 1 << 32  # bytes; a larger file is not one of ours
LARGEST_HEADER = 1 << 20
NETWORK = "network"  # the group of its weights' names
Read = TypeVar("Read")


class Header(NamedTuple):
    """What a file begins with."""

    about: str  # JSON
    sha256: str  # `digest` of the content
    tensors: dict[str, Any]  # shape and dtype of each, by its name
    length: int  # bytes of all this
    size: int  # bytes of the file


class CheckpointFile(NamedTuple):
    """The content of a file."""

    about: dict[str, Any]
    arrays: dict[str, np.ndarray]  # by "<group>/<name>"

    @property
    def counters(self) -> Counters:
        return Counters(*self.about["counters"])

    def weights(self, names: Sequence[str]) -> np.ndarray:
        """The network's tensors of these names, one after another, float32 [n]."""
        return np.concatenate([self.arrays[f"{NETWORK}/{name}"].ravel() for name in names]).astype(np.float32)

    def write(self, path: Path) -> None:
        """Write to a temporary file, flush to the disk, then rename: readers see the old file or the new one.

        Raises:
            OSError: the folder cannot be written to or the disk is full; `path` is unchanged.
        """
        text = json.dumps(self.about)
        content = safetensors.numpy.save(self.arrays, {"about": text, "sha256": digest(text, self.arrays)})
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content, durable=True)


def read(path: Path) -> CheckpointFile:
    """Read a file that this run has written; unlike `checkpoint.load`, do not check whether its network can be made.

    Raises:
        UserError: it is missing, truncated, damaged or not one of ours.
    """
    return opened(path, _read)


def opened(path: Path, function: Callable[[BinaryIO], Read]) -> Read:
    """What a function reads from a file; all that can be wrong with it is a UserError."""
    if path.is_dir():
        raise UserError(f"{path}: is a folder; give a checkpoint file, such as {path / 'best.pt'}")
    try:
        with path.open("rb") as file:
            return function(file)
    except OSError as error:
        raise UserError(f"{path}: cannot read this checkpoint ({error.strerror or error})") from error
    except UserError as error:
        raise UserError(f"{path}: refused: {error}") from error
    except Exception as error:  # JSON, safetensors and torch have no common exception class for malformed files
        line = " ".join(str(error).split())[:160]
        raise UserError(f"{path}: refused: damaged, or not a checkpoint of this version of kartrl ({line})") from error


def read_header(file: BinaryIO) -> Header:
    """The header, which is checked before anything else is read."""
    size = os.fstat(file.fileno()).st_size
    if size > LARGEST:
        raise UserError(f"larger than {LARGEST >> 20} MiB")
    length = int.from_bytes(file.read(8), "little")
    if not 2 <= length <= min(LARGEST_HEADER, size - 8):
        raise UserError("not a checkpoint, or a truncated one")
    tensors = json.loads(file.read(length))
    metadata = tensors.pop("__metadata__")
    return Header(metadata["about"], metadata["sha256"], tensors, 8 + length, size)


def parse_about(text: str) -> dict[str, Any]:
    """The JSON of a header."""
    about: dict[str, Any] = json.loads(text)
    if about["format"] != FORMAT:
        raise UserError("written by another version of kartrl")
    return about


def _read(file: BinaryIO) -> CheckpointFile:
    header = read_header(file)
    about = parse_about(header.about)
    file.seek(0)
    arrays = safetensors.numpy.load(file.read(header.size))
    check_digest(header, arrays)
    return CheckpointFile(about, arrays)


def check_digest(header: Header, arrays: Mapping[str, np.ndarray]) -> None:
    """Refuse a content that is not the one that was saved."""
    if header.sha256 != digest(header.about, arrays):
        raise UserError("damaged: its checksum does not match")


def digest(about: str, arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 of a checkpoint's content, independent of the layout of the file."""
    digest = hashlib.sha256(about.encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} torch.{array.dtype} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def newest_first(run_folder: Path) -> list[Path]:
    """The run's checkpoints, newest first: files named by their agent steps, not a user's copies by other names."""
    saved = (path for path in (run_folder / "checkpoints").glob("*.pt") if path.stem.isdecimal())
    return sorted(saved, key=lambda path: int(path.stem), reverse=True)


def newest(run_folder: Path) -> Path | None:
    """The run's newest checkpoint, or None."""
    return next(iter(newest_first(run_folder)), None)


def newest_readable(run_folder: Path, read: Callable[[Path], Read]) -> tuple[Path, Read] | None:
    """The run's newest checkpoint that can be read, and what a function reads of it; None if there is none."""
    for path in newest_first(run_folder):
        with contextlib.suppress(UserError):
            return path, read(path)
    return None
