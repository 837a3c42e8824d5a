"""Driving trained (here: untrained) networks."""

import csv
import functools
import io
import json
import math
import re

import gymnasium
import numpy as np
import pytest
import torch
from commands import run
from documented_fields import check_fields, documented
from needs import needs_kart
from policies import CARTPOLE, KART, PONG, save_policy
from rich.console import Console

from kartrl.cli import main
from kartrl.commands.evaluate import evaluate
from kartrl.commands.shared import progress
from kartrl.commands.shared.policy import Driving
from kartrl.config import dump, read
from kartrl.driving.driver import open_driver
from kartrl.driving.episodes import Start, drive, drive_together
from kartrl.envs.observation_spec import plain
from kartrl.envs.spec import ActionSpec
from kartrl.envs.worlds import load_world
from kartrl.errors import UserError
from kartrl.learning import checkpoint
from kartrl.models import make_network

CPU = torch.device("cpu")


class Witness(gymnasium.Wrapper):
    """Remembers what passed between the network and the environment."""

    def reset(self, **arguments):
        observation, info = self.env.reset(**arguments)
        self.observations, self.actions = [observation], []
        return observation, info

    def step(self, action):
        observation, *rest = self.env.step(action)
        self.observations.append(observation)
        self.actions.append(action)
        return observation, *rest


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory):
    return save_policy(tmp_path_factory.mktemp("cartpole"), CARTPOLE)


def test_greedy_driving_is_one_unroll_of_the_network(cartpole):
    with open_driver(cartpole, [], "cpu") as driver:
        env = Witness(driver.env)
        result = drive(driver.world, env, driver.network, "", greedy=True, seed=3)
        observations = torch.from_numpy(np.stack(env.observations[:-1])).unsqueeze(1)
        reset = torch.zeros(len(env.actions), 1, dtype=torch.bool)
        # one step more, as an unroll's last step only bootstraps
        observations, first = torch.cat([observations, observations[-1:]]), torch.cat([reset, reset[-1:]])
        output, _ = driver.network(observations, first, driver.network.initial_state(1))
    assert output.policy[:-1].argmax(2).squeeze(1).tolist() == env.actions
    assert result.episode.agent_steps == result.episode.episodic_return == len(env.actions)
    assert result.episode.level == ""
    assert result.trace.size == 0


def test_the_seed_decides_sampled_driving(cartpole):
    with open_driver(cartpole, [], "auto") as driver:
        env = Witness(driver.env)
        runs = []
        for seed in (5, 5, 6):
            drive(driver.world, env, driver.network, "", greedy=False, seed=seed)
            runs.append(env.actions)
    assert runs[0] == runs[1] != runs[2]


def test_a_plain_environment_gets_one_row(cartpole):
    console = Console(file=io.StringIO(), width=150)
    (result,) = evaluate(cartpole, Driving(), 3, console)
    assert len(result.episodes) == 3
    text = console.file.getvalue()
    assert "CartPole-v1" in text
    assert "1,000 agent steps" in text
    assert "greedy" in text


def test_bad_input_is_one_line(tmp_path, cartpole):
    missing = run("evaluate", "-p", "nowhere.pt", cwd=tmp_path)
    assert (missing.returncode, missing.stderr.count("\n")) == (2, 1)
    assert "nowhere.pt" in missing.stderr
    with pytest.raises(UserError, match=r"^-l Act1: CartPole-v1 has no levels"):
        evaluate(cartpole, Driving(["Act1"]), 1, Console())
    if not torch.cuda.is_available():
        with pytest.raises(UserError, match="cuda"):
            evaluate(cartpole, Driving(device="cuda"), 1, Console())


def test_a_wrong_argument_of_the_environment_is_one_line(cartpole):
    with (
        pytest.raises(UserError, match=r"^\[environment\] id = CartPole-v1: TypeError: .*'foo'") as error,
        open_driver(cartpole, [], "cpu", overrides=["environment.kwargs.foo=1"]),
    ):
        pass
    assert "\n" not in str(error.value)


def test_other_observations_are_refused_with_all_overrides(cartpole, monkeypatch):
    monkeypatch.setenv("KARTRL_IMPORT", "gymnasium.wrappers")
    overrides = ["environment.wrapper=gymnasium.wrappers:TimeAwareObservation", "environment.frame_skip=1"]
    with pytest.raises(UserError) as error, open_driver(cartpole, [], "cpu", overrides=overrides):
        pass
    assert str(error.value).startswith(f"--set {' '.join(overrides)}: ")


ALONE = "has an effect in training alone; leave it out"


