"""The storage of a study: what other processes have left in it."""

import os
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import optuna
import psutil
import pytest
from commands import assert_clear, environment
from optuna.trial import TrialState

from kartrl.errors import UserError
from kartrl.tuning.storage import OWNER, Store, abandoned, take

ENDED = {"pid": 2**22 + 1, "started": 1.0}  # beyond Linux's largest process id


@pytest.fixture
def study(tmp_path):
    return Store(tmp_path, "").study("study", minimises=False)


def test_half_a_line_is_cut_and_others_stay(tmp_path, study):
    study.ask()
    journal = tmp_path / "study.journal"
    whole = journal.read_bytes()
    journal.write_bytes(whole + b'{"op_code":6,"worker_')
    store = Store(tmp_path, "")
    assert journal.read_bytes() == whole
    with journal.open("ab") as file:  # while another process uses it
        file.write(b'{"op_code"')
    with store.claiming():
        store.study("study", minimises=False).ask()
    assert len(Store(tmp_path, "").study("study", minimises=False).trials) == 2


def test_a_file_that_is_no_journal_stays_as_it_is(tmp_path):
    file = tmp_path / "study.db"
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE studies (name TEXT)")
    database.close()
    before = file.read_bytes()
    with pytest.raises(UserError, match="sqlite:///") as raised:
        Store(tmp_path / "folder", str(file))
    assert_clear(raised.value)
    assert file.read_bytes() == before
    assert not (tmp_path / "folder").exists()


def test_a_killed_holders_lock_can_expire(tmp_path):
    code = "import os, pathlib, sys; from kartrl.tuning.storage import lock_of; "
    hold = f"{code}lock_of(pathlib.Path('logs/study.journal')).acquire(); os._exit(0)"
    (tmp_path / "logs").mkdir()
    subprocess.run([sys.executable, "-c", hold], cwd=tmp_path, env=environment(), check=True)
    assert (tmp_path / "logs" / "study.journal.lock").exists(), "Optuna breaks no lock that is a link to nowhere"


@pytest.mark.parametrize("place", ["foo://x", "sqlite:///missing/x.db", "."])
def test_an_unusable_storage_is_one_line(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="cannot use this storage") as raised:
        Store(tmp_path / "folder", place)
    assert_clear(raised.value)


def test_a_new_database_may_be_opened_by_many_at_once(tmp_path):
    place, ready = f"sqlite:///{tmp_path / 'study.db'}", Barrier(8)

    def open_it(number):
        ready.wait(60)
        return Store(tmp_path / f"folder{number}", place).studies()

    with ThreadPoolExecutor(8) as pool:
        assert [*pool.map(open_it, range(8))] == [[]] * 8


def test_trials_of_ended_processes_are_abandoned(study):
    mine = study.ask()
    take(mine)
    host = mine.user_attrs[OWNER]["host"]
    assert abandoned(study) is None, "this process lives"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        theirs = study.ask()
        started = psutil.Process(other.pid).create_time()
        theirs.set_user_attr(OWNER, {"host": host, "pid": other.pid, "started": started})
        assert abandoned(study) is None, "the other process lives"
        other.kill()
    assert abandoned(study).number == theirs.number
    take(theirs)
    assert abandoned(study) is None, "it is this process's now"
    mine.set_user_attr(OWNER, {"host": host, "pid": os.getpid(), "started": 1.0})
    assert abandoned(study).number == mine.number, "an earlier process had this number"
    study.tell(mine, state=TrialState.FAIL)
    assert abandoned(study) is None


def test_trials_of_another_machine_are_abandoned_in_time(study):
    trial = study.ask()
    take(trial)
    trial.set_user_attr(OWNER, {"host": "elsewhere", **ENDED})
    assert abandoned(study) is None, "it was seen just now"
    trial.set_user_attr("seen", 1.0)
    assert abandoned(study).number == trial.number
    assert isinstance(abandoned(study), optuna.Trial)
