"""Replays beside checkpoints: written ahead in a thread, kept where a save fails, and what is lost is said."""

import errno
import os
import shutil

import pytest
from commands import wait_for
from mixtures import Playing, assert_same, everything, fill, make

from kartrl.config.replay import Replay
from kartrl.replay import replay_folder
from kartrl.training import replay_saves
from kartrl.training.replay_saves import ReplaySaves


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(replay_folder, "PIECE", 4_000)


def saves(folder, mixture, said, save=True):
    return ReplaySaves(Replay(save=save, start=77), mixture, folder, said.append)


def pieces(folder):
    return set((folder / "replay").glob("*.unrolls"))


def test_write_ahead_leaves_the_replay_usable(tmp_path):
    mixture, said = make(), []
    fill(mixture, Playing(0), 15)
    saving = saves(tmp_path, mixture, said)
    with mixture.lock:  # without which the thread cannot have ended
        assert not saving.ready()
    with mixture.lock:  # which is free again and again
        fill(mixture, Playing(1), 1)
    wait_for(saving.ready, 60, "the thread")
    ahead = pieces(tmp_path)
    saving.save("1")
    assert len(pieces(tmp_path) - ahead) <= 2 < len(ahead)
    again = make()
    saves(tmp_path, again, said).restore("1")
    assert_same(everything(again), everything(mixture))
    assert said == [f"Replays continue with their {mixture.held:,} saved steps"]


def test_failed_save_is_reported_and_keeps_the_earlier(tmp_path, monkeypatch):
    mixture, said, playing = make(), [], Playing(0)
    saving = saves(tmp_path, mixture, said)
    fill(mixture, playing, 10)
    saving.save("1")
    saving.remove_others("1")
    kept = everything(mixture)
    fill(mixture, playing, 10)

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(replay_folder, "write_whole", full)
        saving.save("2")
        saving.remove_others("2")
    assert said == ["failed to save the replay contents (No space left on device)"]
    again = make()
    saves(tmp_path, again, said).restore("1")
    assert_same(everything(again), kept)
    saving.save("3")
    saving.remove_others("3")
    assert [file.name for file in (tmp_path / "replay").glob("*.state")] == ["3.state"]


@pytest.mark.parametrize(
    ("save", "why"), [(True, "none was saved with this checkpoint"), (False, "replay.save is false")]
)
def test_lost_replay_contents_are_reported(tmp_path, save, why):
    said = []
    saving = saves(tmp_path, make(), said, save)
    saving.restore("5")
    (line,) = said
    assert why in line
    assert "starting empty, with no replay for 77 steps" in line


def test_saved_files_count_as_room(tmp_path, monkeypatch):
    mixture, said = make(), []
    fill(mixture, Playing(0), 15)
    saves(tmp_path, mixture, said).save("5")
    held = sum(file.stat().st_size for file in (tmp_path / "replay").iterdir())
    needed = replay_folder.MOST * mixture.shape.size()
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=needed - held))
    saves(tmp_path, make(), said)
    assert not said


def test_saves_without_a_replay_print_and_write_nothing(tmp_path):
    said = []
    saving = saves(tmp_path, None, said)
    saving.restore("5")
    assert saving.ready()
    saving.save("5")
    saving.remove_others("5")
    assert not said
    assert not list(tmp_path.iterdir())


def test_large_writes_and_little_room_are_reported(tmp_path, monkeypatch):
    mixture, said = make(), []
    needed = replay_folder.MOST * mixture.shape.size()
    usage = shutil.disk_usage(tmp_path)
    for free in (needed, needed - 1):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: usage._replace(free=free))
        saving = saves(tmp_path, mixture, said)
    assert said == [f"{tmp_path}: only {free / 1e9:.1f} GB are free, but the replays may take {needed / 1e9:.1f}"]
    monkeypatch.setattr(replay_saves, "MUCH", 1000)
    fill(mixture, Playing(0), 15)
    saving.save("1")
    assert said[1].startswith("Saving ")
    saving.save("2")
    assert len(said) == 2, "there was nothing left to write"


def test_moved_or_deleted_folder_is_completed_at_a_save(tmp_path):
    mixture, said, playing = make(), [], Playing(0)
    for name in ("first", "third"):
        (tmp_path / name).mkdir()
    saving = saves(tmp_path / "first", mixture, said)
    fill(mixture, playing, 10)
    saving.save("1")
    (tmp_path / "first").rename(tmp_path / "second")
    saving.move(tmp_path / "second")
    before = pieces(tmp_path / "second")
    fill(mixture, playing, 5)
    saving.save("2")
    assert before & pieces(tmp_path / "second"), "what was there is used again"
    shutil.rmtree(tmp_path / "second")
    saving.move(tmp_path / "third")
    saving.save("3")
    again = make()
    saves(tmp_path / "third", again, said).restore("3")
    assert_same(everything(again), everything(mixture))
    assert not (tmp_path / "first").exists()
    assert said == [f"Replays continue with their {mixture.held:,} saved steps"]