@pytest.mark.parametrize(
    ("policy", "override", "said"),
    [
        (CARTPOLE, "kart.opponents=3", "[kart] applies to kartrl/Kart-v0 only; environment.id is CartPole-v1"),
        (CARTPOLE, "environment.frame_skip = 5", "has no effect on CartPole-v1; leave it out"),
        (CARTPOLE, "environment.life_loss_ends=true", "has no effect on CartPole-v1; leave it out"),
        (CARTPOLE, "environment.height=54", "has no effect on CartPole-v1; leave it out"),
        (CARTPOLE, "environment.id = Acrobot-v1", "only [environment] can differ from training, except environment.id"),
        (CARTPOLE, "run.seed=2", "only [environment] can differ from training, except environment.id"),
        pytest.param(KART, "run.seed=2", "only [environment] and [kart] and [reward] can differ", marks=needs_kart),
        pytest.param(KART, "environment.noop_max=2", "has no effect on kartrl/Kart-v0; leave it out", marks=needs_kart),
        (PONG, "environment.life_loss_ends=false", ALONE),
        (PONG, "environment.mirrored_actions=0 1 3 2 5 4", ALONE),
        (PONG, "environment.kwargs.frameskip=2", "has no effect on ALE/Pong-v5; leave it out"),
        pytest.param(KART, "kart.random_start=true", ALONE, marks=needs_kart),
        pytest.param(KART, "kart.circuit_sampling=steps", ALONE, marks=needs_kart),
        pytest.param(KART, "environment.mirrored_actions=none", ALONE, marks=needs_kart),
        pytest.param(KART, "environment.kwargs.a=1", "has no effect on kartrl/Kart-v0", marks=needs_kart),
    ],
)
def test_override_without_effect_is_refused(policy, override, said, policies, capsys):
    level = ["-l", "MarioCircuit.Act1"] if policy is KART else []
    assert main(["evaluate", "-p", str(policies(policy)), *level, "--set", override]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"kartrl: --set {override}: {said}")


@pytest.mark.parametrize("command", [("record", "-p"), ("watch",)])
def test_films_refuse_an_override_without_effect(command, policies, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DISPLAY", raising=False)
    assert main([*command, str(policies(PONG)), "--set", "environment.life_loss_ends=false"]) == 2
    assert ALONE in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]


@pytest.fixture(scope="module")
def policies(tmp_path_factory):
    """A function that gives the checkpoint of an untrained network for these settings."""
    return functools.cache(lambda settings: save_policy(tmp_path_factory.mktemp("policies"), settings))


def test_an_image_that_is_not_finite_ends_the_drive(monkeypatch):
    config = read(overrides=["environment.id=spaces_zoo:UnitGrey-v0", "environment.kwargs.broken_after=4"])
    world = load_world(config)
    env = world.open_env(world.all_levels(), training=False)
    spec = ActionSpec.of(env.action_space)
    network = make_network(config.model, plain(*env.observation_space.shape), spec)
    drives = [drive(world, env, network, "", greedy=False, seed=seed) for seed in (1, 2)]
    assert [(each.episode.agent_steps, each.episode.episodic_return) for each in drives] == [(3, 3.0)] * 2
    assert not any(each.episode.finished for each in drives)
    env.close()


@pytest.mark.parametrize("broken", [{"observation": math.nan}, {"reward": math.inf}])
def test_numbers_that_are_not_finite_end_the_drive(cartpole, broken):
    class Broken(gymnasium.Wrapper):
        def step(self, action):
            observation, reward, *rest = super().step(action)
            return observation + broken.get("observation", 0.0), reward + broken.get("reward", 0.0), *rest

    with open_driver(cartpole, [], "auto") as driver:
        alone = drive(driver.world, Broken(driver.env), driver.network, "", greedy=False, seed=1).episode
        fine = drive(driver.world, driver.env, driver.network, "", greedy=False, seed=2).episode
        envs = [Broken(driver.env), driver.world.open_env(training=False)]
        together = drive_together(driver.world, envs, driver.network, [Start("", 1), Start("", 2)], greedy=False)
    assert (alone.agent_steps, alone.episodic_return, alone.finished) == (0, 0.0, False)
    assert [one.episode for one in together] == [alone, fine], "the other episodes go on"


@pytest.fixture(scope="module")
def kart(tmp_path_factory):
    return save_policy(tmp_path_factory.mktemp("kart"), KART)


@needs_kart
def test_every_circuit_is_driven_train_and_test_apart(kart):
    console = Console(file=io.StringIO(), width=150)
    results = evaluate(kart, Driving(greedy=False), 2, console)
    assert [(result.level, result.use) for result in results] == [
        ("MarioCircuit.Act1", "train"),
        ("MarioCircuit.Act2", "train"),
        ("MarioCircuit.Act3", "train"),
        *((f"random.asphalt.{number:04}", "train") for number in range(3)),
        ("MarioCircuit.Act4", "test"),
    ]
    assert all(episode.level == result.level for result in results for episode in result.episodes)
    text = console.file.getvalue()
    assert re.search(r"all +│ +0 of 12", text)
    assert re.search(r"MarioCircuit.Act4 \(unseen\) +│", text)


