"""Memory use does not grow with the length of a run."""

from collections import defaultdict

import pytest
from commands import EVALUATE_OFF, QUICK, run

from kartrl.learning import checkpoint
from kartrl.metrics import scalars_csv

ROLES = ("server", "agents", "logger")
SPARE = 0.01  # GB of allowed growth per role, for lazy initialization


@pytest.mark.timeout(400)
def test_memory_is_constant_over_ten_thousand_updates(tmp_path):
    short = ["--set", "impala.unroll_length=2", "--set", "run.agent_steps=165000", "--set", "run.name=run"]
    result = run("train", *QUICK, *EVALUATE_OFF, *short, cwd=tmp_path, timeout=350)
    assert result.returncode == 0, result.stdout + result.stderr
    folder = tmp_path / "logs" / "run"
    assert checkpoint.load(checkpoint.newest(folder)).counters.updates >= 10_000
    memory = defaultdict(list)
    for row in scalars_csv.read(folder):
        memory[row.tag].append(row.value)
    for role in ROLES:
        points = memory[f"hardware/memory_gb_{role}"]
        assert len(points) >= 2, "the run was too short to tell"
        assert points[-1] - points[0] < SPARE, (role, points)
