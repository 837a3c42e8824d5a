"""`run.reproducible`: the same configuration gives the same weights and curves, whatever the clock does."""

import hashlib
from pathlib import Path

import pytest
from commands import EVALUATE_OFF, REPORT_OFTEN, run

from kartrl.learning import checkpoint
from kartrl.metrics import episodes_csv, scalars_csv
from kartrl.metrics.episodes_csv import EpisodeRow
from kartrl.run.run_folder import ended_by

SMALL = ("run.reproducible=true", "system.agents=2", "system.envs_per_agent=2", "model.hidden_size=16")
WORLDS = {
    "CartPole": "environment.id=CartPole-v1",
    "kart": "model.core=lstm",
    "shared": "environment.id=awkward:awkward/Shared-v0",
}
ALGORITHMS = {
    "appo": ("algorithm.name=appo", "system.training_batch_size=4", "appo.minibatch_size=10"),
    "impala": ("algorithm.name=impala", "system.training_batch_size=4"),
    "a2c": ("algorithm.name=a2c",),
    "acer": ("algorithm.name=acer", "system.training_batch_size=4", "replay.start=20", "replay.save=true"),
    "impala, prioritised and elite": (
        "algorithm.name=impala",
        "system.training_batch_size=12",
        "replay.methods=queue prioritised elite",
        "replay.start=20",
        "replay.save=true",
    ),
}
RESUMED = ("a2c", "acer", "impala, prioritised and elite")  # appo and impala have the same source as the last
UPDATE = 4 * 5  # steps of an update; fewer where one only carries an episode's last observation
BY_THE_CLOCK = ("speed", "time", "system", "hints")
# The losses are read as often in so few steps as in many. In one of two runs reports come more often, and predictor and
# trainer pause at random moments.
CALM = "reading=500"
JITTER = f"{CALM} {REPORT_OFTEN} predictor=pause trainer=pause"


def train(folder: Path, *arguments: str, steps: int, faults: str) -> None:
    ended = run("train", *arguments, "--set", f"run.agent_steps={steps}", cwd=folder, faults=faults, timeout=250)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def newest(folder: Path) -> Path:
    found = checkpoint.newest(folder / "logs" / "run")
    assert found is not None
    return found


def digest(folder: Path) -> tuple[str, int]:
    """SHA-256 of the newest weights, and the number of updates that made them."""
    stored, sha = checkpoint.load(newest(folder)), hashlib.sha256()
    for name, tensor in sorted(stored.network.items()):
        sha.update(name.encode() + tensor.numpy().tobytes())
    return sha.hexdigest(), stored.counters.updates


def curves(folder: Path) -> list[tuple[int, str, float]]:
    """All rows but for their times."""
    rows = [(row.agent_steps, row.tag, row.value) for row in scalars_csv.read(folder / "logs" / "run")]
    return [row for row in rows if row[1].partition("/")[0] not in BY_THE_CLOCK]


def episodes(folder: Path) -> list[EpisodeRow]:
    """All episodes but for their times."""
    return [row._replace(seconds=0.0, time="") for row in episodes_csv.read(folder / "logs" / "run")]


@pytest.mark.parametrize(
    ("world", "algorithm"),
    [
        ("shared", "impala"),
        ("CartPole", "impala, prioritised and elite"),
        pytest.param("kart", "appo", marks=pytest.mark.slow),
        *(pytest.param("CartPole", algorithm, marks=pytest.mark.slow) for algorithm in ("appo", "a2c", "acer")),
    ],
)
def test_two_runs_end_with_the_same_weights_and_curves(tmp_path, world, algorithm):
    settings = (*SMALL, *ALGORITHMS[algorithm], WORLDS[world], "algorithm.unroll_length=5", "run.name=run")
    options = [*EVALUATE_OFF, *(part for setting in settings for part in ("--set", setting))]
    folders = [tmp_path / "one", tmp_path / "other"]
    for folder, faults in zip(folders, (CALM, JITTER), strict=True):
        folder.mkdir()
        train(folder, *options, steps=60 * UPDATE, faults=faults)
    assert digest(folders[0]) == digest(folders[1])
    assert digest(folders[0])[1] >= 60
    assert curves(folders[0]) == curves(folders[1])
    assert {"losses/total", "charts/episodic_return", "lag/max"} <= {tag for _, tag, _ in curves(folders[0])}
    assert episodes(folders[0]) == episodes(folders[1])
    if world == "CartPole":  # whose episodes end all the time
        assert episodes(folders[0])[-1].agent_steps == checkpoint.load(newest(folders[0])).counters.agent_steps

    if algorithm == "impala":
        (tmp_path / "seed").mkdir()
        train(tmp_path / "seed", *options, "--set", "run.seed=2", steps=60 * UPDATE, faults=CALM)
        assert digest(tmp_path / "seed")[0] != digest(folders[0])[0], "another seed is another run"
    if algorithm not in RESUMED:
        return
    for folder, faults in zip(folders, (JITTER, CALM), strict=True):
        train(folder, "--resume", "run", steps=80 * UPDATE, faults=faults)
    assert digest(folders[0]) == digest(folders[1])
    assert digest(folders[0])[1] >= 80
    assert curves(folders[0]) == curves(folders[1])


@pytest.mark.parametrize(
    "rule",
    [
        ("stop_return=15", "stop_window=5", "stop_episodes=3"),
        pytest.param(("patience=300", "stop_window=5"), marks=pytest.mark.slow),
        pytest.param(("stop_episodes_total=40",), marks=pytest.mark.slow),
    ],
    ids=["return", "patience", "episodes"],
)
def test_rules_end_two_runs_at_the_same_update(tmp_path, rule):
    settings = (*SMALL, *ALGORITHMS["appo"], WORLDS["CartPole"], "algorithm.unroll_length=5", "run.name=run")
    settings += tuple(f"run.{key}" for key in rule)
    options = [*EVALUATE_OFF, *(part for setting in settings for part in ("--set", setting))]
    folders = [tmp_path / "one", tmp_path / "other"]
    for folder, faults in zip(folders, (CALM, JITTER), strict=True):
        folder.mkdir()
        train(folder, *options, steps=10**6, faults=faults)
    assert digest(folders[0]) == digest(folders[1])
    ends = [ended_by(folder / "logs" / "run") for folder in folders]
    assert ends[0] == ends[1]
    assert ends[0].startswith(f"run.{rule[0].partition('=')[0]} = ")
    assert curves(folders[0]) == curves(folders[1])
