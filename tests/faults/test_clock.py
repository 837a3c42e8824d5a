"""Changes of the wall clock during a run have no effect."""

import signal

from commands import END_SLOWLY, EVALUATE_OFF, HELPERS, PACED, QUICK, Training, run, steps, wait_for

from kartrl.metrics import scalars_csv

CLOCKS = HELPERS / "clocks"  # Python loads its sitecustomize.py in every process


def test_suspended_run_continues(tmp_path, monkeypatch):
    """All processes at once, just after a checkpoint was written, before the server looks at anything else."""
    monkeypatch.setenv("KARTRL_TEST_SUSPENDED", str(tmp_path / "logs/run/checkpoints/*.pt"))
    options = [*QUICK, *PACED, *EVALUATE_OFF, "--set", "run.name=run", "--set", "run.checkpoint_minutes=0.01"]
    limits = ["--set", "run.agent_steps=1000000000"]
    with Training(tmp_path, *options, *limits, first=[CLOCKS]) as training:
        folder = tmp_path / "logs" / "run"
        wait_for(lambda: steps(folder) > 0, 120, "a checkpoint")
        saved = steps(folder)
        wait_for(lambda: steps(folder) > 2 * saved, 120, "training to continue")
        training.process.send_signal(signal.SIGINT)
        assert training.process.wait(60) == 128 + signal.SIGINT
        assert training.process.stdout is not None
        assert "restart" not in training.process.stdout.read().lower()


def test_jumps_of_the_wall_clock_have_no_effect(tmp_path, monkeypatch):
    monkeypatch.setenv("KARTRL_TEST_JUMPS", "1")
    limits = ["--set", "run.agent_steps=8000", "--set", "run.minutes=5", "--set", "run.name=run"]
    ended = run("train", *QUICK, *EVALUATE_OFF, *limits, cwd=tmp_path, timeout=200, first=[CLOCKS], faults=END_SLOWLY)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    rows = list(scalars_csv.read(tmp_path / "logs" / "run"))
    seconds = [row.seconds for row in rows]
    assert seconds == sorted(seconds)
    assert 0 <= seconds[0] <= seconds[-1] < 200
    speeds = [row.value for row in rows if row.tag == "speed/agent_steps_per_second"]
    assert speeds
    assert all(0 <= speed < 1e6 for speed in speeds)
