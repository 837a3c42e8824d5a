"""`kartrl export --onnx`: files that onnxruntime runs without kartrl."""

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnxruntime
import pytest
from commands import ROOT, assert_clear, run_example
from needs import needs_kart
from policies import CARTPOLE, save_policy

import kartrl
from kartrl.cli import main
from kartrl.commands.shared.policy import SHIPPED

PACKED = ("model.hidden_size=16", "environment.id=parts_zoo:Signals-v0", "model.core=lstm", "model.critic=separate")
KINDS = (
    *("model.hidden_size=16", "environment.id=many_kinds:Kinds-v0", "model.core=gru"),
    "model.normalise_observations=true",
)
pytestmark = pytest.mark.timeout(300)  # in one worker, which makes each file once
DTYPES = {"tensor(float)": "float32", "tensor(uint8)": "uint8", "tensor(int8)": "int8", "tensor(int64)": "int64"}


class Exported(NamedTuple):
    """The policy, the file's folder, its session, and its card."""

    policy: Path
    folder: Path
    session: onnxruntime.InferenceSession
    card: dict


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Exported]:
    """Exports an untrained policy with these settings, or the shipped one without any; each once."""

    @functools.cache
    def export(*overrides: str) -> Exported:
        folder = tmp_path_factory.mktemp("onnx")
        options = ["--onnx", "-o", str(folder / ("policy" if overrides else "policy.onnx"))]
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("KARTRL_IMPORT", "parts_zoo,many_kinds")
            policy = save_policy(folder / "run", overrides) if overrides else SHIPPED
            levels = [] if overrides else ["-l", "MarioCircuit.Act1"]
            assert main(["export", str(policy), *options, *levels]) == 0
        assert sorted(file.name for file in folder.iterdir() if file.is_file()) == ["policy.json", "policy.onnx"]
        file = folder / "policy.onnx"
        card = json.loads(file.with_suffix(".json").read_text())
        return Exported(policy, folder, onnxruntime.InferenceSession(file), card)

    return export


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
    exported: Callable[..., Exported], overrides: tuple[str, ...], inputs: list[str]
) -> None:
    _, _, session, card = exported(*overrides)
    assert [entry["name"] for entry in card["inputs"]] == inputs
    for entries, nodes in ((card["inputs"], session.get_inputs()), (card["outputs"], session.get_outputs())):
        assert [(entry["name"], entry["shape"], entry["dtype"]) for entry in entries] == [
            (node.name, node.shape, DTYPES[node.type]) for node in nodes
        ]
    equality = card["equality"]
    assert equality["observations"] == 1000
    assert equality["policy_max_difference"] < 1e-4
    assert equality["equal_greedy_actions"] > 0.99


def test_onnx_actions_are_those_of_the_loaded_policy(
    exported: Callable[..., Exported], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KARTRL_IMPORT", "many_kinds")
    path, _, session, card = exported(*KINDS)
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
def test_onnx_examples_drive_the_kart_and_cartpole(exported: Callable[..., Exported]) -> None:
    driven = run_example("onnx_kart.py", "policy.onnx", "policy.json", "MarioCircuit.Act1", cwd=exported().folder)
    assert float(driven.split()[0]) > 1.0
    assert run_example("onnx_cartpole.py", "policy.onnx", cwd=exported(*CARTPOLE).folder).startswith("return ")


def test_onnx_examples_are_ten_lines_named_in_the_docs() -> None:
    docs = (ROOT / "docs" / "policies.md").read_text()
    for name in ("onnx_kart.py", "onnx_cartpole.py"):
        code = (ROOT / "examples" / name).read_text().split('"""\n\n', 1)[1]
        assert f"(../examples/{name})" in docs
        assert sum(bool(line) and not line.startswith("import ") for line in code.splitlines()) <= 10


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--half",), "leave out --half"),
        (("--episodes", "3"), "leave out --episodes"),
        (("-o", "policy.pt"), "must end in .onnx"),
    ],
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
