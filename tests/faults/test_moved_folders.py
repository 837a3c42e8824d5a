"""The folder of a run is moved, deleted or replaced while it trains."""

import contextlib
import shutil
import signal
from pathlib import Path

import pytest
from commands import ENDLESS, REPORT_OFTEN, Training, steps, wait_for

from kartrl.config import read
from kartrl.learning import checkpoint
from kartrl.metrics import scalars_csv
from kartrl.run.folders import create
from kartrl.run.run_folder import RunFolder, is_training


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    made = create(read(overrides=["run.name=run"]))
    yield made
    made.release()


def names(path: Path) -> set[str]:
    return {file.name for file in path.iterdir()}


def delete(folder: Path) -> bool:
    """Whether it could be: a run may be writing a file into it."""
    with contextlib.suppress(OSError):
        shutil.rmtree(folder)
        return True
    return False


HELD = {"run.lock", "run.pid", "config.cfg", "checkpoints"}


@pytest.mark.timeout(300)
def test_training_continues_where_its_folder_is_moved(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    with Training(tmp_path, *ENDLESS, faults=REPORT_OFTEN) as training:

        def goes_on(place: Path, begun: int) -> bool:
            return steps(place) > begun and scalars_csv.come_to(place)[1] > begun

        wait_for(lambda: goes_on(logs / "run", 0), 60, "a checkpoint and metrics")
        (logs / "run").rename(logs / "moved")
        begun = steps(logs / "moved")
        wait_for(lambda: goes_on(logs / "moved", begun), 60, "both, where it is now")
        assert not (logs / "run").exists()
        begun = steps(logs / "moved")
        wait_for(lambda: delete(logs), 60, "the end of its folder")
        wait_for(lambda: goes_on(logs / "moved", begun), 60, "both, in a new folder")
        status, output = training.end(signal.SIGTERM)
    assert status == 128 + signal.SIGTERM
    assert output.count("logs/run has been moved to logs/moved; training continues there\n") == 1
    assert output.count("logs/moved has been deleted; training continues in a new logs/moved\n") == 1
    assert "Traceback" not in output
    assert "--resume moved\n" in output
    assert names(logs) == {"moved"}
    assert {"config.cfg", "checkpoints", "best.pt", "scalars.csv", "episodes.csv"} <= names(logs / "moved")
    assert not HELD & names(logs / "moved") - {"config.cfg", "checkpoints"}
    assert checkpoint.load(checkpoint.newest(logs / "moved")).optimizer


def test_a_moved_folder_is_found_wherever_it_is(folder: RunFolder, tmp_path: Path) -> None:
    assert folder.follow() is None
    (tmp_path / "logs").rename(tmp_path / "others")
    assert folder.follow() == "logs/run has been moved to others/run; training continues there"
    (tmp_path / "others" / "run").rename(tmp_path / "here")
    (tmp_path / "others" / "run").mkdir()
    assert folder.follow() == "others/run has been moved to here; training continues there"
    assert folder.follow() is None
    assert is_training(tmp_path / "here")
    assert names(tmp_path / "here") == HELD
    folder.is_new = False
    folder.release()
    assert names(tmp_path / "here") == {"config.cfg", "checkpoints"}
    assert names(tmp_path / "others" / "run") == set()


def test_a_deleted_folder_is_replaced_beside_what_is_there(folder: RunFolder, tmp_path: Path) -> None:
    config = (folder.path / "config.cfg").read_bytes()
    shutil.rmtree(tmp_path / "logs")
    assert folder.follow() == "logs/run has been deleted; training continues in a new logs/run"
    assert names(folder.path) == HELD
    shutil.rmtree(folder.path)
    folder.path.mkdir()
    (folder.path / "mine").touch()
    assert folder.follow() == "logs/run has been deleted; training continues in a new logs/run-2"
    assert names(tmp_path / "logs" / "run") == {"mine"}
    assert names(tmp_path / "logs" / "run-2") == HELD
    assert (folder.path / "config.cfg").read_bytes() == config
    assert is_training(folder.path)
    assert folder.follow() is None


def test_deleted_folder_that_cannot_be_replaced_is_reported_once(folder: RunFolder, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "logs")
    (tmp_path / "logs").write_text("in the way")
    assert "logs/run has been deleted, and cannot be replaced (Not a directory)" in folder.follow()
    assert folder.follow() is None
    (tmp_path / "logs").unlink()
    assert folder.follow() == "logs/run has been deleted; training continues in a new logs/run"


def test_a_link_to_the_folder_may_be_redirected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("disk", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "logs").symlink_to("disk")
    folder = create(read(overrides=["run.name=run"]))
    assert folder.follow() is None
    (tmp_path / "logs").unlink()
    (tmp_path / "logs").symlink_to("other")
    assert folder.follow() == "logs/run has been moved to disk/run; training continues there"
    folder.release()
