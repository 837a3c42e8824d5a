"""What `import kartrl` offers: a configuration, environments, policies that act, and their evaluation."""

import ast
import json
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pdoc
import pytest
from commands import assert_clear, run_example
from gymnasium.spaces import Discrete
from needs import needs_kart
from policies import CARTPOLE, save_policy

import kartrl
from kartrl.cli import main
from kartrl.commands.shared.policy import SHIPPED
from kartrl.envs.observation_spec import ObservationSpec

MASKED = ("environment.id=kartrl/MaskedCartPole-v1", "model.hidden_size=16")


def test_importing_kartrl_and_a_configuration_loads_no_torch() -> None:
    code = "import sys, kartrl; kartrl.read_config('cartpole'); print([*{'torch'} & set(sys.modules)], dir(kartrl))"
    shown = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True).stdout
    assert shown.startswith("[] ")
    assert all(f"'{name}'" in shown for name in kartrl.__all__)


def test_names_are_the_same_to_type_checkers_and_python() -> None:
    tree = ast.parse(Path(kartrl.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    typed = [(node.module, alias.name) for node in block.body for alias in node.names]
    assert sorted(name for _, name in typed) == kartrl.__all__
    for module, name in typed:
        assert getattr(kartrl, name) is getattr(sys.modules[module], name)
        assert getattr(kartrl, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        kartrl.trian  # noqa: B018


def test_the_reference_has_all_names_with_their_docs() -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Cannot determine where")
        members = pdoc.doc.Module(kartrl).members
        assert sorted(members) == kartrl.__all__
        assert all(member.docstring for member in members.values())


def test_a_configuration_takes_values_of_any_kind() -> None:
    values = {"model.channels": (8, 16, 16), "run.reproducible": True, "environment.kwargs.a": "b", "run.seed": 3}
    config = kartrl.read_config(["cartpole"], values)
    assert (config.model.channels, config.run.reproducible, config.run.seed) == ((8, 16, 16), True, 3)
    assert config.environment.kwargs == {"a": "b"}
    assert kartrl.read_config(overrides={"run.stop_return": None}).run.stop_return == "none"
    assert kartrl.read_config("cartpole", {"model.channels": np.array([4, 8, 8])}).model.channels == (4, 8, 8)
    with pytest.raises(kartrl.UserError, match="nearest valid one is 'seed'"):
        kartrl.read_config(overrides={"run.sed": 3})


@pytest.mark.parametrize(
    "value",
    [
        [1, 2],
        (3, "a"),
        [],
        {"x": [None, True]},
        {1, 2},
        None,
        2.5,
        np.float32(2.5),
        np.array([1, 2]),
        [np.float64(0.5)],
        (np.int64(3), 2),
        {"x": np.array([1, 2]), np.int64(4): np.True_},
    ],
)
def test_arguments_of_environments_keep_their_types(value: object) -> None:
    given = kartrl.read_config(overrides={"environment.id": "CartPole-v1", "environment.kwargs.a": value})
    wanted = re.sub(r"(np\.\w+|array)\(([^()]*)\)", r"\2", repr(value)).replace("np.True_", "True")
    assert repr(given.environment.kwargs["a"]) == wanted


@pytest.mark.parametrize(
    "call",
    [
        lambda: kartrl.read_config({"run.seed": 2}),  # type: ignore[arg-type]
        lambda: kartrl.read_config("cartpole", ["run.seed=2"]),  # type: ignore[arg-type]
        lambda: kartrl.read_config(overrides={"environment.kwargs.a": float("inf")}),
        lambda: kartrl.read_config(overrides={"environment.kwargs.a": print}),
        lambda: kartrl.make_env("CartPole-v1"),  # type: ignore[arg-type]
        lambda: kartrl.make_env(kartrl.read_config("cartpole"), "Level1"),
        lambda: kartrl.train("cartpole", progress=False),  # type: ignore[arg-type]
        lambda: kartrl.train(progress=False, on_update=3),  # type: ignore[arg-type]
        lambda: kartrl.train(progress=False, overrides=["run.seed=2"]),  # type: ignore[arg-type]
        lambda: kartrl.load_policy(""),
        lambda: kartrl.load_policy(SHIPPED, device="gpu"),
        lambda: kartrl.evaluate(SHIPPED, episodes=2.5),  # type: ignore[arg-type]
        lambda: kartrl.evaluate(SHIPPED, max_steps=0),
    ],
)
def test_wrong_arguments_are_one_line(
    call: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kartrl.UserError) as refused:
        call()
    assert_clear(refused.value)
    assert list(tmp_path.iterdir()) == []


@needs_kart
def test_one_level_may_be_named_alone() -> None:
    env = kartrl.make_env(kartrl.read_config(), "MarioCircuit.Act2")
    assert env.reset(seed=1)[1]["circuit"] == "MarioCircuit.Act2"
    env.close()


@pytest.mark.parametrize("core", ["none", "lstm", "gru"])
def test_acting_on_many_equals_acting_on_each(tmp_path: Path, core: str) -> None:
    policy = kartrl.load_policy(save_policy(tmp_path, (*CARTPOLE, f"model.core={core}")))
    env = policy.make_env()
    seen, states, state = [], [], np.zeros(policy.state_size, np.float32)
    observation, _ = env.reset(seed=1)
    for _ in range(5):
        seen.append(observation)
        states.append(state)
        action, state = policy.act(observation, state)
        assert env.action_space.contains(action)
        observation, *_ = env.step(action)
    env.close()
    actions, after = policy.act(np.stack(seen), np.stack(states))
    each = [policy.act(one, own) for one, own in zip(seen, states, strict=True)]
    assert actions.tolist() == [action for action, _ in each]
    np.testing.assert_array_equal(after, np.stack([state for _, state in each]))
    np.testing.assert_array_equal(policy.act(seen[0])[1], after[0], "no state begins an episode")


def test_acting_with_masks_takes_legal_actions_alone(tmp_path: Path) -> None:
    policy = kartrl.load_policy(save_policy(tmp_path, MASKED))
    observation = np.zeros((2, *policy.observation_shape), np.float32)
    for greedy in (True, False):
        actions, _ = policy.act(observation, mask=[np.array([1, 0]), np.array([0, 1])], greedy=greedy)
        assert actions.tolist() == [0, 1]
    with pytest.raises(kartrl.UserError, match="allows no action"):
        policy.act(observation[0], mask=np.array([0, 0]))


@pytest.mark.parametrize(
    ("observation", "state"),
    [
        (np.zeros(3, np.float32), None),
        (np.zeros((0, 4), np.float32), None),
        (np.zeros(4, np.float64), None),
        (np.zeros((2, 4), np.float32), np.zeros(32, np.float32)),
        (np.zeros(4, np.float32), np.zeros(31, np.float32)),
        (np.zeros(4, np.float32), "no numbers"),
        ([[0.0], [0.0, 1.0]], None),
        (None, None),
    ],
)
def test_acting_on_another_shape_is_one_line(tmp_path: Path, observation: Any, state: Any) -> None:
    policy = kartrl.load_policy(save_policy(tmp_path, (*CARTPOLE, "model.core=lstm")))
    with pytest.raises(kartrl.UserError) as refused:
        policy.act(observation, state)
    assert_clear(refused.value)


def test_evaluating_gives_the_episodes_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = save_policy(tmp_path, CARTPOLE)
    assert main(["evaluate", "-p", str(path), "--episodes", "3", "-o", str(tmp_path / "episodes.csv")]) == 0
    (result,) = kartrl.evaluate(kartrl.load_policy(path), episodes=3)
    rows = [row.split(",") for row in (tmp_path / "episodes.csv").read_text().splitlines()[1:]]
    assert [float(row[4]) for row in rows] == [episode.episodic_return for episode in result.episodes]
    with pytest.raises(kartrl.UserError, match="at least 1"):
        kartrl.evaluate(path, episodes=0)


def test_an_environment_is_what_training_has() -> None:
    env = kartrl.make_env(kartrl.read_config(overrides={"environment.id": "kartrl/Snake-v0"}))
    assert ObservationSpec.of(env.observation_space).has_images
    assert isinstance(env.action_space, Discrete)
    env.close()


def test_examples_act_and_evaluate(tmp_path: Path) -> None:
    path = str(save_policy(tmp_path, CARTPOLE))
    assert run_example("act.py", path, cwd=tmp_path).startswith("return ")
    assert run_example("evaluate.py", path, cwd=tmp_path).count("all: ") == 2


def test_config_is_read_from_the_card_of_an_exported_policy(tmp_path: Path) -> None:
    card = tmp_path / "pole.json"
    settings = {"environment.id": "CartPole-v1", "environment.kwargs.sutton_barto_reward": True}
    card.write_text(json.dumps({"environment": {"settings": settings}}))
    config = kartrl.read_config(card, {"run.seed": 3})
    assert (config.environment.id, config.run.seed) == ("CartPole-v1", 3)
    assert config.environment.kwargs == {"sutton_barto_reward": True}
    for wrong in (b"", b"[]", b'{"environment": {"settings": 1}}', b"[" * 10**5, b"\xff", b'{"environment": 1}'):
        card.write_bytes(wrong)
        with pytest.raises(kartrl.UserError, match="not the card of an exported ONNX file") as refused:
            kartrl.read_config(str(card))
        assert_clear(refused.value)
    with pytest.raises(kartrl.UserError, match="cannot read this card"):
        kartrl.read_config(tmp_path / "none.json")
