"""`kartrl bench` as a user would run it, short."""

import json
import sys

import pytest
from commands import PACED, QUICK, run
from documented_fields import check_fields, documented
from pacing import STEP_SECONDS
from rich.console import Console
from rich.progress import Progress

from kartrl.commands.bench.measure import Settings, bench
from kartrl.errors import UserError
from kartrl.measuring.windows import peer_rate

# 2000 steps a second by the clock: a busy machine may let it sleep for longer
PEER = """
import time
began = time.monotonic()
for k in range(1000):
    print(f"@B steps={round(2000 * (time.monotonic() - began))} upd={k}", flush=True)
    time.sleep(0.05)
"""


@pytest.mark.timeout(300)
def test_bench_measures_and_prints_json(tmp_path):
    (tmp_path / "peer.py").write_text(PEER)
    peer = f"{sys.executable} {tmp_path / 'peer.py'}"
    options = ["--seconds", "2", "--warm", "1", "--peer", peer, "--json"]
    for setting in (
        "evaluation.minutes=0",
        "algorithm.name=impala",
        "replay.methods=queue uniform",
        "replay.start=100",
    ):
        options += ["--set", setting]
    ended = run("bench", *QUICK, *PACED, *options, cwd=tmp_path, timeout=280)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    for word in (
        "environment",
        "infer",
        "train",
        "ideal",
        "wait action",
        "backward",
        "of the ideal",
        "times the peer",
        "first update after",
        "learner idle",
    ):
        assert word in ended.stderr
    figures = json.loads(ended.stdout)
    check_fields(figures, documented("bench"))
    parts, window = figures["parts"], figures["windows"][0]
    assert figures["sizes"]["replayed"] == 1, "unrolls"
    assert figures["replayed_steps"] == 1, "for each fresh one, whatever the peer does"
    total = parts["environment"] + parts["infer"] + 2 * parts["train"]
    assert figures["ideal"] == pytest.approx(figures["cores"] / total)
    assert parts["environment"] > 0.8 * STEP_SECONDS, "a reset, which counts as a step, takes no time"
    pace = 2 / STEP_SECONDS  # of the two agents; the ideal is lower where the machine was busier when it was measured
    assert 0 < window["agent_steps_per_second"] < 1.5 * max(pace, figures["ideal"])
    assert window["stages"]["agent_act"] > 0, "without a predictor"
    for role in ("agent", "trainer"):
        assert sum(share for stage, share in window["stages"].items() if stage.startswith(role)) == pytest.approx(
            1, abs=0.02
        )
    assert 0 <= window["learner_idle"] <= 1
    assert window["replay"].keys() == {"uniform", "read", "insert"}
    assert all(0 < seconds < 1 for seconds in window["replay"].values())
    assert 0.5 * 2000 < figures["peer"][0] < 2 * 2000, "its lines may be read late"
    assert 0 < window["first_update_seconds"] < 60
    assert 0.05 < window["memory_gb"] < 4, "is sampled in a window of any length"
    assert window["cores"]["server"] > 0
    assert window["cores"]["agents"] > 0


@pytest.mark.parametrize(
    ("peer", "overrides", "said"),
    [
        ("nosuch --steps 5", [], "--peer: there is no program 'nosuch'"),
        ("python 'x", [], '--peer: no closing quotation (got "python \'x")'),
        ("", ["run.minutes = 5"], "--set run.minutes = 5: bench sets run.minutes itself; leave it out"),
        ("", ["cluster.nodes=2"], "[cluster] nodes: bench compares with a cluster only with --ray ADDRESS"),
    ],
)
def test_impossible_comparison_is_refused_before_measuring(peer, overrides, said):
    settings = Settings(seconds=9, warm=9, repeat=1, peer=peer, ray="")
    with pytest.raises(UserError) as error:
        bench(["cartpole"], overrides, settings, Console())
    assert str(error.value) == said


def test_a_training_that_cannot_begin_ends_with_its_cause(tmp_path):
    ended = run("bench", "--set", "environment.id=Nope-v0", cwd=tmp_path)
    assert ended.returncode == 2
    assert "Nope" in ended.stderr


def test_peer_that_stands_still_is_refused():
    code = "import time\nwhile True:\n    print('@B steps=5 upd=1', flush=True)\n    time.sleep(0.05)"
    with Progress(disable=True) as progress, pytest.raises(UserError, match="made no agent steps within"):
        peer_rate([sys.executable, "-c", code], 0.3, 0.0, progress)
