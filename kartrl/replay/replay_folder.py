"""Replays on the disk, next to a run's checkpoints: written atomically, and read without running code.

A file consists of a digest of what follows, a description as JSON, and arrays as safetensors. Unrolls are in files that
never change and are named by their digest; a state, named like its checkpoint, contains everything else and the names
of its unrolls' files. So a state never depends on anything written after it.
"""

import hashlib
import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy

from kartrl.errors import UserError
from kartrl.files import write_whole
from kartrl.replay.mixture import Mixture
from kartrl.replay.unroll_memory import NO_LIMIT, MemoryShape

FORMAT = "kartrl replay 1"
PIECE = 1 << 24  # bytes of unrolls in a file: copied while training waits
DIGEST = 32  # bytes
LARGEST_STATE = 1 << 30  # bytes of a state's file; a larger one is not ours
MOST = 3  # times the size of the replays: the most that may be on the disk while they are saved


class Piece(NamedTuple):
    """A file of unrolls."""

    serials: np.ndarray  # of its unrolls, int64 [n]
    size: int  # bytes


class ReplayFolder:
    """Saves the contents of a mixture, writing only the unrolls added since the last save.

    Unrolls that no replay holds any more stay in their files. Files whose unrolls are mostly gone are rewritten with
    those that remain: all files take at most twice the size of the held unrolls, plus a piece.

    Args:
        mixture: its lock is held only briefly.
    """

    def __init__(self, path: Path, mixture: Mixture) -> None:
        self._path, self._mixture = path, mixture
        uncompressed = mixture.shape._replace(limit=NO_LIMIT)
        self.unrolls = max(1, PIECE // _unroll_size(uncompressed))  # maximum per piece
        self._pieces: dict[str, Piece] = {}  # by the names of their files

    def move(self, path: Path) -> None:
        """The folder is now this one; pieces that are not in it are written again."""
        self._path = path
        self._pieces = {name: piece for name, piece in self._pieces.items() if (path / f"{name}.unrolls").exists()}

    def unwritten(self) -> int:
        """Approximate number of bytes that `save` would have to write now."""
        with self._mixture.lock:
            held = self._mixture.serials()
        return len(self._unwritten(held)) * _unroll_size(self._mixture.shape)

    def write_ahead(self) -> None:
        """Write pieces until little is left for `save`, while training continues.

        Raises:
            OSError: the folder cannot be written to or the disk is full.
        """
        with self._mixture.lock:
            self._choose_pieces(held := self._mixture.serials())
        before, left = math.inf, len(self._unwritten(held))
        while self.unrolls <= left <= before / 2:  # no longer if they arrive nearly as fast as they are written
            for _ in range(0, left, self.unrolls):
                with self._mixture.lock:
                    serials = self._unwritten(self._mixture.serials())[: self.unrolls]
                    if len(serials) < self.unrolls:
                        return
                    unrolls = self._mixture.export(serials)
                self._write_piece(unrolls)
            with self._mixture.lock:
                before, left = left, len(self._unwritten(self._mixture.serials()))

    def save(self, name: str) -> None:
        """Save a state by this name. The previous one and its files stay until `remove_others`.

        Raises:
            OSError: the folder cannot be written to or the disk is full; the previous state is unchanged.
        """
        self.write_ahead()
        with self._mixture.lock:
            held = self._mixture.serials()
            unwritten = self._unwritten(held)
            parts = [unwritten[first : first + self.unrolls] for first in range(0, len(unwritten), self.unrolls)]
            exported = [self._mixture.export(part) for part in parts]
            state = self._mixture.state()
        for unrolls in exported:
            self._write_piece(unrolls)
        needed = [item for item in self._pieces.items() if np.isin(item[1].serials, held).any()]
        self._pieces = dict(sorted(needed, key=lambda item: int(item[1].serials[0])))  # in the order of their unrolls
        content = content_of({"pieces": list(self._pieces)}, state)
        write_whole(self._path / f"{name}.state", content, durable=True)

    def remove_others(self, name: str) -> None:
        """Remove all but the state of this name and its files."""
        keep = {f"{name}.state", *(f"{piece}.unrolls" for piece in self._pieces)}
        for path in [*self._path.glob("*.state"), *self._path.glob("*.unrolls")]:
            if path.name not in keep:
                path.unlink(missing_ok=True)

    def restore(self, name: str) -> None:
        """Fill the empty mixture with a state; it stays empty if that fails.

        Raises:
            UserError: there is no state of this name, or it is damaged or of other replays.
        """
        try:
            self._restore(name)
        except FileNotFoundError as error:
            self._begin_empty()
            raise UserError("none was saved with this checkpoint") from error
        except Exception as error:  # JSON, safetensors and numpy have no common class for malformed files
            self._begin_empty()
            reason = " ".join(str(error).split())[:160]
            raise UserError(f"{self._path / name}.state: damaged, or not from these replays ({reason})") from error

    def _begin_empty(self) -> None:
        self._mixture.forget()
        self._pieces = {}

    def _restore(self, name: str) -> None:
        shape = self._mixture.shape
        _, about, state = parts_of(_read(self._path / f"{name}.state", LARGEST_STATE))
        self._mixture.load_state(state)
        largest = 2 * self.unrolls * (shape.longest * shape.frame_bytes + _unroll_size(shape)) + (1 << 20)
        for piece in about["pieces"]:
            if not (isinstance(piece, str) and piece.isalnum()):
                raise ValueError("an unexpected file name")
            content = _read(self._path / f"{piece}.unrolls", largest)
            digest, _, unrolls = parts_of(content)
            if digest != piece:
                raise ValueError(f"{piece}.unrolls is another file")
            self._mixture.restore(unrolls)
            self._pieces[piece] = Piece(unrolls["serial"].copy(), len(content))
        if missing := self._mixture.missing():
            raise ValueError(f"{missing} unrolls are missing")

    def _choose_pieces(self, held: np.ndarray) -> None:
        """Drop the pieces with the smallest held share, until the rest take at most twice the size of what is held."""
        shares = {name: float(np.isin(piece.serials, held).mean()) for name, piece in self._pieces.items()}
        size = sum(piece.size for piece in self._pieces.values())
        used = sum(shares[name] * piece.size for name, piece in self._pieces.items())
        for name in sorted(shares, key=shares.__getitem__):
            if size <= 2 * used + PIECE:
                return
            piece = self._pieces.pop(name)
            size -= piece.size
            used -= shares[name] * piece.size

    def _unwritten(self, held: np.ndarray) -> np.ndarray:
        written = [piece.serials for piece in self._pieces.values()]
        return np.setdiff1d(held, np.concatenate(written)) if written else held

    def _write_piece(self, unrolls: dict[str, np.ndarray]) -> None:
        content = content_of({}, unrolls)
        name = content[:DIGEST].hex()
        self._path.mkdir(exist_ok=True)
        write_whole(self._path / f"{name}.unrolls", content, durable=True)
        self._pieces[name] = Piece(unrolls["serial"], len(content))


def most_on_disk(shape: MemoryShape) -> int:
    """The most bytes that a folder may take while it is being saved."""
    return MOST * shape.size()


def _unroll_size(shape: MemoryShape) -> int:
    """Bytes per unroll in a full memory."""
    return -(-shape.size() // shape.unrolls)


def content_of(about: dict[str, Any], arrays: dict[str, np.ndarray]) -> bytes:
    text = json.dumps({"format": FORMAT, **about}).encode()
    packed = safetensors.numpy.save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    rest = b"".join([len(text).to_bytes(8, "little"), text, packed])
    return hashlib.blake2b(rest, digest_size=DIGEST).digest() + rest


def _read(path: Path, largest: int) -> bytes:
    with path.open("rb") as file:
        content = file.read(largest + 1)
    if len(content) > largest:
        raise ValueError(f"{path.name} is too large")
    return content


def parts_of(content: bytes) -> tuple[str, dict[str, Any], dict[str, np.ndarray]]:
    """Digest, description and arrays of a file."""
    rest = memoryview(content)[DIGEST:]
    if hashlib.blake2b(rest, digest_size=DIGEST).digest() != content[:DIGEST]:
        raise ValueError("a file's checksum does not match")
    end = 8 + int.from_bytes(rest[:8], "little")
    about = json.loads(bytes(rest[8:end]))
    if about["format"] != FORMAT:
        raise ValueError("written by another version of kartrl")
    return content[:DIGEST].hex(), about, safetensors.numpy.load(bytes(rest[end:]))
