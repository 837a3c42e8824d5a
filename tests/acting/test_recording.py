"""Recorded programs: every network's decisions, by NumPy alone."""

import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from commands import environment
from trajectories import ACTIONS, CONTINUOUS, DISCRETE, kind

from kartrl.acting import recording
from kartrl.acting.program import Runner, draw
from kartrl.acting.published_weights import published
from kartrl.acting.recording import record
from kartrl.config import Model, read
from kartrl.envs.masks import ILLEGAL
from kartrl.envs.observation_spec import ObservationPart, ObservationSpec, plain
from kartrl.models import VALUE, make_distribution, make_network
from kartrl.models.cores import CORES
from kartrl.models.encoders import ENCODERS
from kartrl.sizing.preloading import preloaded

Q = frozenset({"q"})
B = 3
PACKED = ObservationSpec.packed(
    [ObservationPart("front", (36, 40, 1)), ObservationPart("speed", (5,)), ObservationPart("back", (37, 39, 3))]
)


@pytest.fixture(autouse=True)
def _any_size(monkeypatch):
    monkeypatch.setattr(recording, "MOST_PRODUCTS", 10**12)


def check_alike(section, observation, action, heads=VALUE, tolerance=1e-5):
    """What a program decides, with weights that it has not been recorded with, is what the network does."""
    torch.manual_seed(3)
    network = make_network(section, observation, action, heads)
    (program,) = record(section, observation, action, heads, [B]).values()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.03 * torch.randn_like(parameter))
    seen = seen_in(observation)
    network.observe(seen_in(observation, 20))
    network.eval()
    runner, generator = Runner(program), np.random.default_rng(1)
    runner.load(torch.cat([tensor.detach().flatten() for tensor in published(network)]).numpy())
    state = torch.randn(B, network.state_size)
    for _ in range(3):
        first, noise = torch.rand(B) < 0.5, torch.from_numpy(draw(generator, B, program.noise))
        legal = []
        if action.masked:
            rows = torch.where(torch.rand(B, action.parameter_size) < 0.4, ILLEGAL, 0.0)
            rows[:, [0, 3]] = 0
            legal = [rows]
        arguments = [seen, first, state, noise]
        with torch.no_grad():
            decision, after = network.act(*arguments, False, *legal)
        found, found_after = map(torch.from_numpy, runner(*(tensor.numpy() for tensor in arguments + legal)))
        torch.testing.assert_close(found, decision, atol=tolerance, rtol=tolerance)
        torch.testing.assert_close(found_after, after, atol=tolerance, rtol=tolerance)
        state = after


def seen_in(observation, number=B):
    if observation.dtype == "float32":
        return 1 + 2 * torch.randn(number, *observation.shape)
    seen = torch.randint(0, 256, (number, *observation.shape), dtype=torch.uint8)
    for part, begin in zip(observation.parts, observation.begins, strict=True):
        if not part.is_image:
            seen[:, begin : begin + part.nbytes] = torch.randn(number, *part.shape).view(torch.uint8)
    return seen


@pytest.mark.parametrize("heads", [VALUE, Q], ids=["value", "q"])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_every_encoder_decides_alike_recorded(encoder, heads):
    for shape, core, normalised, norm in (((54, 52, 1), "lstm", True, False), ((84, 84, 4), "none", False, True)):
        settings = {"normalise_observations": normalised, "layer_norm": norm, "hidden_size": 32}
        check_alike(Model(encoder=encoder, core=core, **settings), plain(*shape), DISCRETE, heads)


@pytest.mark.parametrize("critic", ["shared", "detached", "separate"])
@pytest.mark.parametrize("core", CORES)
def test_every_core_and_critic_decides_alike_recorded(core, critic):
    section = Model(hidden_size=16, core=core, critic=critic, activation="tanh", normalise_returns=True)
    check_alike(section, plain(4), DISCRETE)
    check_alike(section.model_copy(update={"normalise_observations": True}), plain(4), CONTINUOUS)


@pytest.mark.parametrize("action", ACTIONS, ids=kind)
def test_all_kinds_of_actions_are_decided_alike_recorded(action):
    for squash, deviation, heads in itertools.product([False, True], ["state", "free"], [VALUE, Q]):
        section = Model(hidden_size=16, squash_actions=squash, deviation=deviation)
        check_alike(section, plain(4), action, heads)


def test_masked_actions_are_decided_alike_recorded():
    from noisy_agents import MASKED

    check_alike(Model(hidden_size=16), plain(4), MASKED)


