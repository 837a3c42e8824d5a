"""Policies that travel: in a folder of their own, as `kartrl export -o FOLDER` writes it, and on the Hugging Face Hub.

Neither contains code: weights are a checkpoint, settings are our INI file, and nothing else is read. Any server that
speaks the hub's protocol can take its place (`HF_ENDPOINT`); tokens are the library's own matter.
"""

import importlib
import importlib.util
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kartrl import __version__
from kartrl.config import read
from kartrl.errors import UserError
from kartrl.learning import checkpoint, checkpoint_file

HUB = "hf://"
ADDRESS = re.compile(r"hf://([\w.-]+/[\w.-]+)/?(?:@([\w.-]+(?:/[\w.-]+)*))?", re.ASCII)
WEIGHTS, SETTINGS, CARD, TERMS = "model.safetensors", "kartrl.cfg", "README.md", "LICENSE"
LARGEST = {WEIGHTS: checkpoint_file.LARGEST, SETTINGS: 1 << 20}  # bytes of the files without which there is no policy
FILES = (WEIGHTS, SETTINGS, CARD, TERMS, "replay.mp4", "replay.png", ".eval_results/kartrl.yaml")
SECONDS = 10.0  # for the hub to answer
LOG_IN = "log in with `hf auth login`, or set HF_TOKEN"


class Address(NamedTuple):
    """A place on the hub."""

    repo: str
    revision: str | None  # a branch, a tag or a commit; None: main


def parse(text: str) -> Address:
    """The place that hf://USER/NAME or hf://USER/NAME@REVISION means.

    Raises:
        UserError: it is written in another way.
    """
    found = ADDRESS.fullmatch(text)
    if found is None or ".." in text:
        raise UserError(f"{text}: a policy on the hub is written hf://USER/NAME or hf://USER/NAME@REVISION")
    return Address(found[1], found[2])


def is_policy(folder: Path) -> bool:
    """Whether a folder contains a policy, or a part of one."""
    return any((folder / name).is_file() for name in LARGEST)


def weights_of(folder: Path, name: str = "") -> Path:
    """The weights in the folder of a policy, once the policy has been found to be whole.

    Args:
        name: of the policy, for messages; default: the folder.

    Raises:
        UserError: a file is missing, too large, damaged or not of this version, or the two do not belong together.
    """
    name = name or str(folder)
    _check_sizes(name, {file: (folder / file).stat().st_size for file in LARGEST if (folder / file).is_file()})
    stored = checkpoint.load(folder / WEIGHTS).config
    if read([folder / SETTINGS]) != stored:
        raise UserError(f"{name}: refused: {SETTINGS} is not the configuration of {WEIGHTS}; one of them was changed")
    return folder / WEIGHTS


def _check_sizes(name: str, sizes: Mapping[str, int | None]) -> None:
    """Refuse a policy by the sizes of its files, in bytes."""
    for file, largest in LARGEST.items():
        if file not in sizes:
            raise UserError(f"{name}: is no policy that `kartrl export -o FOLDER` has written: it has no {file}")
        if (sizes[file] or 0) > largest:
            raise UserError(f"{name}: refused: its {file} is larger than {largest >> 20} MiB")


def fetch(text: str) -> Path:
    """Download a policy from the hub into the library's cache; where the hub cannot be reached, use what is there.

    Args:
        text: see `parse`.

    Returns:
        The weights, of a policy that has been found to be whole.

    Raises:
        UserError: there is no such policy, or it is refused, or there is neither a connection nor a copy.
    """
    address, hub = parse(text), _library(text)
    given = {"revision": address.revision, "allow_patterns": [*LARGEST]}
    try:
        info = _api(hub).model_info(address.repo, revision=address.revision, files_metadata=True, timeout=SECONDS)
        _check_sizes(text, {file.rfilename: file.size for file in info.siblings})
        folder = Path(hub.snapshot_download(address.repo, **given))
    except UserError:
        raise
    except Exception as error:  # the library's, of its HTTP client and of the system
        if _status(error) < 500:
            raise UserError(f"{text}: {_reason(error, hub)}") from error
        try:
            folder = Path(hub.snapshot_download(address.repo, **given, local_files_only=True))
        except Exception:
            lost = f"the hub cannot be reached ({_reason(error, hub)}), and there is no whole copy in the cache"
            raise UserError(f"{text}: {lost}") from error
        print(
            f"kartrl: {text}: the hub cannot be reached ({_reason(error, hub)}); using the copy in the cache, commit "
            f"{folder.name[:8]}",
            file=sys.stderr,
        )
    return weights_of(folder, text)


