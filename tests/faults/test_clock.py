"""Changes of the wall clock during a run have no effect."""

from commands import END_SLOWLY, EVALUATE_OFF, QUICK, run

from kartrl.metrics import scalars_csv

# Python loads this in every process: each call of time.time() jumps by a day.
SITECUSTOMIZE = """
import itertools, time
jumps, real = itertools.cycle((86400.0, -86400.0, 0.0)), time.time
time.time = lambda: real() + next(jumps)
"""


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
