"""A whole run on observations of several parts: replay, checkpoints, resume, evaluation, video, other weights."""

from pathlib import Path

import pytest
from commands import run

from kartrl.envs.observation_spec import ObservationPart
from kartrl.learning import checkpoint

SMALL = (
    *("environment.height=20", "environment.width=20", "environment.frame_stack=3"),
    *("model.kernels=4", "model.strides=4", "model.channels=8", "model.hidden_size=16", "evaluation.minutes=0"),
)
REPLAY = ("algorithm.name=acer", "replay.capacities=600", "replay.compression=none", "replay.save=true")
PARTS = (
    ObservationPart("cameras.0", (20, 20, 9)),
    ObservationPart("cameras.1", (20, 20, 3)),
    ObservationPart("gear", (2,)),
    ObservationPart("state.speed", (3,)),
)


def kartrl(folder: Path, command: str, *settings: str, code: int = 0) -> str:
    done = run(*command.split(), *[word for each in settings for word in ("--set", each)], cwd=folder)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def test_a_run_with_replay_resumes_and_is_evaluated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KARTRL_IMPORT", "parts_zoo")
    train = "train --env parts_zoo:Signals-v0 --set run.name=one"
    told = kartrl(tmp_path, train, *SMALL, *REPLAY, "run.agent_steps=1500", "system.agents=1")
    assert "cameras.1 (grey images, 20 rows of 20 pixels, the newest 3 of them), gear (2 numbers) and" in told
    first = checkpoint.newest(tmp_path / "logs" / "one")
    assert first is not None
    stored = checkpoint.load(first)
    assert stored.observation.parts == PARTS
    kartrl(tmp_path, "train --resume one", "run.agent_steps=2000")
    assert checkpoint.load(checkpoint.newest(tmp_path / "logs" / "one")).counters.agent_steps >= 2000
    assert "0.0" in kartrl(tmp_path, "evaluate -p one --episodes 2")
    kartrl(tmp_path, "record -p one -o video.mp4")
    assert (tmp_path / "video.mp4").stat().st_size > 0
    differs = "environment.observation_parts=cameras gear"
    said = kartrl(tmp_path, f"train --env parts_zoo:Signals-v0 --init {first}", *SMALL, *REPLAY, differs, code=2)
    assert said.count("\n") == 1
    assert "the part state.speed of observations is 3 numbers there, missing here" in said
    assert "add --set environment.observation_parts=all" in said
    said = kartrl(tmp_path, "evaluate -p one", differs, code=2)
    assert "was trained on other observations or actions" in said