def push(folder: Path, text: str, private: bool) -> str:
    """Upload a policy to the hub, in one commit; what an earlier one had and this one has not is removed there.

    Args:
        text: see `parse`; a revision is a branch, made if it is missing.
        private: whether only those whom the hub lets may see it.

    Returns:
        The address of the commit.

    Raises:
        UserError: the folder is not a whole policy, or the hub refuses.
    """
    address, hub = parse(text), _library(text)
    weights_of(folder)
    present = [name for name in FILES if (folder / name).is_file()]
    if CARD not in present:
        raise UserError(f"{folder}: it has no {CARD}; export the policy again")
    api, place = _api(hub), {"revision": address.revision}
    try:
        api.create_repo(address.repo, private=private or None, exist_ok=True)
        if address.revision is not None:
            api.create_branch(address.repo, branch=address.revision, exist_ok=True)
        info = api.model_info(address.repo, **place)
        if private and not info.private:
            raise UserError(f"{text}: exists and is public; make it private on its page, or choose another name")
        there = {file.rfilename for file in info.siblings}
        changes = [hub.CommitOperationAdd(name, str(folder / name)) for name in present]
        changes += [hub.CommitOperationDelete(name) for name in FILES if name in there and name not in present]
        commit = api.create_commit(address.repo, changes, commit_message=f"A policy of kartrl {__version__}", **place)
    except UserError:
        raise
    except Exception as error:  # as in `fetch`
        raise UserError(f"{text}: {_reason(error, hub)}") from error
    return str(commit.commit_url)


def _library(text: str) -> Any:
    """The module huggingface_hub, without its own output."""
    if importlib.util.find_spec("huggingface_hub") is None:
        raise UserError(f"{text}: needs huggingface_hub: pip install 'kartrl[hub]'")
    tools: Any = importlib.import_module("huggingface_hub.utils")
    tools.disable_progress_bars()
    tools.logging.set_verbosity_error()
    return importlib.import_module("huggingface_hub")


def _api(hub: Any) -> Any:
    return hub.HfApi(library_name="kartrl", library_version=__version__)


def _status(error: Exception) -> int:
    """The status with which the hub has answered, or would have a token that cannot be sent; 503 if it has not."""
    if isinstance(error, UnicodeError):
        return 401
    return int(getattr(getattr(error, "response", None), "status_code", 503))


def _reason(error: Exception, hub: Any) -> str:
    """One line, without the token, which libraries may quote."""
    if type(error) is RuntimeError and isinstance(error.__cause__, Exception):  # of an upload
        error = error.__cause__
    kind, status = type(error).__name__, _status(error)
    if kind == "RevisionNotFoundError":
        return "has no such revision"
    if kind == "GatedRepoError":
        return f"is open only to those who have accepted its terms on its page; {LOG_IN}"
    if kind == "RepositoryNotFoundError":
        return f"there is no such policy, or it is private: {LOG_IN}"
    if status in (401, 403):
        return f"the hub refuses, with status {status}: {LOG_IN} to a token that may write there"
    if kind == "OfflineModeIsEnabled":
        return "HF_HUB_OFFLINE is set"
    text = " ".join(str(error).split()) or kind
    if token := hub.get_token():
        text = text.replace(token, "***")
    return re.sub(r"(?i)(bearer) .*", r"\1 ***", text)[:300]
