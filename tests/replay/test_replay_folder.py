"""Replays on the disk: the same again bit for bit, whole or not at all, only what is new, in bounded space."""

import json
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from commands import HELPERS, assert_clear, environment
from mixtures import B, Playing, T, assert_same, everything, fill, make

from kartrl.errors import UserError
from kartrl.replay import replay_folder
from kartrl.replay.replay_folder import ReplayFolder


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(replay_folder, "PIECE", 4_000)


def saved(path, batches=15, name="1", **settings):
    mixture = make(**settings)
    fill(mixture, Playing(0), batches)
    folder = ReplayFolder(path, mixture)
    folder.save(name)
    return mixture, folder


def size(path):
    return sum(file.stat().st_size for file in path.iterdir())


@pytest.mark.parametrize("compression", ["none", "lz4"])
@pytest.mark.parametrize("insertion", ["elite", "oldest"])
@pytest.mark.parametrize("batches", [1, 25])
def test_restored_replay_is_identical_and_continues_identically(tmp_path, compression, insertion, batches):
    one, _ = saved(tmp_path, batches, compression=compression, insertion=insertion)
    other = make(compression=compression, insertion=insertion)
    ReplayFolder(tmp_path, other).restore("1")
    assert_same(everything(other), everything(one))
    assert other.inserted == one.inserted == batches * B * T
    for part, restored in zip(one.parts, other.parts, strict=True):
        restored.replay.generator.set_state(part.replay.generator.get_state())
        assert part.replay.scalars() == restored.replay.scalars()
    for mixture in (one, other):
        fill(mixture, Playing(1), 10)
    assert_same(everything(other), everything(one))
    for a, b in zip(one.sample(40), other.sample(40), strict=True):
        np.testing.assert_array_equal(a, b)


