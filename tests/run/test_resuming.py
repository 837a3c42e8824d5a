"""What a resumed run continues with, what it tells of it, and the commands that are printed."""

import shlex

import pytest
import torch
from gymnasium.spaces import Box, Discrete
from policies import KART, make_checkpoint

from kartrl.config import dump, read
from kartrl.envs.observation_spec import plain
from kartrl.envs.spec import ActionSpec, EnvSpec
from kartrl.envs.worlds import load_world
from kartrl.errors import UserError
from kartrl.learning import checkpoint
from kartrl.learning.best_checkpoint import BestCheckpoint
from kartrl.learning.counters import Counters
from kartrl.learning.schedules import Progress
from kartrl.run.resuming import account, newest_command, resumed_config, to_resume

LIMITS = ("run.agent_steps=1000", "environment.id=CartPole-v1")
SPEC = EnvSpec("CartPole-v1", plain(4), ActionSpec.of(Discrete(2)), 0.0)


def over(*overrides, agent_steps=1000, seconds=3.5):
    stored = make_checkpoint(agent_steps, *LIMITS, *overrides)
    return stored._replace(counters=Counters(agent_steps, 20, 1, seconds, 1.0))


def resumed(stored, *overrides):
    config = resumed_config(stored, [], list(overrides))
    return config, "\n".join(account(stored, config, SPEC, {}))


def as_proposed(stored):
    """Resumed with the options that are proposed."""
    return resumed_config(stored, [], shlex.split(to_resume(stored.config, stored.counters)[1])[1::2])


@pytest.mark.parametrize(
    ("limits", "steps", "seconds", "options"),
    [
        ([], 1000, 3.5, "run.agent_steps=2000"),
        ([], 1001, 3.5, "run.agent_steps=2000"),
        ([], 50_000, 3.5, "run.agent_steps=64000"),
        (["run.minutes=1"], 200, 60.0, "run.minutes=2"),
        (["run.minutes=0.1"], 900, 7.0, "run.agent_steps=2000 run.minutes=0.2"),
        (["run.minutes=1"], 1000, 45.0, "run.agent_steps=2000 run.minutes=2"),
        (["run.minutes=1"], 1000, 20.0, "run.agent_steps=2000"),
    ],
)
def test_the_proposed_limits_leave_room_for_training(limits, steps, seconds, options):
    stored = over(*limits, agent_steps=steps, seconds=seconds)
    _, given = to_resume(stored.config, stored.counters)
    assert given == "".join(f" --set {each}" for each in [*options.split(), "run.schedules=stretch"])
    with pytest.raises(UserError, match="is finished") as refused:
        resumed_config(stored, [], [])
    assert str(refused.value).endswith(f"raise its limit:{given}")
    progress = Progress(as_proposed(stored).run, stored.counters)
    assert 0 < progress.schedule(stored.counters) == progress.fraction(stored.counters) < 0.9


def test_nothing_is_stretched_where_nothing_changes():
    stored = over("optimizer.learning_rate=0.001")
    assert to_resume(stored.config, stored.counters)[1] == " --set run.agent_steps=2000"
    assert to_resume(read(), Counters(5)) == ("", "")


@pytest.mark.parametrize(
    ("schedules", "rates"), [("continue", (0.1, 0.1)), ("restart", (1.0, 0.55)), ("stretch", (0.55, 0.325))]
)
@pytest.mark.parametrize("limits", ["steps", "minutes"])
def test_schedules_continue_restart_or_stretch(schedules, rates, limits):
    first = ["run.minutes=1", "run.agent_steps=1000000"] if limits == "minutes" else []
    raised = "run.minutes=2" if limits == "minutes" else "run.agent_steps=2000"
    stored = over("optimizer.learning_rate=linear 1 0.1", *first, seconds=60.0)
    config, told = resumed(stored, raised, f"run.schedules={schedules}")
    progress, half = Progress(config.run, stored.counters), stored.counters._replace(agent_steps=1500, seconds=90.0)
    at = config.optimizer.learning_rate.at
    assert [at(progress.schedule(counters)) for counters in (stored.counters, half)] == pytest.approx(rates)
    assert f"optimizer.learning_rate is {rates[0]:.3g} (linear 1.0 0.1)" in told
    assert ("over" in told and "run.schedules=stretch or restart" in told) == (schedules == "continue")


@pytest.mark.parametrize("schedules", ["restart", "stretch"])
def test_second_resume_continues_schedules_of_the_first(schedules):
    stored = over()
    config, _ = resumed(stored, "run.agent_steps=2000", f"run.schedules={schedules}")
    progress = Progress(config.run, stored.counters)
    later = stored.counters._replace(agent_steps=1600)
    later = later._replace(progress=progress.schedule(later))
    again, told = resumed(stored._replace(config=read(base=dump(config)), counters=later))
    assert again.run.schedules == "continue"
    for steps in (1600, 1800, 2000):
        counters = later._replace(agent_steps=steps)
        assert Progress(again.run, later).schedule(counters) == pytest.approx(progress.schedule(counters))
    assert "Changed" not in told


