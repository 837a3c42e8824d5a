"""Whole runs on a GPU: every algorithm trains there, on a CPU, and there again, and its policy drives there."""

import math
import re

import pytest
from commands import EVALUATE_OFF, HELPERS, run, steps
from gpu import needs_gpu

from kartrl.algorithms import ALGORITHMS
from kartrl.metrics import scalars_csv

pytestmark = needs_gpu
USED = HELPERS / "gpu_use"  # whose sitecustomize.py has each process print the GPU's memory that it took
SMALL = ("environment.id=CartPole-v1", "model.hidden_size=32", "system.agents=2")
FILLED = "replay.start=500"
LASER = ("laser.threshold=0.3", "laser.form=paper")
WORLDS = {
    **{name: (f"algorithm.name={name}", *SMALL) for name in ALGORITHMS},
    "hogwild": ("algorithm.name=a3c", "a3c.hogwild=true", *SMALL),
    "lstm": ("algorithm.name=impala", "model.core=lstm", *SMALL),
    "acer, lstm": ("algorithm.name=acer", "model.core=lstm", *SMALL),
    "continuous": ("algorithm.name=ppo", "environment.id=Pendulum-v1", *SMALL[1:]),
    "replays": ("algorithm.name=impala", "replay.methods=queue uniform elite", FILLED, *SMALL),
    "laser": ("algorithm.name=impala", "replay.methods=queue uniform", *LASER, *SMALL),
    "kart": ("system.agents=2",),
    "kart, lstm, bf16": ("system.agents=2", "model.core=lstm", "model.precision=bf16"),
    "kart, attentive": ("algorithm.name=impala", "replay.methods=queue attentive", FILLED, "system.agents=2"),
    "kart, CPU predicts": ("system.agents=2", "system.predictor_devices=cpu"),
}


def settings(*values: str) -> list[str]:
    return [part for value in values for part in ("--set", value)]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("world", WORLDS)
def test_run_continues_on_the_cpu_and_back(tmp_path, world):
    values = (*WORLDS[world], "run.name=run")
    for number, device in enumerate(("cuda", "cpu", "cuda"), 1):
        limit = [*settings(f"run.agent_steps={number * 4000}", f"system.device={device}"), *EVALUATE_OFF]
        goes_on = ["--resume", "logs/run"] if number > 1 else []
        ended = run("train", *goes_on, *settings(*values), *limit, cwd=tmp_path, first=[USED], timeout=200)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert "skipp" not in ended.stdout, ended.stdout  # updates that were not finite
        used = max(map(int, re.findall(r"bytes of the GPU: (\d+)", ended.stdout)))
        if world != "hogwild":  # whose workers are processes of their own
            assert (used > 0) == (device == "cuda")
        assert steps(tmp_path / "logs" / "run") >= number * 4000
    losses = [row for row in scalars_csv.read(tmp_path / "logs" / "run") if row.tag.startswith("losses/")]
    assert losses
    assert all(math.isfinite(row.value) for row in losses)
    circuit = ["-l", "MarioCircuit.Act1"] if world.startswith("kart") else []
    ended = run("evaluate", "--device", "cuda", "--episodes", "1", *circuit, cwd=tmp_path, timeout=200)
    assert ended.returncode == 0, ended.stdout + ended.stderr
