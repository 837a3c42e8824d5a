"""Checkpoints: whole or not at all, and nothing in them is run."""

import os
import pickle
import zipfile

import pytest
import torch

from kartrl import checkpoint
from kartrl.checkpoint import Checkpoint
from kartrl.config import Config, read
from kartrl.errors import UserError
from kartrl.models import make_model
from kartrl.types import Counters


def make(score=None):
    config = read([], ["model.hidden_size=16"])
    model = make_model(config.model, (4,), 2)
    return Checkpoint(config, model.state_dict(), {"state": {}, "param_groups": []}, Counters(10, 2, 1, 3.5), (4,), 2, score)


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "run" / "checkpoints" / "0000000010.pt"
    checkpoint.save(path, make(score=1.5))
    return path


def test_round_trip(saved):
    loaded, original = checkpoint.load(saved), make(score=1.5)
    assert loaded.config == original.config
    assert loaded.counters == original.counters
    assert loaded.score == 1.5
    assert (loaded.observation_shape, loaded.num_actions) == ((4,), 2)
    model = checkpoint.load_model(loaded, "cpu")
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(tensor, loaded.model[name])
    assert sorted(path.name for path in saved.parent.iterdir()) == [saved.name]


def test_newest(saved):
    run = saved.parents[1]
    checkpoint.save(saved.with_name("0000000200.pt"), make())
    assert checkpoint.newest(run) == saved.with_name("0000000200.pt")
    assert checkpoint.newest(run / "none") is None


class Bomb:
    def __reduce__(self):
        return os.system, ("touch bomb-went-off",)


def write_bomb(path):
    torch.save({"format": checkpoint.FORMAT, "model": Bomb()}, path)


def write_zip_bomb(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", b"\0" * 50_000_000)


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


DAMAGE = {
    "missing": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-2000]),
    "bit flipped": lambda path: path.write_bytes(
        bytes(b ^ 4 if i == path.stat().st_size // 2 else b for i, b in enumerate(path.read_bytes()))
    ),
    "text": lambda path: path.write_text("no checkpoint"),
    "plain pickle": lambda path: path.write_bytes(pickle.dumps({"model": 1})),
    "pickle bomb": write_bomb,
    "zip bomb": write_zip_bomb,
    "foreign weights": lambda path: torch.save({"conv.weight": torch.zeros(3)}, path),
    "other version": lambda path: torch.save({"format": "kartrl checkpoint 0"}, path),
    "a list": lambda path: torch.save([torch.zeros(3)], path),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_bad_files_are_refused_in_one_line(saved, damage, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    damage(saved)
    with pytest.raises(UserError) as error:
        checkpoint.load(saved)
    assert "\n" not in str(error.value)
    assert str(saved) in str(error.value)
    assert not (tmp_path / "bomb-went-off").exists()


def test_weights_of_another_network_are_refused(saved):
    loaded = checkpoint.load(saved)
    other = loaded._replace(config=read([], ["model.hidden_size=32"]))
    with pytest.raises(UserError, match="do not fit"):
        checkpoint.load_model(other, "cpu")


def test_a_full_disk_leaves_the_old_file(saved, monkeypatch):
    before = saved.read_bytes()

    def fail(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        checkpoint.save(saved, make())
    assert saved.read_bytes() == before
    assert len(list(saved.parent.iterdir())) == 1


def test_default_configuration_fits_its_network(tmp_path):
    model = make_model(Config().model, (54, 54, 1), 9)
    checkpoint.save(tmp_path / "a.pt", Checkpoint(Config(), model.state_dict(), {}, Counters(), (54, 54, 1), 9))
    assert checkpoint.load_model(checkpoint.load(tmp_path / "a.pt"), "cpu").initial_state(3).shape == (3, 512)