def test_all_schedules_and_an_adapted_rate_are_printed():
    stored = over(
        "algorithm.name=appo",
        "appo.clip_range=linear 0.3 0.1",
        "algorithm.discount=linear 0.9 0.99",
        "a3c.entropy_cost=linear 1 0",
        "optimizer.kl_target=0.01",
    )
    stored = stored._replace(optimizer={**stored.optimizer, "rate_factor": torch.tensor(0.5)})
    _, told = resumed(stored, "run.agent_steps=2000", "run.schedules=restart")
    assert "Resuming at 1,000 agent steps, 20 updates; until 2,000 agent steps\n" in told
    for value in ("optimizer.learning_rate is 0.0005", "appo.clip_range is 0.3", "algorithm.discount is 0.9 "):
        assert value in told
    assert "entropy" not in told
    constant, told = resumed(over("optimizer.learning_rate=0.002", "run.minutes=9"), "run.agent_steps=1e4")
    assert "No schedule: optimizer.learning_rate is 0.002" in told
    assert "until 10,000 agent steps or 9 minutes, of which 0.1 are over" in told
    assert constant.run.agent_steps == 10_000


def test_differences_from_the_checkpoint_are_reported():
    stored = over("environment.id=kartrl/Kart-v0")
    changes = ["run.seed=2", "run.name=other", "levels.RainbowRoad.Act1=train", "run.agent_steps=3000"]
    changes += ["reward.time=0"]
    _, told = resumed(stored, *changes)
    with pytest.raises(UserError, match=r"section \[kart\] must stay as it was"):
        resumed(stored, "kart.opponents=2")
    for text in (
        "run.seed is 1 there, 2 here",
        "run.agent_steps is 1000 there, 3000 here",
        "run.name is auto there, other here (its folder keeps its name)",
        "levels.RainbowRoad.Act1 is none there, train here",
        "reward.time is -0.1 there, 0.0 here",
    ):
        assert text in told
    spec = SPEC._replace(action=ActionSpec.of(Box(0.0, 1.0, (1,))))
    config = resumed_config(stored, [], changes)
    assert "2 actions there" in "\n".join(account(stored, config, spec, {}))


def test_changed_content_of_own_circuits_is_reported(tmp_path):
    file, other = tmp_path / "mine.state", tmp_path / "other.state"
    for path in (file, other):
        path.write_bytes(b"as it was")
    keys = ["levels.*=none", f"levels.{tmp_path}/=train", "levels.random:1=test"]
    config = read(overrides=[*KART, *keys])

    def contents():
        return load_world(load_world(config).prepare()).contents()

    stored = over()._replace(contents=contents())
    checkpoint.save(tmp_path / "1.pt", stored)
    stored = checkpoint.load(tmp_path / "1.pt")
    assert stored.contents.keys() == {"mine", "other"}, "a generated circuit always has the same content"
    config_now = resumed_config(stored, [], ["run.agent_steps=2000"])
    assert "mine" not in "".join(account(stored, config_now, SPEC, contents()))
    file.write_bytes(b"as it is")
    other.rename(tmp_path / "third.state")
    *_, told = account(stored, config_now, SPEC, contents())
    assert told.endswith("the content of mine; third is new; 1 of its levels is gone")
    assert checkpoint.for_driving(stored, half=False).contents is None, "an export names no files of the user's"


def test_best_score_on_changed_circuits_is_not_compared(tmp_path):
    stored, path = over(), tmp_path / "best.pt"
    first = BestCheckpoint(path, [""], stored.config, {"mine": "1"})
    assert first.offer(checkpoint.content_of(stored._replace(contents={"mine": "1"})), {"": [5.0]})
    content = checkpoint.content_of(stored)
    assert not BestCheckpoint(path, [""], stored.config, {"mine": "1"}).offer(content, {"": [4.0]})
    assert BestCheckpoint(path, [""], stored.config, {"mine": "2"}).offer(content, {"": [4.0]})


def test_the_printed_command_fits_the_newest_readable_checkpoint(tmp_path):
    assert newest_command(tmp_path / "logs" / "run") is None
    checkpoints = tmp_path / "logs" / "run" / "checkpoints"
    checkpoint.save(checkpoints / "0000001000.pt", over())
    (checkpoints / "0000002000.pt").write_bytes(b"cut")
    told = newest_command(tmp_path / "logs" / "run")
    assert told.endswith("--set run.agent_steps=2000 --set run.schedules=stretch")
