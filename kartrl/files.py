"""Files: read, written atomically, named safely, and never put in place of others."""

import codecs
import contextlib
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from platformdirs import user_data_dir

from kartrl import __version__
from kartrl.errors import UserError

ANOTHER = "choose another file with -o"  # what to do about one that cannot be written


def user_path(text: str) -> Path:
    """A path as a user writes it: ~ is his home folder, also where no shell replaces it, as in --set or a file."""
    return Path(os.path.expanduser(text))  # unlike Path.expanduser, for which an unknown ~name is an error


def shown(path: Path) -> Path:
    """The path as a user in the current folder would name it."""
    with contextlib.suppress(OSError, ValueError):  # the current folder is gone, or the path is not in it
        here = Path.cwd()
        return path.relative_to(here) if here != here.parent else path
    return path


def read_text(path: Path) -> str:
    """The text of a user's file: UTF-8, or what its byte-order mark says, as editors on Windows write.

    Raises:
        OSError: it cannot be read.
        UnicodeDecodeError: it has another encoding.
    """
    data = path.read_bytes()
    text = data.decode("utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig")
    return text.replace("\r\n", "\n").replace("\r", "\n")


@contextlib.contextmanager
def explained(place: object, deed: str, advice: str = "") -> Iterator[None]:
    """Context manager: an OSError becomes a UserError: "PLACE: cannot DEED (reason); advice"."""
    try:
        yield
    except OSError as error:
        remedy = f"; {advice}" if advice else ""
        raise UserError(f"{place}: cannot {deed} ({error.strerror or error}){remedy}") from error


@contextlib.contextmanager
def whole_file(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """Yield a temporary path next to `path`, which replaces it when the block ends without an exception.

    Readers of `path` see the old file or the new one. A process killed inside the block leaves a `.*.tmp` file.

    Args:
        durable: flush the file and its folder to the disk, so that the new file survives a power failure.

    Raises:
        OSError: it cannot be written; `path` is unchanged.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        if durable:
            _flush_to_disk(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    if durable:
        _flush_to_disk(path.parent)  # only this makes the rename durable


def write_whole(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Atomically replace `path` with a file of these bytes; see `whole_file`."""
    with whole_file(path, durable=durable) as temporary:
        temporary.write_bytes(data)


def write_private(path: Path, data: bytes) -> None:
    """Atomically replace `path` with a file of these bytes that only its owner can read, durably."""
    with whole_file(path, durable=True) as temporary:
        temporary.touch(mode=0o600)
        temporary.write_bytes(data)


def make_private(folder: Path) -> None:
    """Create a folder that only its owner can read, and its parent if necessary."""
    for new in (folder.parent, folder):
        new.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)


def data_folder() -> Path:
    """The folder of the user's ROMs: `KARTRL_DATA`, or the platform's; it may not exist."""
    return user_path(os.environ.get("KARTRL_DATA") or user_data_dir("kartrl", appauthor=False))


def _flush_to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def unused_file(path: Path, *others: str) -> Iterator[Path]:
    """Yield `path` or, if that exists, the first of NAME-2, NAME-3, ... that does not; what exists is never replaced.

    The file is created empty, so that no other process chooses it, and removed if it is empty at the end.

    Args:
        others: suffixes of files beside it that must be unused too.

    Raises:
        OSError: it cannot be created.
    """
    number, made = 1, list[Path]()
    while not made:
        name = path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")
        try:
            for file in (name, *map(name.with_suffix, others)):
                file.touch(exist_ok=False)
                made.append(file)
        except FileExistsError:
            _remove_empty(made)
            number, made = number + 1, []
    try:
        yield made[0]
    finally:
        _remove_empty(made)


def _remove_empty(files: Iterable[Path]) -> None:
    for file in files:
        with contextlib.suppress(FileNotFoundError):
            if file.stat().st_size == 0:
                file.unlink()


def check_replaceable(files: Mapping[Path, bytes | None], force: bool) -> None:
    """Check that writing these files would replace none with another content, unless `force`.

    Args:
        files: their new contents; None: not known.

    Raises:
        UserError: it would replace one, or a name is that of a folder.
    """
    for file, data in files.items():
        if file.is_dir():
            raise UserError(f"{file}: is a folder; name a file")
        with explained(file, "read"):
            if not force and file.exists() and (data is None or file.read_bytes() != data):
                raise UserError(f"{file}: exists, with other content; replace it with --force, or keep it elsewhere")


def check_folder(file: Path) -> None:
    """Check, before the work for it, that the folder of the file named with -o exists.

    Raises:
        UserError: it does not.
    """
    if not file.parent.is_dir():
        raise UserError(f"-o {file}: there is no folder {file.parent}; create it first")


def output_file(output: Path | None, name: str, suffix: str) -> Path:
    """Resolve the option -o to a file with this suffix: a file's name, a folder for `name`, or None: here, as `name`.

    Raises:
        UserError: it has another suffix.
    """
    if output is None or output.is_dir():
        return (output or Path()) / f"{name}{suffix}"
    if not output.suffix:
        return output.with_suffix(suffix)
    if output.suffix.lower() != suffix:
        raise UserError(f"-o {output}: the file name must end in {suffix}")
    return output


def json_text(fields: Mapping[str, Any]) -> str:
    """A JSON object: kartrl's version, then these fields; numbers that are not finite are null."""
    from pydantic_core import to_json  # here, as `--help` does not need it

    return to_json({"kartrl": __version__, **fields}, indent=1, inf_nan_mode="null").decode()


def safe_name(text: str) -> str:
    """The text, such as an environment's id, as a file name: no program reads a protocol, option or path in it."""
    return re.sub(r"[^\w.+-]+", "-", text).lstrip("-.") or "unnamed"
