"""A clock that is set while a run goes on changes nothing."""

from commands import EVALUATE_OFF, QUICK, run

from kartrl.metrics import scalars_csv

# Python loads this in every process: the wall clock then jumps by a day, back or forth, each time somebody looks.
SITECUSTOMIZE = """
import itertools, time
jumps, real = itertools.cycle((86400.0, -86400.0, 0.0)), time.time
time.time = lambda: real() + next(jumps)
"""


def test_a_clock_that_jumps(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(SITECUSTOMIZE)
    limits = ["--set", "run.agent_steps=20000", "--set", "run.minutes=5", "--set", "run.name=run"]
    ended = run("train", *QUICK, *EVALUATE_OFF, *limits, cwd=tmp_path, first=[tmp_path])
    assert ended.returncode == 0, ended.stdout + ended.stderr
    rows = list(scalars_csv.read(tmp_path / "logs" / "run"))
    seconds = [row.seconds for row in rows]
    assert seconds == sorted(seconds)
    assert 0 <= seconds[0] <= seconds[-1] < 100
    speeds = [row.value for row in rows if row.tag == "speed/agent_steps_per_second"]
    assert speeds
    assert all(0 <= speed < 1e6 for speed in speeds)
