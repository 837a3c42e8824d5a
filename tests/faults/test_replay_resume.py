"""A run with replays that is killed goes on from its checkpoint with what they held, or says that it is lost."""

import os
import re
import signal

import pytest
from commands import EVALUATE_OFF, QUICK, REPORT_OFTEN, Training, run, steps, wait_for

from kartrl.learning import checkpoint
from kartrl.metrics import scalars_csv

REPLAYS = (
    "run.name=run",
    "run.checkpoint_minutes=0.03",
    "algorithm.name=impala",
    "replay.methods=queue elite attentive prioritised",
    "replay.insertion=elite",
    "replay.capacities=2000",
    "replay.start=300",
    "replay.compression=lz4",
    "replay.save=true",
    "clear.policy_cost=0.01",
    "laser.threshold=0.3",
    "laser.form=paper",
)


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_killed_run_resumes_with_its_replays_or_reports_loss(tmp_path):
    folder = tmp_path / "logs" / "run"
    options = [*QUICK, *EVALUATE_OFF, *(part for setting in REPLAYS for part in ("--set", setting))]
    with Training(tmp_path, *options, "--set", "run.agent_steps=1000000000", faults=REPORT_OFTEN) as training:

        def saved_while_replaying() -> bool:
            replayed = [row.agent_steps for row in scalars_csv.read(folder) if row.tag == "replay/age_mean"]
            return bool(replayed) and steps(folder) > min(replayed)  # what they held by then is saved

        wait_for(saved_while_replaying, 120, "metrics of what is replayed, and a checkpoint")
        training.process.send_signal(signal.SIGKILL)
        training.process.wait(60)
        wait_for(lambda: not training.family(), 60, "the orphans to be gone")
    tags = {row.tag for row in scalars_csv.read(folder)}
    told = {"replay/behaviour_kl", "replay/trusted", "losses/policy_cloning", "losses/masked"}
    told |= {"system/replay_elite_distance", "system/replay_attentive_candidates", "system/replay_gigabytes"}
    told |= {"time/replay_elite_seconds", "time/replay_insert_seconds", "speed/replayed_steps_per_second"}
    assert told <= tags, told - tags
    idle = scalars_csv.values(folder, "time/learner_idle")
    assert idle
    assert all(0 <= value <= 1 for value in idle)
    newest = checkpoint.newest(folder)
    assert newest is not None
    stored = checkpoint.load(newest)
    assert stored.algorithm, "the lagged network is kept"
    begun = stored.counters.agent_steps

    def resume(further: int) -> str:
        limit = f"run.agent_steps={begun + further}"
        resumed = run("train", "--resume", "run", "--set", limit, cwd=tmp_path)
        assert resumed.returncode == 0, resumed.stdout + resumed.stderr
        assert [path.stem for path in (folder / "replay").glob("*.state")] == [f"{steps(folder):010d}"]
        return str(resumed.stdout)

    told_held = re.search(r"Replays continue with their ([\d,]+) saved steps", resume(600))
    assert told_held is not None
    assert int(told_held[1].replace(",", "")) > 300
    state = next((folder / "replay").glob("*.state"))
    state.write_bytes(state.read_bytes()[:-10])
    assert "Replay contents could not be restored" in resume(900)
    options = ("--set", f"run.agent_steps={begun + 1200}", "--set", "replay.save=false")
    without = run("train", "--resume", "run", *options, cwd=tmp_path)
    assert without.returncode == 0, without.stdout + without.stderr
    assert "Replay contents were not saved: replay.save is false; starting empty" in without.stdout
