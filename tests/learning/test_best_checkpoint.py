"""best.pt: scores of single checkpoints, which mean the same."""

from pathlib import Path

import pytest
from policies import make_checkpoint

from kartrl.config import read
from kartrl.learning import checkpoint
from kartrl.learning.best_checkpoint import BestCheckpoint
from kartrl.learning.checkpoint_file import CheckpointFile

CIRCUITS = ("a", "b")
HIGH = {"a": [9.0], "b": [9.0]}
LOW = {"a": [1.0], "b": [1.0]}


def saved(agent_steps: int) -> CheckpointFile:
    return checkpoint.content_of(make_checkpoint(agent_steps))


def best_checkpoint(path: Path, *overrides: str) -> BestCheckpoint:
    return BestCheckpoint(path, CIRCUITS, read(overrides=["model.hidden_size=16", *overrides]))


def test_the_highest_mean_over_circuits_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "best.pt"
    best = best_checkpoint(path)
    assert best.offer(saved(1), {"a": [-1.0, -3.0], "b": [-4.0]})
    assert checkpoint.load(path).score == -3.0, "each circuit counts the same, however many episodes it has"
    assert not best.offer(saved(2), {"a": [-3.0], "b": [-3.0]}), "of two equals the first stays"
    assert best.offer(saved(3), {"a": [-2.0], "b": [-3.0]})
    assert not best.offer(saved(4), {"a": [-9.0], "b": [3.0]})
    kept = checkpoint.load(path)
    assert (kept.score, kept.counters.agent_steps) == (-2.5, 3)


def test_a_score_is_of_all_circuits_and_of_one_checkpoint(tmp_path: Path) -> None:
    best = best_checkpoint(tmp_path / "best.pt")
    for returns in ({"a": [9.0]}, {}, {"a": [9.0], "b": [9.0], "c": [9.0]}):
        with pytest.raises(ValueError, match="all levels"):
            best.offer(saved(1), returns)
    assert not (tmp_path / "best.pt").exists()


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_a_return_that_is_not_finite_makes_no_best(tmp_path: Path, value: float) -> None:
    best = best_checkpoint(tmp_path / "best.pt")
    assert not best.offer(saved(1), {"a": [value], "b": [1.0]})
    assert best.offer(saved(2), LOW)


@pytest.mark.parametrize(
    "override",
    [
        "optimizer.learning_rate=0.1",
        "run.agent_steps=7",
        "run.seed=9",
        "evaluation.minutes=9",
        "evaluation.video_seconds=0",
    ],
)
def test_resumed_run_keeps_its_best_score(tmp_path: Path, override: str) -> None:
    path = tmp_path / "best.pt"
    assert best_checkpoint(path).offer(saved(1), HIGH)
    assert not best_checkpoint(path, override).offer(saved(2), LOW)


@pytest.mark.parametrize(
    "override",
    [
        "reward.bound=0.1",
        "levels.MarioCircuit.Act4=train",
        "kart.no_progress_limit=9",
        "evaluation.episodes=2",
        "evaluation.levels=2",
        "evaluation.max_steps=500",
    ],
)
def test_a_score_of_another_meaning_is_forgotten(tmp_path: Path, override: str) -> None:
    path = tmp_path / "best.pt"
    assert best_checkpoint(path).offer(saved(1), HIGH)
    # the checkpoint itself may have been saved before the change: what counts is how it was evaluated
    assert best_checkpoint(path, override).offer(saved(2), LOW)
    assert not best_checkpoint(path, override).offer(saved(3), LOW)
    assert best_checkpoint(path).offer(saved(4), LOW), "nor does that one count under the first meaning"


def test_a_damaged_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "best.pt"
    path.write_bytes(b"damaged")
    assert best_checkpoint(path).offer(saved(1), LOW)
    assert checkpoint.load(path).score == 1.0
