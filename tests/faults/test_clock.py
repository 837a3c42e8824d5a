"""Changes of the wall clock during a run have no effect."""

import signal

import pytest
from commands import END_SLOWLY, EVALUATE_OFF, QUICK, Training, run, steps, wait_for

from kartrl.metrics import scalars_csv

# Python loads this in every process: each call of time.time() jumps by a day.
SITECUSTOMIZE = """
import itertools, time
jumps, real = itertools.cycle((86400.0, -86400.0, 0.0)), time.time
time.time = lambda: real() + next(jumps)
"""


# All processes are suspended at once, while the monotonic clock goes on: it jumps when a file appears.
SUSPENDED = """
import os, time
real = time.monotonic
time.monotonic = lambda: real() + (1000.0 if os.path.exists({file!r}) else 0.0)
"""


# It appears just after a checkpoint was written, before the server looks at anything else.
WHILE_SAVING = """
from pathlib import Path
from kartrl.learning import checkpoint
real = checkpoint.save
def save(path, content):
    real(path, content)
    Path({file!r}).touch()
checkpoint.save = save
"""


@pytest.mark.parametrize("saving", [False, True], ids=["at any time", "while saving"])
def test_suspended_run_continues(tmp_path, saving):
    file = tmp_path / "suspended"
    (tmp_path / "sitecustomize.py").write_text(SUSPENDED.format(file=str(file)))
    options = [*QUICK, *EVALUATE_OFF, "--set", "run.name=run", "--set", "run.checkpoint_minutes=0.01"]
    before = WHILE_SAVING.format(file=str(file)) if saving else ""
    limits = ["--set", "run.agent_steps=1000000000"]
    with Training(tmp_path, *options, *limits, first=[tmp_path], before=before) as training:
        folder = tmp_path / "logs" / "run"
        wait_for(lambda: steps(folder) > 0, 120, "a checkpoint")
        file.touch()
        saved = steps(folder)
        wait_for(lambda: steps(folder) > 2 * saved, 120, "training to go on")
        training.process.send_signal(signal.SIGINT)
        assert training.process.wait(60) == 128 + signal.SIGINT
        assert training.process.stdout is not None
        assert "restart" not in training.process.stdout.read().lower()


def test_jumps_of_the_wall_clock_have_no_effect(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(SITECUSTOMIZE)
    limits = ["--set", "run.agent_steps=20000", "--set", "run.minutes=5", "--set", "run.name=run"]
    ended = run("train", *QUICK, *EVALUATE_OFF, *limits, cwd=tmp_path, timeout=200, first=[tmp_path], before=END_SLOWLY)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    rows = list(scalars_csv.read(tmp_path / "logs" / "run"))
    seconds = [row.seconds for row in rows]
    assert seconds == sorted(seconds)
    assert 0 <= seconds[0] <= seconds[-1] < 200
    speeds = [row.value for row in rows if row.tag == "speed/agent_steps_per_second"]
    assert speeds
    assert all(0 <= speed < 1e6 for speed in speeds)
