"""Replays on the disk, beside a run's checkpoints: whole or not at all, and read without running code.

A file is a digest of what follows, a description as JSON, and arrays as safetensors. Unrolls are in files that never
change and are named by their digest; a state, named as its checkpoint, has all the rest, and the names of its unrolls'
files. So what a state says never depends on what is written after it.
"""

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy

from kartrl.errors import UserError
from kartrl.files import write_whole
from kartrl.replay.mixture import Mixture
from kartrl.replay.unroll_memory import MemoryShape

FORMAT = "kartrl replay 1"
PIECE = 1 << 24  # bytes of unrolls in a file: what is copied while training waits for it
DIGEST = 32  # bytes
LARGEST_STATE = 1 << 30  # bytes of a state's file; a larger one is not ours
MOST = 3  # times as much as replays hold may be on the disk, while they are saved


class Piece(NamedTuple):
    """A file of unrolls."""

    serials: np.ndarray  # of its unrolls, int64 [n]
    size: int  # bytes


class ReplayFolder:
    """Saves what a mixture holds, of which only what came in since the last time is written.

    Unrolls that no replay holds any more stay in their files. Files of which most is so are written anew as far as
    they are held: they take at most twice as much as what is held, and a piece.

    Args:
        path: of the folder.
        mixture: its lock is held for moments only.
    """

    def __init__(self, path: Path, mixture: Mixture) -> None:
        self._path, self._mixture = path, mixture
        self._unrolls = max(1, PIECE // _unroll_size(mixture.shape))  # of a piece, at most
        self._pieces: dict[str, Piece] = {}  # by the names of their files

    def unwritten(self) -> int:
        """Bytes that `save` would have to write now, about."""
        with self._mixture.lock:
            held = self._mixture.serials()
        return len(self._unwritten(held)) * _unroll_size(self._mixture.shape)

    def write_ahead(self) -> None:
        """Write pieces until hardly anything is left for `save`, while training goes on.

        Raises:
            OSError: the folder cannot be written to or the disk is full.
        """
        with self._mixture.lock:
            self._choose_pieces(held := self._mixture.serials())
        for _ in range(0, len(self._unwritten(held)), self._unrolls):  # no more, should they come in still faster
            with self._mixture.lock:
                serials = self._unwritten(self._mixture.serials())[: self._unrolls]
                if len(serials) < self._unrolls:
                    return
                unrolls = self._mixture.export(serials)
            self._write_piece(unrolls)

    def save(self, name: str) -> None:
        """Save a state by this name. The one before and its files are still there, until `remove_others`.

        Raises:
            OSError: the folder cannot be written to or the disk is full; what was saved before is as it was.
        """
        self.write_ahead()
        with self._mixture.lock:
            held = self._mixture.serials()
            unwritten = self._unwritten(held)
            parts = [unwritten[first : first + self._unrolls] for first in range(0, len(unwritten), self._unrolls)]
            exported = [self._mixture.export(part) for part in parts]
            state = self._mixture.state()
        for unrolls in exported:
            self._write_piece(unrolls)
        needed = [item for item in self._pieces.items() if np.isin(item[1].serials, held).any()]
        self._pieces = dict(sorted(needed, key=lambda item: int(item[1].serials[0])))  # in the order of their unrolls
        content = _content({"pieces": list(self._pieces)}, state)
        write_whole(self._path / f"{name}.state", content, durable=True)

    def remove_others(self, name: str) -> None:
        """Remove all but the state of this name and its files."""
        keep = {f"{name}.state", *(f"{piece}.unrolls" for piece in self._pieces)}
        for path in [*self._path.glob("*.state"), *self._path.glob("*.unrolls")]:
            if path.name not in keep:
                path.unlink(missing_ok=True)

    def restore(self, name: str) -> None:
        """Fill the mixture, which is empty, with a state; it stays empty if that fails.

        Raises:
            UserError: there is none of this name, or it is damaged or of other replays.
        """
        try:
            self._restore(name)
        except FileNotFoundError as error:
            self._begin_empty()
            raise UserError("none was saved with this checkpoint") from error
        except Exception as error:  # JSON, safetensors and numpy have no common class for what a foreign file can do
            self._begin_empty()
            reason = " ".join(str(error).split())[:160]
            raise UserError(f"{self._path / name}.state: damaged, or not of these replays ({reason})") from error

    def _begin_empty(self) -> None:
        self._mixture.forget()
        self._pieces = {}

    def _restore(self, name: str) -> None:
        """See `restore`.

        Raises:
            Exception: any.
        """
        shape = self._mixture.shape
        _, about, state = _parts(_read(self._path / f"{name}.state", LARGEST_STATE))
        self._mixture.load_state(state)
        largest = 2 * self._unrolls * (shape.longest * shape.frame_bytes + _unroll_size(shape)) + (1 << 20)
        for piece in about["pieces"]:
            if not (isinstance(piece, str) and piece.isalnum()):
                raise ValueError("a file's name that is none of ours")
            content = _read(self._path / f"{piece}.unrolls", largest)
            digest, _, unrolls = _parts(content)
            if digest != piece:
                raise ValueError(f"{piece}.unrolls is another file")
            self._mixture.restore(unrolls)
            self._pieces[piece] = Piece(unrolls["serial"].copy(), len(content))
        if missing := self._mixture.missing():
            raise ValueError(f"{missing} unrolls are not there")

    def _choose_pieces(self, held: np.ndarray) -> None:
        """Give up pieces of which the least is held, until the others take no more than twice what is."""
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
        content = _content({}, unrolls)
        name = content[:DIGEST].hex()
        self._path.mkdir(exist_ok=True)
        write_whole(self._path / f"{name}.unrolls", content, durable=True)
        self._pieces[name] = Piece(unrolls["serial"], len(content))


def most_on_disk(shape: MemoryShape) -> int:
    """Bytes that a folder may come to take, while it is saved."""
    return MOST * shape.size()


def _unroll_size(shape: MemoryShape) -> int:
    """Bytes of an unroll in a full memory."""
    return -(-shape.size() // shape.unrolls)


def _content(about: dict[str, Any], arrays: dict[str, np.ndarray]) -> bytes:
    """Of a file."""
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


def _parts(content: bytes) -> tuple[str, dict[str, Any], dict[str, np.ndarray]]:
    """Digest, description and arrays of a file.

    Raises:
        Exception: any; it is damaged or none of ours.
    """
    rest = memoryview(content)[DIGEST:]
    if hashlib.blake2b(rest, digest_size=DIGEST).digest() != content[:DIGEST]:
        raise ValueError("a file's content is not what was written")
    end = 8 + int.from_bytes(rest[:8], "little")
    about = json.loads(bytes(rest[8:end]))
    if about["format"] != FORMAT:
        raise ValueError("written by another version of kartrl")
    return content[:DIGEST].hex(), about, safetensors.numpy.load(bytes(rest[end:]))