def test_packed_observations_are_decided_alike_recorded():
    check_alike(Model(hidden_size=16, pooling="average"), PACKED, DISCRETE)
    check_alike(Model(hidden_size=16, normalise_observations=True), PACKED, CONTINUOUS)


def test_network_in_bf16_is_recorded_in_fp32():
    observation, fp32 = plain(54, 54, 1), Model(hidden_size=16, precision="fp32")
    first, second = (
        record(section, observation, DISCRETE, VALUE, [B])[B].operations
        for section in (fp32, fp32.model_copy(update={"precision": "bf16"}))
    )
    assert first == second


def test_noise_of_programs_is_distributed_as_that_of_torch():
    random = np.random.default_rng(5)
    for action in ACTIONS:
        distribution = make_distribution(action)
        ours, theirs = draw(random, 4000, distribution.noises), distribution.noise(4000, torch.device("cpu"), None)
        assert ours.dtype == np.float32
        quantiles = np.linspace(0.1, 0.9, 9)
        found, expected = (np.quantile(each, quantiles, axis=0) for each in (ours, theirs.numpy()))
        np.testing.assert_allclose(found, expected, atol=0.15)


def test_noise_that_would_select_illegal_actions_is_not_drawn():
    """NumPy's exponential numbers are 0 once in 7 million, here after 569,924."""
    assert (np.random.default_rng(2).standard_exponential((570, 1000), np.float32) == 0).sum() == 1
    drawn = draw(np.random.default_rng(2), 570, (("standard_exponential", 1000),))
    distribution = make_distribution(DISCRETE)
    policy = distribution.normalise(torch.tensor([0.0, ILLEGAL, 0.0, 0.0]))
    noise = np.array([[1.0, drawn.min(), 1.0, 1.0]], np.float32)
    assert distribution.sample(policy, torch.from_numpy(noise)).item() != 1


def test_large_network_is_left_to_pytorch(monkeypatch):
    monkeypatch.undo()
    nature = Model(encoder="nature", hidden_size=512)
    assert record(nature, plain(84, 84, 4), DISCRETE, VALUE, [4, 8]) is None
    assert record(Model(), plain(54, 54, 1), DISCRETE, VALUE, [4, 8]) is not None


def test_recording_leaves_the_random_generator_as_it_was():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    record(Model(), plain(4), DISCRETE, VALUE, [4])
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("overrides", "loaded"),
    [
        ([], "own_predictor"),
        (["environment.id=CartPole-v1"], "own_predictor"),
        (["environment.id=ALE/Pong-v5"], "predictor"),
        (["environment.height=84", "environment.width=84", "environment.frame_stack=4"], "predictor"),
        (["model.encoder=impala"], "predictor"),
        (["system.predictors=1"], None),
    ],
)
def test_fork_server_loads_pytorch_only_if_agents_need_it(overrides, loaded):
    assert preloaded(read(overrides=overrides)) == ([] if loaded is None else [f"kartrl.acting.{loaded}"])


def test_agents_with_recorded_networks_load_no_pytorch():
    command = "import sys, kartrl.acting.own_predictor; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", command], env=environment(), timeout=100, check=False).returncode == 0


class Lines(torch.nn.Module):
    """Convolutions along lines, which programs have not."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Conv1d(1, 3, 2)

    def forward(self, x):
        return self.layer(x.unsqueeze(1)).flatten(1)


class Branches(torch.nn.Module):
    def forward(self, x):
        return x if x.mean() > 0 else -x


class Outside(torch.nn.Module):
    def forward(self, x):
        return torch.from_numpy(np.sin(x.detach().numpy()))


class Noisy(torch.nn.Module):
    def forward(self, x):
        return x + torch.randn_like(x)


class Counts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen.add_(1)
        return x * self.seen


class Normed(torch.nn.Sequential):
    def __init__(self):
        super().__init__(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.GELU())


def make_lines(shape):
    return Lines()


def make_branches(shape):
    return Branches()


def make_outside(shape):
    return Outside()


def make_noisy(shape):
    return Noisy()


def make_counts(shape):
    return Counts()


def make_normed(shape):
    return Normed()


def make_plain(shape):
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 8))


@pytest.mark.parametrize("kind", ["lines", "branches", "outside", "noisy", "counts", "normed"])
def test_unrecordable_own_network_is_left_to_pytorch(kind, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    section = Model(encoder=f"test_recording:make_{kind}", hidden_size=8)
    assert record(section, plain(4), DISCRETE, VALUE, [B]) is None


def test_own_network_of_known_operations_decides_alike_recorded(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    check_alike(Model(encoder="test_recording:make_plain", hidden_size=8), plain(4), DISCRETE)
