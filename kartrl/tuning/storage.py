"""Where a study is kept, for this process and others that work on it at the same time or later.

Each process asks for its own trials and tells their results. A trial carries who trains it; one whose process has
ended is taken over by the next process, with the trainings that it had.
"""

import contextlib
import os
import platform
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import optuna
import psutil
import sqlalchemy.exc
from filelock import FileLock
from optuna.storages import JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import FrozenTrial, TrialState

from kartrl.errors import UserError, brief
from kartrl.files import user_path

JOURNAL, LOCK = "study.journal", "study.lock"  # in the study's folder
OWNER, SEEN = "owner", "seen"  # a trial's attributes: who trains it, and when that process last said so
SEEN_SECONDS = 60.0  # between two signs of life
LOST_SECONDS = 600.0  # without a sign of life, of a process on another machine
FAILING = "optuna", "sqlalchemy", "alembic", "json"  # packages whose exceptions are the storage's
LONGEST_LINE = 1000  # bytes read of a file that may be no journal
SAME_SECONDS = 5.0  # by which the start of the same process may seem to differ, as clocks are corrected


class Store:
    """The storage of a study and of the one with its defaults and confirmations.

    Args:
        folder: the study's; it is made if need be.
        place: a database's URL, the path of a journal file, or "" for the journal in the folder.

    Raises:
        UserError: it cannot be opened or read.
    """

    def __init__(self, folder: Path, place: str) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.place = place or str(folder / JOURNAL)
        self._journal = None if "://" in self.place else user_path(self.place)
        self._lock = FileLock(folder / LOCK)
        self._storage: optuna.storages.BaseStorage
        with self.failures():
            if self._journal is None:
                self._storage = _open_database(self.place)
                return
            try:
                if not place:
                    folder.mkdir(parents=True, exist_ok=True)
                if self._journal.exists() and self._journal.stat().st_size:
                    _check(self._journal)
                    _mend(self._journal)
                self._storage = JournalStorage(JournalFileBackend(str(self._journal), lock_of(self._journal)))
            except OSError as error:
                raise UserError(f"{self.place}: cannot use this storage ({error.strerror or error})") from error

    @contextlib.contextmanager
    def failures(self) -> Iterator[None]:
        """Context manager: what the storage raises becomes one line for the user."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        except Exception as error:
            if type(error).__module__.partition(".")[0] not in FAILING and not isinstance(error, ImportError):
                raise
            text = brief(error)
            raise UserError(f"{self.place}: cannot use this storage ({text or type(error).__name__})") from error

    @contextlib.contextmanager
    def claiming(self) -> Iterator[None]:
        """Context manager: no other process that uses this folder takes a trial meanwhile."""
        Path(self._lock.lock_file).parent.mkdir(parents=True, exist_ok=True)
        with self._lock:
            if self._journal is not None and self._journal.stat().st_size:
                _mend(self._journal)
            yield

    def studies(self) -> list[str]:
        """Names of the studies in the storage."""
        return optuna.get_all_study_names(self._storage)

    def study(self, name: str, minimises: bool) -> optuna.Study:
        """The study of this name, made if there is none."""
        direction = optuna.study.StudyDirection.MINIMIZE if minimises else optuna.study.StudyDirection.MAXIMIZE
        return optuna.create_study(storage=self._storage, study_name=name, direction=direction, load_if_exists=True)


def _open_database(url: str) -> RDBStorage:
    """Open a database; of several processes that make its tables at the same time, all but the first fail at first."""
    for pause in (0.5, 1.0, 2.0, 4.0):
        try:
            return RDBStorage(url)
        except sqlalchemy.exc.DBAPIError as error:
            made = isinstance(error, sqlalchemy.exc.IntegrityError) or "already exists" in str(error)
            if not made and "locked" not in str(error):
                raise
        time.sleep(pause)
    return RDBStorage(url)


def lock_of(journal: Path) -> JournalFileOpenLock:
    """What excludes all programs that write to this journal with Optuna, for half a minute if its holder was killed.

    With Optuna's default lock, others may wait for ever once its holder has been killed, each with all of a core.
    """
    return JournalFileOpenLock(str(journal))


def take(trial: optuna.Trial) -> None:
    """Note that this process trains the trial."""
    trial.set_user_attr(OWNER, _me())
    show_life(trial)


def show_life(trial: optuna.Trial) -> None:
    """Note that the process that trains it is alive."""
    trial.set_user_attr(SEEN, time.time())


def is_abandoned(trial: FrozenTrial) -> bool:
    """Whether a running trial's process has ended; one on another machine has if it has given no sign for long."""
    owner: Mapping[str, Any] | None = trial.user_attrs.get(OWNER)
    if owner is not None and owner["host"] == platform.node():
        try:
            process = psutil.Process(owner["pid"])
            another = abs(process.create_time() - owner["started"]) > SAME_SECONDS
            return another or process.status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True
    begun = trial.datetime_start.timestamp() if trial.datetime_start is not None else 0.0
    patience = SEEN_SECONDS if owner is None else LOST_SECONDS
    return time.time() - trial.user_attrs.get(SEEN, begun) > patience


def abandoned(study: optuna.Study) -> optuna.Trial | None:
    """A running trial whose process has ended; None if there is none."""
    found = next(filter(is_abandoned, study.get_trials(deepcopy=False, states=[TrialState.RUNNING])), None)
    return None if found is None else optuna.Trial(study, found._trial_id)


def frozen(trial: optuna.Trial) -> FrozenTrial:
    """What the storage holds of a trial."""
    return trial.study.get_trials(deepcopy=False)[trial.number]


def _me() -> dict[str, Any]:
    return {"host": platform.node(), "pid": os.getpid(), "started": psutil.Process().create_time()}


def _check(journal: Path) -> None:
    """Refuse a file that is no journal, such as a database, before anything is written to it."""
    with journal.open("rb") as file:
        if not file.readline(LONGEST_LINE).startswith(b'{"op_code":'):
            raise UserError(f"{journal}: is not a journal of Optuna's; a database is given as sqlite:///{journal}")


def _mend(journal: Path) -> None:
    """Remove half a line at the end, as a full disk leaves: whatever is written after it could not be read."""
    if _ends_well(journal):
        return
    lock = lock_of(journal)
    lock.acquire()  # it may be one that is being written
    try:
        if not _ends_well(journal):
            with journal.open("r+b") as file:
                file.truncate(file.read().rfind(b"\n") + 1)
    finally:
        lock.release()


def _ends_well(journal: Path) -> bool:
    with journal.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() == b"\n"
