"""Encoders and cores of the user's own, named in [model]."""

import copy
import sys
from pathlib import Path

import pytest
import torch
from commands import ROOT, assert_clear, run_example
from torch import nn
from trajectories import DISCRETE, random_trajectory

from kartrl.cli import main
from kartrl.config import read
from kartrl.envs.observation_spec import plain
from kartrl.envs.spec import ActionSpec, Discrete, EnvSpec
from kartrl.errors import UserError
from kartrl.learning import checkpoint
from kartrl.learning.checkpoint import Checkpoint, load_network
from kartrl.learning.counters import Counters
from kartrl.learning.learner import LearnerState, make_learner
from kartrl.learning.update_threads import UpdateThreads
from kartrl.models import make_network
from kartrl.models.mirror_symmetry import symmetry_of

EXAMPLE = ("model.encoder=own_network:make_encoder", "model.core=own_network:make_core")
ACTION = ActionSpec((Discrete((3,)),))


def make_pixels(shape: tuple[int, ...]) -> nn.Module:
    """An encoder that shows what it reads: the largest number, and the first two."""

    class Pixels(nn.Module):
        def forward(self, x):
            assert x.shape[1:] == shape
            return torch.cat([x.flatten(1).amax(1, keepdim=True), x.flatten(1)[:, :2]], 1)

    return Pixels()


def make_wide(shape: tuple[int, ...]) -> nn.Module:
    """Not [B, N]."""
    return nn.Unflatten(1, (2, 2))


def make_stateless(features: int) -> nn.Module:
    """No core."""
    return nn.Linear(features, 4)


def make_nothing(_: object) -> None:
    """No module."""


