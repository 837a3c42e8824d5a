"""How much of the machine a process may use."""

import os
from pathlib import Path

import psutil
import pytest

from kartrl.hardware.machine import control_group_limits, cores, free_memory, memory_left


def test_cores_and_memory_are_those_of_this_process() -> None:
    assert 1 <= cores() <= (os.cpu_count() or 1)
    assert 0 < free_memory() <= psutil.virtual_memory().total


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs affinities")
def test_cores_follow_the_affinity() -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert cores() == 1
    finally:
        os.sched_setaffinity(0, before)


def test_limits_of_all_groups_around_a_process(tmp_path: Path) -> None:
    mount, own = tmp_path / "mount", tmp_path / "own"
    inner = mount / "user.slice" / "run.scope"
    inner.mkdir(parents=True)
    own.write_text("1:cpu:/elsewhere\n0::/user.slice/run.scope\n")
    (inner / "cpu.max").write_text("max 100000\n")
    (inner.parent / "cpu.max").write_text("250000 100000\n")
    (tmp_path / "cpu.max").write_text("1 1\n")
    assert control_group_limits("cpu.max", mount, own) == [["250000", "100000"]]
    own.write_text("0::/\n")  # as in a container
    (mount / "memory.max").write_text("1073741824\n")
    assert control_group_limits("memory.max", mount, own) == [["1073741824"]]
    assert control_group_limits("memory.max", mount, tmp_path / "no such file") == []


def test_memory_left_in_cgroups_excludes_all_but_unused_cache(tmp_path: Path) -> None:
    mount, own = tmp_path / "mount", tmp_path / "own"
    inner = mount / "job"
    inner.mkdir(parents=True)
    own.write_text("0::/job\n")
    for folder, limit, used in ((inner, "1000", 700), (mount, "max", 900)):
        (folder / "memory.max").write_text(f"{limit}\n")
        (folder / "memory.current").write_text(f"{used}\n")
        (folder / "memory.stat").write_text("anon 500\ninactive_file 150\n")
    assert memory_left(mount, own) == [450]
    assert memory_left(mount, tmp_path / "no such file") == []
