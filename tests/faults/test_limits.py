"""Where the machine allows too little, a training says so in one line and leaves nothing."""

import multiprocessing
from pathlib import Path

import pytest
from commands import EVALUATE_OFF, QUICK, run
from looks import describe_env

from kartrl.acting.sizes import slab_shape
from kartrl.config import read
from kartrl.errors import UserError, shortage
from kartrl.processes.spawn import spawn
from kartrl.sizing.auto import choose_sizes

TRAIN = ["train", *QUICK, *EVALUATE_OFF, "--set", "run.name=run", "--set", "run.agent_steps=500"]


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        pytest.param({"NOFILE": 24}, "too few open files (see ulimit -n)", id="open files"),
        pytest.param({"AS": 2**25}, "too little memory", id="address space"),
    ],
)
def test_low_limit_is_named_and_leaves_nothing(tmp_path: Path, limit: dict[str, int], words: str) -> None:
    ended = run(*TRAIN, cwd=tmp_path, limits=limit)
    assert ended.returncode in (1, 2), ended.stdout
    lines = ended.stderr.splitlines()
    assert lines
    assert all(words in line for line in lines), "a line from each process that meets it, and nothing else"
    assert not list(tmp_path.rglob("run.*"))


def take_too_much() -> None:
    bytearray(2**62)


def test_role_that_meets_a_memory_limit_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    process = spawn(multiprocessing.get_context("spawn"), "role", take_too_much)
    process.join(60)
    assert process.exitcode == 1
    errors = capfd.readouterr().err
    assert errors.startswith("kartrl: role: the machine has, or allows, too little memory"), errors
    assert len(errors.splitlines()) == 1, errors


def test_shortages_are_distinguished_from_other_errors() -> None:
    assert shortage(OSError(2, "No such file or directory")) is None
    assert shortage(RuntimeError("shapes do not match")) is None
    assert shortage(ValueError("too many open files")) is None
    for error in (BlockingIOError(11, "Resource temporarily unavailable"), RuntimeError("can't start new thread")):
        assert "ulimit -u" in (shortage(error) or "")
    for error in (
        MemoryError(),
        OSError(12, "Cannot allocate memory"),
        RuntimeError("std::bad_alloc"),
        ImportError("libtorch.so: failed to map segment"),
    ):
        assert "memory" in (shortage(error) or "")


def test_unrolls_that_do_not_fit_into_memory_are_refused() -> None:
    config = read(overrides=["environment.id=CartPole-v1", "system.agents=2"])
    spec = describe_env(config)
    with pytest.raises(UserError, match=r"take [\d,.]+ GB of memory"):
        slab_shape(config, spec, choose_sizes(config, spec)._replace(ring=10**9))
