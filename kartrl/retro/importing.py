"""Recognises ROMs by their hashes, and imports those of games that stable-retro knows."""

import functools
import io
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kartrl.console.roms import INES_HEADER, hash_of
from kartrl.errors import UserError, brief
from kartrl.files import explained, make_private, write_private
from kartrl.retro.library import folders, game_in, imported_folder

LARGEST = 64 * 1024 * 1024  # bytes of a file; the largest ROM of these consoles has half of that
MOST_MEMBERS = 10_000  # files in an archive
COPIER_HEADER = 512  # bytes that some copiers put before a ROM
SMD_BLOCK = 16 * 1024  # bytes in which the Super Magic Drive has those at odd places first
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
        Those recognised, and a line for each named file, not one of a folder, that is not, and for what cannot be read.

    Raises:
        UserError: a ROM cannot be written.
    """
    found: list[Found] = []
    unknown: list[str] = []
    for file in files:
        within = [each for each in sorted(file.rglob("*")) if each.is_file()] if file.is_dir() else [file]
        for each in within:
            try:
                with each.open("rb") as stream:
                    data = stream.read(LARGEST + 1)
            except OSError as error:
                unknown.append(f"{each}: cannot read this ROM ({error.strerror})")
                continue
            unreadable: list[str] = []
            new = [one for part in _contents(str(each), data, unreadable) for one in _import(*part, others)]
            found += new
            unknown += unreadable
            if not new and not unreadable and each is file:
                unknown.append(f"{file}: not a ROM of a game that stable-retro knows (SHA-1 {hash_of(data)}); {ADVICE}")
    return found, unknown


def _contents(source: str, data: bytes, unreadable: list[str], depth: int = 2) -> Iterator[tuple[str, bytes]]:
    """A file and, if it is an archive, what is in it, and in archives in it.

    Args:
        unreadable: gets a line for an archive that cannot be read to its end.
        depth: of archives.
    """
    if len(data) > LARGEST:
        return
    yield source, data
    if not depth or not zipfile.is_zipfile(io.BytesIO(data)):
        return
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for member in archive.infolist()[:MOST_MEMBERS]:
                with archive.open(member) as stream:
                    content = stream.read(LARGEST + 1)
                yield from _contents(f"{source}: {member.filename}", content, unreadable, depth - 1)
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        unreadable.append(f"{source}: cannot read this archive ({brief(error)})")


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
            with explained(file, "write", "set KARTRL_DATA to another folder"):
                make_private(file.parent)
                write_private(file, rom)
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
        straight = bytearray(body)
        for start in range(0, len(body), SMD_BLOCK):
            block = body[start : start + SMD_BLOCK]
            middle = len(block) // 2
            straight[start : start + SMD_BLOCK : 2] = block[middle:]
            straight[start + 1 : start + SMD_BLOCK : 2] = block[:middle]
        whole = bytes(straight)
        yield hash_of(whole), whole


@functools.cache
def _known() -> dict[str, list[str]]:
    """The games that each hash belongs to."""
    known: dict[str, list[str]] = {}
    for name, folder in folders().items():
        if (file := folder / "rom.sha").is_file():
            for digest in file.read_text(encoding="ascii", errors="replace").split():
                known.setdefault(digest.lower(), []).append(name)
    return known