class Usual(nn.Module):
    """What ordinary layers have: a mask, an index, frozen and unused weights, and a rate that is read as a number."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("keep", torch.tensor([True, False] * 3))
        self.register_buffer("order", torch.arange(6, dtype=torch.int32).flip(0))
        self.backbone, self.layer = nn.Linear(size, 6).requires_grad_(False), nn.Linear(6, 6)
        self.unused = nn.Linear(2, 2)
        self.dropout = nn.Dropout(next(rate.item() for rate in torch.linspace(0, 0.1, 3)))
        self.frequencies = torch.ones(size)  # no buffer

    def forward(self, x):
        x = self.backbone(x * self.frequencies)[:, self.order].masked_fill(~self.keep, 0.0)
        return self.dropout(self.layer(x))


def make_usual(shape: tuple[int, ...]) -> nn.Module:
    return Usual(*shape)


def make_double(shape: tuple[int, ...]) -> nn.Module:
    return nn.Linear(*shape, 4).double()


def make_infinite(shape: tuple[int, ...]) -> nn.Module:
    """With an additive mask, as attention has it."""
    module = nn.Linear(*shape, 4)
    module.register_buffer("mask", torch.full((4, 4), -torch.inf).triu(1))
    return module


def make_extra(shape: tuple[int, ...]) -> nn.Module:
    class Extra(nn.Linear):
        def get_extra_state(self):
            return {"calls": 0}

    return Extra(*shape, 4)


def make_broken(_: object) -> nn.Module:
    """A function that fails."""
    raise ZeroDivisionError


@pytest.fixture(autouse=True)
def _find_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.setenv("KARTRL_IMPORT", "")


def test_own_parts_unroll_as_they_step() -> None:
    torch.manual_seed(0)
    section = read(overrides=[*EXAMPLE, "model.normalise_observations=true"]).model
    network = make_network(section, plain(4), ACTION)
    observation, state = torch.randn(6, 2, 4), torch.randn(2, network.state_size)
    first = torch.tensor([[0, 1], [0, 0], [1, 0], [0, 0], [0, 1], [0, 0]], dtype=torch.bool)
    network.observe(observation.flatten(0, 1))
    output, after = network(observation, first, state)
    assert network.state_size == 24
    for t in range(6):
        policy, value, state = network.step(observation[t], first[t], state)
        torch.testing.assert_close(policy, output.policy[t])
        torch.testing.assert_close(value, output.value[t])
    torch.testing.assert_close(state, after)
    output.value[:-1].sum().backward()
    assert all(parameter.grad is not None for name, parameter in network.named_parameters() if "trunk" in name)


def test_own_encoder_reads_images_of_0_to_1_by_channels() -> None:
    section = read(overrides=["model.encoder=test_own_parts:make_pixels"]).model
    network = make_network(section, plain(6, 5, 3), ACTION)
    image = torch.zeros(1, 6, 5, 3, dtype=torch.uint8)
    image[0, 0, 1, 0] = 255  # row 0, column 1 of the first channel
    assert network.features(image).tolist() == [[1.0, 0.0, 1.0]]


def test_own_parts_have_no_mirror_symmetry() -> None:
    spec = EnvSpec("", plain(6, 6, 3), ACTION, 0.0, (0, 2, 1))
    for parts in (["model.encoder=test_own_parts:make_pixels"], ["model.core=own_network:make_core"]):
        network = make_network(read(overrides=["model.encoder=mlp", *parts]).model, plain(6, 6, 3), ACTION)
        with pytest.raises(UserError, match="your own layers"):
            symmetry_of(network, spec)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("model.encoder=impalla", "module:function"),
        ("model.encoder=nowhere:make", "No module named 'nowhere'"),
        ("model.encoder=test_own_parts:nothing", "defines no such function"),
        ("model.encoder=test_own_parts:run_example", "defines no such function"),
        ("model.encoder=test_own_parts:make_nothing", "returned NoneType"),
        ("model.encoder=test_own_parts:make_broken", "ZeroDivisionError"),
        ("model.encoder=test_own_parts:make_wide", "must return float32 [2, N]"),
        ("model.core=test_own_parts:make_stateless", "state_size"),
        ("model.encoder=test_own_parts:make_double", "its weight is float64; checkpoints keep float32"),
        ("model.encoder=test_own_parts:make_infinite", "its mask is not finite; register a mask as bool"),
        ("model.encoder=test_own_parts:make_extra", "its _extra_state is dict"),
    ],
)
def test_own_parts_that_do_not_fit_are_one_line(override: str, words: str) -> None:
    with pytest.raises(UserError) as refused:
        make_network(read(overrides=[override]).model, plain(4), ACTION)
    assert words in str(refused.value)
    assert_clear(refused.value)


@pytest.mark.parametrize(("optimizer", "threads"), [("adam", 1), ("rmsprop", 2)])
def test_own_network_of_usual_layers_is_saved_and_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, optimizer: str, threads: int
) -> None:
    """Frozen and unused weights have no gradient, and no state in the optimizer."""
    monkeypatch.setenv("KARTRL_IMPORT", "test_own_parts")
    overrides = ["model.encoder=test_own_parts:make_usual", "algorithm.name=impala", f"optimizer.name={optimizer}"]
    config = read(overrides=overrides)
    network = make_network(config.model, plain(3), DISCRETE)
    learner = make_learner(config, network, DISCRETE, threads=UpdateThreads(threads))
    before = copy.deepcopy(network.state_dict())
    trajectory = random_trajectory(DISCRETE, size=64, dtype=torch.float32)  # in several parts
    learner.update(trajectory, int(trajectory.valid.sum()), 0.0, lambda stage: None)
    moved = {name for name, weights in network.state_dict().items() if not weights.equal(before[name])}
    assert {name.partition("module.")[2] for name in moved if "encoder" in name} == {"layer.weight", "layer.bias"}
    state, path = learner.state(), tmp_path / "own.pt"
    counters = Counters(100, 1, 1, 2.0, 0.1)
    checkpoint.save(path, Checkpoint(config, state.network, state.optimizer, counters, plain(3), DISCRETE))
    loaded = checkpoint.load(path)
    seen = torch.randn(2, 3)
    assert load_network(loaded, torch.device("cpu")).features(seen).equal(network.eval().features(seen))
    make_learner(config, network, DISCRETE).load_state(LearnerState(loaded.network, loaded.optimizer, {}))


def test_own_network_trains_and_is_loaded_only_if_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_example("own_network.py", cwd=tmp_path).startswith("state of 24, lengths [")
    (run,) = (tmp_path / "logs").iterdir()
    sys.modules.pop("own_network", None)
    assert main(["evaluate", "-p", str(run)]) == 2
    error = capsys.readouterr().err
    assert error.endswith("export KARTRL_IMPORT=own_network\n")
    assert "own_network" not in sys.modules, "nothing of it has run"
    monkeypatch.setenv("KARTRL_IMPORT", "own_network")
    assert main(["evaluate", "-p", str(run), "--episodes", "1"]) == 0