@needs_kart
@pytest.mark.parametrize(
    ("levels", "reason"),
    [
        (
            ["levels.*=none", "levels./home/*/a.state=train"],
            r"paths in its \[levels\] are not opened \(/home/\*/a\.state\); name them with -l",
        ),
        (["levels.*=none", "levels.random:5000=train"], "has 5,000 generated circuits; choose some with -l"),
    ],
)
def test_circuits_of_a_strangers_checkpoint_are_not_looked_up(kart, tmp_path, levels, reason):
    loaded = checkpoint.load(kart)
    stranger = tmp_path / "a.pt"
    checkpoint.save(stranger, loaded._replace(config=read(base=dump(loaded.config), overrides=levels)))
    with pytest.raises(UserError, match=reason), open_driver(stranger, [], "cpu"):
        pass
    with open_driver(stranger, ["MarioCircuit.Act4"], "cpu") as driver:
        assert driver.levels == ("MarioCircuit.Act4",)


@needs_kart
def test_another_world_than_in_training(kart):
    """Among opponents that it has never seen; but the network must fit what it sees."""
    console = Console(file=io.StringIO(), width=120)
    among = ["kart.opponents=7", "kart.no_progress_limit=1"]
    (result,) = evaluate(kart, Driving(["MarioCircuit.Act2"], overrides=among), 1, console)
    assert result.episodes[0].details.rank == 8
    assert "0 of 1, first in 0%" in console.file.getvalue()
    for wrong, reason in (
        ("environment.width=20", "trained on other observations"),
        ("environment.id=CartPole-v1", "only .environment."),
        ("run.seed=1", "only .environment."),
        ("kart.opponents=8", "must be 7 or less"),
    ):
        with pytest.raises(UserError, match=reason), open_driver(kart, [], "cpu", overrides=[wrong]):
            pass


@pytest.mark.parametrize("greedy", [True, False])
def test_episodes_driven_together_are_as_if_alone(cartpole, greedy):
    seen: dict[int, int] = {}

    def starting(seed):
        def look(env):
            assert isinstance(env, gymnasium.Env)
            seen[seed] = seen.get(seed, 0) + 1

        return Start("", seed, on_step=look if seed % 2 else None)

    with open_driver(cartpole, [], "cpu") as driver:
        alone = [drive(driver.world, driver.env, driver.network, "", greedy=greedy, seed=seed) for seed in range(7)]
        envs = [driver.world.open_env(training=False) for _ in range(3)]  # the last batch leaves two of them idle
        together = drive_together(driver.world, envs, driver.network, list(map(starting, range(7))), greedy=greedy)
    assert [one.episode for one in together] == [one.episode for one in alone]
    assert len({one.episode.agent_steps for one in alone}) > 1, "they end at different times"
    assert seen == {seed: alone[seed].episode.agent_steps + 1 for seed in (1, 3, 5)}


@needs_kart
def test_unknown_circuit(kart, tmp_path):
    result = run("evaluate", "-p", str(kart), "-l", "MarioCircuit.Act9", cwd=tmp_path)
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert "MarioCircuit.Act9" in result.stderr
    assert "MarioCircuit.Act4" in result.stderr


@needs_kart
def test_filming_each_frame_changes_nothing(kart):
    pictures = []
    with open_driver(kart, ["MarioCircuit.Act2"], "cpu") as driver:
        drives = [
            drive(
                driver.world,
                driver.env,
                driver.network,
                "MarioCircuit.Act2",
                greedy=True,
                seed=7,
                on_picture=on_picture,
            )
            for on_picture in (None, pictures.append)
        ]
    assert drives[0].episode == drives[1].episode
    assert (drives[0].trace == drives[1].trace).all()
    assert drives[0].trace.shape == (drives[0].episode.agent_steps + 1, 3)
    # Beside the steps' four frames, there are one to 31 idle ones at the start.
    assert 1 <= len(pictures) - 4 * drives[0].episode.agent_steps <= 31
    assert pictures[0].shape == (224, 256, 3)


@pytest.mark.parametrize("name", ["ALE/Pong-v5", "PongNoFrameskip-v4"])
def test_a_film_of_an_atari_game_runs_at_the_games_speed(name):
    config = read(overrides=[f"environment.id={name}", "environment.frame_skip=4"])
    world = load_world(config)
    env = world.open_env()
    assert world.pictures_per_second(env) == 15
    env.close()


