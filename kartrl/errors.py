"""Errors that end a command or a run."""

import errno
import os
import re
import sysconfig
import traceback
from pathlib import Path

PACKAGES = re.compile(r"[/\\](site|dist)-packages[/\\]")  # the system's and the user's too
LIBRARIES = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
OURS = str(Path(__file__).parent)
# messages of dlopen and PyTorch
NO_MEMORY = (
    "std::bad_alloc",
    "failed to map segment",
    "can't allocate memory",
    "cannot allocate memory",
    "Cannot allocate memory",
)

# in messages of libraries that find no display
NO_DISPLAY = re.compile(r"display|video device|opengl|glgeterror|\begl|osmesa|glfw", re.IGNORECASE)


class UserError(Exception):
    """Bad input: `kartrl` prints its text, which says what to do, on one line, and exits with status 2."""


class RunFailed(Exception):
    """An unrecoverable fault ended the run; its text contains the cause, with a traceback if there is one."""


def brief(what: object, most: int = 200) -> str:
    """The text of an exception or a value in one line of at most so many characters: it may quote a whole file."""
    return " ".join(str(what).split())[:most]


def shortage(error: BaseException) -> str | None:
    """One line that names the resource the machine lacks, if that is the cause of the exception; else None."""
    number = error.errno if isinstance(error, OSError) else None
    text = brief(error)
    if number in (errno.EMFILE, errno.ENFILE):
        what = "allows too few open files (see ulimit -n)"
    elif number == errno.EAGAIN or "can't start new thread" in text:
        what = "allows too few processes and threads (see ulimit -u), or too little memory (ulimit -v)"
    elif isinstance(error, MemoryError) or number == errno.ENOMEM or any(words in text for words in NO_MEMORY):
        what = "has, or allows, too little memory (see ulimit -v, and the limits of the container)"
    else:
        return None
    return f"the machine {what}: {text or type(error).__name__}"


def refusal(error: BaseException) -> str | None:
    """One line that names the file or folder that the system refuses, if that is the exception; else None."""
    if not isinstance(error, OSError) or error.errno not in (errno.EACCES, errno.EPERM, errno.ENAMETOOLONG):
        return None
    return f"{os.fsdecode(error.filename)}: {error.strerror}" if isinstance(error.filename, str | bytes) else None


def located(error: BaseException) -> str:
    """One line: the exception and where it was raised, in the user's own code if that is in the traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    others = (*LIBRARIES, OURS, "<")
    own = [one for one in frames if not (one.filename.startswith(others) or PACKAGES.search(one.filename))]
    place = (own or frames)[-1]
    text = "".join(traceback.format_exception_only(error)).strip()
    if isinstance(error, AssertionError) and not str(error):
        text += f": {frames[-1].line}"
    return f"{brief(text, 400)} ({place.filename}, line {place.lineno}){remedy(error)}"


def remedy(error: BaseException) -> str:
    """What to do about an exception for the lack of a display, to be appended to its text; "" for any other."""
    if NO_DISPLAY.search(f"{type(error).__name__} {error}") is None:
        return ""
    files = [type(error).__module__, *(frame.filename for frame in traceback.extract_tb(error.__traceback__))]
    if any("mujoco" in file for file in files):
        return "; without a display, set the environment variable MUJOCO_GL to egl or osmesa"
    return "; without a display, set environment.kwargs.render_mode=rgb_array, or start it by xvfb-run -a"
