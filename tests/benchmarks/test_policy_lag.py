"""benchmarks/policy_lag.py: agents act with weights that are as many updates old as it says."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import torch
from policy_lag import delayed

from kartrl.runtime.published_weights import published

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "policy_lag.py"


def test_predictors_and_other_processes_get_weights_two_updates_late():
    network = torch.nn.Linear(1, 1, bias=False)
    weights = delayed(2)(network)
    shared, copy, own = weights.share(), torch.nn.Linear(1, 1, bias=False), torch.nn.Linear(1, 1, bias=False)
    of_predictor, of_agent, seen = -1, None, []
    for update in range(1, 6):
        torch.nn.init.constant_(network.weight, update)
        weights.publish()
        of_predictor, of_agent = weights.fetch(copy, of_predictor), shared.fetch(published(own), of_agent)
        assert of_predictor == of_agent
        assert weights.version == update
        seen.append((of_agent, copy.weight.item() == own.weight.item() == of_agent))
    assert [version for version, _ in seen] == [0, 0, 1, 2, 3]
    assert all(right for version, right in seen if version)


def test_a_run_has_the_lag(tmp_path: Path):
    options = ["run.agent_steps=10000", f"run.logs={tmp_path}", "run.name=late", "evaluation.minutes=0"]
    options += ["system.max_policy_lag=1000", "system.predictors=0"]
    command = [sys.executable, SCRIPT, "--updates", "10", "-c", "cartpole", "--plain"]
    command += [part for option in options for part in ("--set", option)]
    subprocess.run(command, check=True, timeout=120, env=os.environ | {"PYTHONPATH": str(SCRIPT.parents[1])})
    with (tmp_path / "late" / "scalars.csv").open() as file:
        lags = [float(row["value"]) for row in csv.DictReader(file) if row["tag"] == "lag/mean"]
    assert lags[-1] > 9, lags
