"""benchmarks/policy_lag.py: agents act with weights that are as many updates old as it says."""

import subprocess
import sys
from pathlib import Path

import torch
from commands import EVALUATE_OFF, ROOT, environment, logged
from policy_lag import delayed

from kartrl.acting.published_weights import published, spread


def test_predictors_and_processes_get_weights_two_updates_late():
    network = torch.nn.Linear(1, 1, bias=False)
    weights = delayed(2)(network)
    shared, copy, own = weights.share(), torch.nn.Linear(1, 1, bias=False), torch.nn.Linear(1, 1, bias=False)
    of_predictor, of_agent, seen = -1, None, []
    for update in range(1, 6):
        torch.nn.init.constant_(network.weight, update)
        weights.publish()
        of_predictor = weights.fetch(copy, of_predictor)
        of_agent = shared.fetch(lambda flat: spread(torch.tensor(flat), published(own)), of_agent)
        assert of_predictor == of_agent
        assert weights.version == update
        seen.append((of_agent, copy.weight.item() == own.weight.item() == of_agent))
    assert [version for version, _ in seen] == [0, 0, 1, 2, 3]
    assert all(right for version, right in seen if version)


def test_policy_lag_script_trains_at_the_given_lag(tmp_path: Path):
    options = ["run.name=late", "run.agent_steps=30000", "system.max_policy_lag=1000", "system.predictors=0"]
    script = [sys.executable, ROOT / "benchmarks" / "policy_lag.py", "--updates", "10", "-c", "cartpole", *EVALUATE_OFF]
    command = [*script, *(part for option in options for part in ("--set", option))]
    subprocess.run(command, check=True, timeout=120, cwd=tmp_path, env=environment())
    lags = [row.value for row in logged(tmp_path / "logs" / "late") if row.tag == "lag/mean"]
    assert lags[-1] > 9, lags