def test_compressed_piece_is_no_larger_than_uncompressed(tmp_path):
    mixture = make(compression="lz4")
    mixture.memory.shape = mixture.shape._replace(limit=mixture.shape.size() // 20)
    assert ReplayFolder(tmp_path, mixture).unrolls == ReplayFolder(tmp_path, make()).unrolls


def test_only_new_unrolls_are_written_and_old_files_removed(tmp_path):
    mixture, folder = saved(tmp_path, 25, insertion="oldest")
    playing = Playing(1)
    first = {file.name for file in tmp_path.iterdir()}
    fill(mixture, playing, 1)
    folder.save("2")
    (new,) = {file.name for file in tmp_path.glob("*.unrolls")} - first
    assert (tmp_path / new).stat().st_size < size(tmp_path) / 4
    for number in range(3, 12):
        fill(mixture, playing, 3)
        folder.save(str(number))
        folder.remove_others(str(number))
    assert not first & {file.name for file in tmp_path.iterdir()}, "all of that was overwritten"
    again = make(insertion="oldest")
    ReplayFolder(tmp_path, again).restore("11")
    assert_same(everything(again), everything(mixture))


@pytest.mark.parametrize("insertion", ["elite", "oldest"])
def test_disk_use_stays_within_the_stated_limit(tmp_path, insertion):
    mixture, playing = make(insertion=insertion), Playing(0)
    folder = ReplayFolder(tmp_path, mixture)
    most = replay_folder.MOST * mixture.shape.size() + 3 * replay_folder.PIECE
    for number in range(60):
        fill(mixture, playing, 2)
        folder.save(str(number))
        assert size(tmp_path) < most
        folder.remove_others(str(number))
        assert len(list(tmp_path.glob("*.state"))) == 1
    again = make(insertion=insertion)
    ReplayFolder(tmp_path, again).restore("59")
    assert_same(everything(again), everything(mixture))


def test_unrolls_overwritten_during_write_ahead_change_nothing(tmp_path):
    mixture, playing = make(), Playing(0)
    folder = ReplayFolder(tmp_path, mixture)
    fill(mixture, playing, 15)
    folder.write_ahead()
    fill(mixture, playing, 5)
    folder.save("1")
    kept = everything(mixture)
    fill(mixture, playing, 5)
    again = make()
    ReplayFolder(tmp_path, again).restore("1")
    assert_same(everything(again), kept)


class Arriving:
    """A lock, between whose uses training inserts a batch of 3 unrolls."""

    def __init__(self, mixture, playing):
        self._lock, self._mixture, self._playing = mixture.lock, mixture, playing

    def __enter__(self):
        self._lock.acquire()

    def __exit__(self, *_):
        self._mixture.insert(self._playing.batch())
        self._lock.release()


def test_unrolls_arriving_during_write_ahead_are_written_too(tmp_path, monkeypatch):
    """Otherwise `save` would copy all of it at once, while training waits."""
    monkeypatch.setattr(replay_folder, "PIECE", 16_000)
    mixture, playing = make(capacity=400, insertion="oldest"), Playing(0)
    fill(mixture, playing, 120)
    folder = ReplayFolder(tmp_path, mixture)
    assert folder.unwritten() > 10 * replay_folder.PIECE
    mixture.lock = Arriving(mixture, playing)
    folder.write_ahead()
    assert folder.unwritten() < 1.2 * replay_folder.PIECE


def test_restored_run_continues_saving_where_it_was(tmp_path):
    saved(tmp_path, 25, insertion="oldest")
    mixture = make(insertion="oldest")
    folder = ReplayFolder(tmp_path, mixture)
    folder.restore("1")
    before = {file.name for file in tmp_path.glob("*.unrolls")}
    fill(mixture, Playing(1), 1)
    folder.save("2")
    assert len({file.name for file in tmp_path.glob("*.unrolls")} - before) == 1


@pytest.mark.skipif(os.name != "posix", reason="needs fork")
def test_kill_at_any_stage_of_a_save_leaves_old_or_new_state(tmp_path):
    command = [sys.executable, HELPERS / "killing_replays.py", tmp_path]
    killing = subprocess.run(command, env=environment(), text=True, capture_output=True, timeout=200, check=False)
    assert killing.returncode == 0, killing.stderr
    told = json.loads(killing.stdout)
    assert {"open", "write", "fsync", "close", "unlink"} <= set(told["killed_at"])
    assert {"replace", "rename"} & set(told["killed_at"])
    assert min(told["newest"].values()) > 5, "some were killed before the checkpoint was there, some after"


class Bomb:
    def __reduce__(self):
        return (os.mkdir, ("bomb-went-off",))


def flip(path, where):
    content = bytearray(path.read_bytes())
    content[where] ^= 1
    path.write_bytes(content)


def a_piece(folder):
    return sorted(folder.glob("*.unrolls"))[0]


DAMAGE = {
    "no state": lambda folder: (folder / "1.state").unlink(),
    "an empty state": lambda folder: (folder / "1.state").write_bytes(b""),
    "a state that was cut": lambda folder: os.truncate(folder / "1.state", 500),
    "a flipped bit in the state": lambda folder: flip(folder / "1.state", -20),
    "a pickle": lambda folder: (folder / "1.state").write_bytes(pickle.dumps(Bomb())),
    "a piece for a state": lambda folder: (folder / "1.state").write_bytes(a_piece(folder).read_bytes()),
    "a missing piece": lambda folder: a_piece(folder).unlink(),
    "a piece that was cut": lambda folder: os.truncate(a_piece(folder), 1000),
    "a flipped bit in a piece": lambda folder: flip(a_piece(folder), 3000),
    "another piece": lambda folder: a_piece(folder).write_bytes(sorted(folder.glob("*.unrolls"))[1].read_bytes()),
    "a piece without end": lambda folder: os.truncate(a_piece(folder), 1 << 33),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damaged_state_is_one_line_and_replay_begins_empty(tmp_path, monkeypatch, damage):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "replay"
    folder.mkdir()
    saved(folder)
    damage(folder)
    mixture = make()
    with pytest.raises(UserError) as error:
        ReplayFolder(folder, mixture).restore("1")
    assert_clear(error.value)
    assert not (tmp_path / "bomb-went-off").exists()
    assert mixture.inserted == mixture.held == mixture.missing() == 0
    fill(mixture, Playing(0), 15)


def forge(folder, change):
    """A state whose digest is right and whose content may not be."""
    path = folder / "1.state"
    _, about, state = replay_folder.parts_of(path.read_bytes())
    state = {name: array.copy() for name, array in state.items()}
    change(about, state)
    path.write_bytes(replay_folder.content_of(about, state))


def put(name, where, value):
    def change(about, state):
        state[name][where] = value

    return change


FORGERIES = {
    "other replays": lambda about, state: state.pop("elite/ring"),
    "a larger replay": lambda about, state: state.update({"uniform/counts": np.zeros(99, np.int64)}),
    "a ring beyond its end": put("uniform/ring", 0, 10**6),
    "more than it can hold": put("uniform/ring", 1, 10**6),
    "an unroll twice": put("uniform/serials", slice(None), 1),
    "an unroll that never came": put("uniform/serials", 3, 10**6),
    "a count below zero": put("uniform/counts", 0, -1),
    "a priority that is no number": put("prioritised/priorities", 0, np.nan),
    "a distance without end": put("elite/distances", 0, np.inf),
    "a file elsewhere": lambda about, state: about.update(pieces=["../../etc/passwd"]),
    "files that are a number": lambda about, state: about.update(pieces=3),
    "no files": lambda about, state: about.update(pieces=[]),
    "another format": lambda about, state: about.update(format="kartrl replay 0"),
}


@pytest.mark.parametrize("forgery", FORGERIES.values(), ids=FORGERIES)
def test_contradictory_replay_states_are_refused_in_one_line(tmp_path, forgery):
    saved(tmp_path)
    forge(tmp_path, forgery)
    mixture = make()
    with pytest.raises(UserError) as error:
        ReplayFolder(tmp_path, mixture).restore("1")
    assert_clear(error.value)
    fill(mixture, Playing(0), 15)


@pytest.mark.parametrize(
    ("one", "other"),
    [({}, {"capacity": 22}), ({}, {"compression": "lz4"}), ({"compression": "lz4"}, {})],
    ids=["capacity", "compressed now", "compressed then"],
)
def test_state_of_other_replays_is_refused(tmp_path, one, other):
    saved(tmp_path, **one)
    with pytest.raises(UserError, match="not from these replays"):
        ReplayFolder(tmp_path, make(**other)).restore("1")
