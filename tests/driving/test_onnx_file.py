"""`kartrl export --onnx`: files that onnxruntime runs without kartrl."""

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from commands import ROOT, assert_clear, run_example
from needs import needs_kart
from policies import CARTPOLE, save_policy

import kartrl
from kartrl.cli import main
from kartrl.commands.shared.policy import SHIPPED

PACKED = ("environment.id=parts_zoo:Signals-v0", "model.core=lstm", "model.critic=separate")
KINDS = ("environment.id=many_kinds:Kinds-v0", "model.core=gru", "model.normalise_observations=true")
DTYPES = {"tensor(float)": "float32", "tensor(uint8)": "uint8", "tensor(int8)": "int8", "tensor(int64)": "int64"}


def exported(folder: Path, policy: Path, *options: str) -> tuple[onnxruntime.InferenceSession, dict]:
    """The file's session and its card."""
    output = folder / "policy.onnx"
    assert main(["export", str(policy), "--onnx", "-o", str(output), *options]) == 0
    assert sorted(file.name for file in folder.iterdir() if file.is_file()) == ["policy.json", "policy.onnx"]
    return onnxruntime.InferenceSession(output), json.loads(output.with_suffix(".json").read_text())


@pytest.mark.parametrize(
    ("overrides", "inputs"),
    [
        (
            PACKED,
            [f"observation.{part}" for part in ("cameras.0", "cameras.1", "gear", "state.speed")] + ["state"],
        ),
        (KINDS, ["observation.place", "observation.speed", "observation.wind", "state", "mask"]),
        (CARTPOLE, ["observation"]),
    ],
)
def test_onnx_file_equals_its_policy_and_its_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overrides: tuple[str, ...], inputs: list[str]
) -> None:
    monkeypatch.setenv("KARTRL_IMPORT", "parts_zoo,many_kinds")
    policy = save_policy(tmp_path / "run", ("model.hidden_size=16", *overrides))
    session, card = exported(tmp_path, policy)
    assert [entry["name"] for entry in card["inputs"]] == inputs
    for entries, nodes in ((card["inputs"], session.get_inputs()), (card["outputs"], session.get_outputs())):
        assert [(entry["name"], entry["shape"], entry["dtype"]) for entry in entries] == [
            (node.name, node.shape, DTYPES[node.type]) for node in nodes
        ]
    equality = card["equality"]
    assert equality["observations"] == 1000
    assert equality["policy_max_difference"] < 1e-4
    assert equality["equal_greedy_actions"] > 0.99


def test_onnx_actions_are_those_of_the_loaded_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KARTRL_IMPORT", "many_kinds")
    path = save_policy(tmp_path / "run", ("model.hidden_size=16", *KINDS))
    session, card = exported(tmp_path, path)
    policy = kartrl.load_policy(path)
    env = kartrl.make_env(kartrl.read_config(overrides=card["environment"]["settings"]))
    observation, info = env.reset(seed=3)
    state, next_state = None, np.zeros((1, policy.state_size), np.float32)
    for _ in range(15):
        mask = info["action_mask"]
        place, speed, wind = np.split(observation, (3, 5))
        given = {"observation.place": place, "observation.speed": speed, "observation.wind": wind}
        own = {name: value[None] for name, value in given.items()} | {"state": next_state}
        own["mask"] = np.concatenate([mask["buttons"], mask["gear"]])[None]
        taken, _, _, next_state = session.run(None, own)
        action, state = policy.act(observation, state, mask=mask)
        np.testing.assert_allclose(taken[0], action, atol=1e-5)
        observation, _, _, _, info = env.step(taken[0])
    env.close()


@needs_kart
def test_onnx_examples_drive_the_kart_and_cartpole(tmp_path: Path) -> None:
    exported(tmp_path, SHIPPED, "-l", "MarioCircuit.Act1")
    driven = run_example("onnx_kart.py", "policy.onnx", "policy.json", "MarioCircuit.Act1", cwd=tmp_path)
    assert float(driven.split()[0]) > 1.0
    assert main(["export", str(save_policy(tmp_path / "run", CARTPOLE)), "--onnx", "-o", str(tmp_path / "pole")]) == 0
    assert run_example("onnx_cartpole.py", "pole.onnx", cwd=tmp_path).startswith("return ")


def test_onnx_examples_are_ten_lines_named_in_the_docs() -> None:
    docs = (ROOT / "docs" / "policies.md").read_text()
    for name in ("onnx_kart.py", "onnx_cartpole.py"):
        code = (ROOT / "examples" / name).read_text().split('"""\n\n', 1)[1]
        assert f"(../examples/{name})" in docs
        assert sum(bool(line) and not line.startswith("import ") for line in code.splitlines()) <= 10


@pytest.mark.parametrize(
    ("options", "words"),
    [(("--half",), "leave out --half"), (("-o", "policy.pt"), "must end in .onnx")],
)
def test_onnx_with_what_does_not_fit_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], words: str
) -> None:
    policy = save_policy(tmp_path / "run", CARTPOLE)
    assert main(["export", str(policy), "--onnx", "-o", str(tmp_path / "policy.onnx"), *options]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert_clear(ValueError(error))
    assert [file.name for file in tmp_path.iterdir()] == ["run"]


def test_onnx_file_that_differs_from_its_policy_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KARTRL_FAULTS", "onnx=0")  # not even rounding
    policy = save_policy(tmp_path / "run", CARTPOLE)
    assert main(["export", str(policy), "--onnx", "-o", str(tmp_path / "policy.onnx")]) == 2
    error = capsys.readouterr().err
    assert "other numbers than the network" in error
    assert_clear(ValueError(error))
    assert [file.name for file in tmp_path.iterdir()] == ["run"]
