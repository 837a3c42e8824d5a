"""Recognises ROMs by their hashes, and imports those of games that stable-retro knows."""

import functools
import io
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kartrl.errors import UserError
from kartrl.files import make_private, write_private
from kartrl.retro.library import INES_HEADER, folders, game_in, hash_of, imported_folder

LARGEST = 64 * 1024 * 1024  # bytes of a file; the largest ROM of these consoles has half of that
MOST_MEMBERS = 10_000  # files in an archive
COPIER_HEADER = 512  # bytes that some copiers put before a ROM
ADVICE = "stable-retro knows one revision of each game, unpacked or in a zip archive"


class Found(NamedTuple):
    """A ROM that was recognised."""

    source: str  # its file, and its name in an archive
    game: str
    file: Path | None  # where it is now; None: kartrl does not run the game
    reason: str  # why not


Install = Callable[[bytes], Path]  # writes a ROM; returns its place


def import_roms(files: Sequence[Path], others: Mapping[str, Install]) -> tuple[list[Found], list[str]]:
    """Import the ROMs among files, in zip archives too, and in folders.

    Args:
        others: what imports ROMs that stable-retro does not know, by their hashes; their `Found.game` is "".

    Returns:
        Those recognised, and a line for each named file, not one of a folder, that is not.

    Raises:
        UserError: a file cannot be read, or a ROM not be written.
    """
    found: list[Found] = []
    unknown: list[str] = []
    for file in files:
        within = [each for each in sorted(file.rglob("*")) if each.is_file()] if file.is_dir() else [file]
        for each in within:
            new = [one for source, data in _contents(each) for one in _import(source, data, others)]
            found += new
            if not new and each is file:
                unknown.append(f"{file}: not a ROM of a game that stable-retro knows (SHA-1 {_sha1(file)}); {ADVICE}")
    return found, unknown


def _sha1(file: Path) -> str:
    return hash_of(_read(file))


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(LARGEST + 1)
    except OSError as error:
        raise UserError(f"{file}: cannot read this ROM ({error.strerror})") from error


def _contents(file: Path) -> Iterator[tuple[str, bytes]]:
    """A file and, if it is an archive, what is in it."""
    data = _read(file)
    if len(data) > LARGEST:
        return
    yield str(file), data
    if not zipfile.is_zipfile(io.BytesIO(data)):
        return
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for member in archive.infolist()[:MOST_MEMBERS]:
                with archive.open(member) as stream:
                    if len(content := stream.read(LARGEST + 1)) <= LARGEST:
                        yield f"{file}: {member.filename}", content
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise UserError(f"{file}: cannot read this archive ({error})") from error


def _import(source: str, data: bytes, others: Mapping[str, Install]) -> Iterator[Found]:
    """Import a ROM for each game that it belongs to."""
    for digest, rom in _readings(data):
        if (install := others.get(digest)) is not None:
            yield Found(source, "", install(rom), "")
        for name in _known().get(digest, ()):
            try:
                game = game_in(folders()[name])
            except UserError as error:
                yield Found(source, name, None, str(error))
                continue
            file = imported_folder() / name / f"rom.{game.system.endings[0]}"
            try:
                make_private(file.parent)
                write_private(file, rom)
            except OSError as error:
                raise UserError(
                    f"{file}: cannot write ({error.strerror}); set KARTRL_DATA to another folder"
                ) from error
            yield Found(source, name, file, "")


def _readings(data: bytes) -> Iterator[tuple[str, bytes]]:
    """What a file's bytes may be as a ROM: its hash as in rom.sha, and the ROM that an emulator takes."""
    if data.startswith(b"NES\x1a"):
        yield hash_of(data[INES_HEADER:]), data
        return
    yield hash_of(data), data
    if len(data) % 1024 == COPIER_HEADER:
        body = data[COPIER_HEADER:]
        yield hash_of(body), body


@functools.cache
def _known() -> dict[str, list[str]]:
    """The games that each hash belongs to."""
    known: dict[str, list[str]] = {}
    for name, folder in folders().items():
        if (file := folder / "rom.sha").is_file():
            for digest in file.read_text(encoding="ascii", errors="replace").split():
                known.setdefault(digest.lower(), []).append(name)
    return known