def test_an_endless_episode_has_a_limit_and_progress(tmp_path, monkeypatch, capsys):
    """By the option or, without it, by the run's own key; after Ctrl-C, what was measured is printed."""
    monkeypatch.setenv("KARTRL_IMPORT", "filmed")
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    overrides = ["environment.id=filmed:Filmed-v0", "evaluation.max_steps=70"]
    policy = str(save_policy(tmp_path / "run", overrides))
    for options, steps in (["--max-steps", "40"], 40), ([], 70):
        assert main(["evaluate", "-p", policy, "--episodes", "2", *options]) == 0
        output = capsys.readouterr()
        assert f"{steps}.00" in output.out, "the return, 1 a step"
        assert f"2 of 2 episodes ended after {steps} agent steps" in output.out
        assert re.search(r"^kartrl: filmed:Filmed-v0, [1-9]\d* steps, 0 of 2 episodes$", output.err, re.MULTILINE)
    policy = str(save_policy(tmp_path / "run", [*overrides, "environment.kwargs.stopped=150"], most_envs=2))
    assert main(["evaluate", "-p", policy]) == 130
    output = capsys.readouterr().out
    assert "greedy; interrupted" in output
    assert "4 of 4 episodes ended after 70 agent steps" in output


def test_results_as_json_and_csv_agree_with_episodes(cartpole, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):  # the second file is written beside the first one
        assert main(["evaluate", "-p", str(cartpole), "--episodes", "3", "--sampled", "--json", "-o", "x"]) == 0
    out, err = capsys.readouterr()
    printed = json.loads(out[out.rindex("\n{") :])
    check_fields(printed, documented("evaluate"))
    (results,) = printed["checkpoints"]
    assert "CartPole-v1" in err
    assert (tmp_path / "x-2.csv").read_text() == (tmp_path / "x.csv").read_text()
    rows = list(csv.DictReader((tmp_path / "x.csv").read_text().splitlines()))
    episodes = [{"checkpoint": str(cartpole), **row} for row in results["episodes"]]
    as_text = [{name: "" if value is None else str(value) for name, value in row.items()} for row in episodes]
    assert as_text == rows
    (level,) = results["levels"]
    returns = [float(row["return"]) for row in rows]
    assert [row["seed"] for row in rows] == ["0", "1", "2"]
    assert level["return_mean"] == pytest.approx(sum(returns) / 3)
    low, high = level["return_interval"]
    assert level["return_min"] == min(returns) <= low <= level["return_mean"] <= high <= max(returns)
    assert level["measures"]["episodic_length"] == level["return_mean"]
    assert not results["greedy"]
    assert main(["evaluate", str(cartpole), "--episodes", "3", "--sampled", "--csv"]) == 0
    assert capsys.readouterr().out == (tmp_path / "x.csv").read_text()


def test_several_policies_are_compared_in_one_table(cartpole, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    copy = tmp_path / "copy.pt"
    copy.write_bytes(cartpole.read_bytes())
    assert main(["evaluate", str(cartpole), str(copy), "--episodes", "3", "--json", "-o", "x"]) == 0
    out, err = capsys.readouterr()
    first, second = json.loads(out)["checkpoints"]
    assert (first["checkpoint"], second["checkpoint"]) == (str(cartpole), str(copy))
    assert first["episodes"] == second["episodes"]
    assert "95 % interval" in err
    rows = list(csv.DictReader((tmp_path / "x.csv").read_text().splitlines()))
    assert [row["checkpoint"] for row in rows] == [str(cartpole)] * 3 + [str(copy)] * 3
    assert main(["evaluate", str(cartpole), "-p", str(copy)]) == 2
    assert "one way" in capsys.readouterr().err


def test_success_that_an_environment_reports_is_counted(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("KARTRL_IMPORT", "awkward")
    path = save_policy(tmp_path / "run", ["environment.id=awkward:awkward/Goal-v0", "model.hidden_size=16"])
    with open_driver(path, [], "cpu") as driver:
        expected = []
        for seed in range(6):
            env = Witness(driver.env)
            drive(driver.world, env, driver.network, "", greedy=True, seed=seed)
            expected.append(int(env.observations[-1][0] > 0.5))
    assert 0 < sum(expected) < 6, "or this shows nothing"
    assert main(["evaluate", str(path), "--episodes", "6", "--json"]) == 0
    out, err = capsys.readouterr()
    (results,) = json.loads(out)["checkpoints"]
    assert [row["success"] for row in results["episodes"]] == expected
    assert results["levels"][0]["measures"]["success_rate"] == pytest.approx(sum(expected) / 6)
    assert f"{sum(expected)} of 6 episodes were a success" in err
