"""What `model.precision = auto` comes to, and that wrong values in bf16 are found wherever bf16 would be taken."""

import pytest
import torch
from commands import EVALUATE_OFF, HELPERS, run
from gymnasium.spaces import Discrete
from torch import nn
from torch.nn import functional

from kartrl.cli import main
from kartrl.config import Model, read
from kartrl.envs.observation_spec import plain
from kartrl.envs.spec import ActionSpec, EnvSpec
from kartrl.hardware.devices import choose_device
from kartrl.learning import checkpoint
from kartrl.models.encoders import ENCODERS
from kartrl.sizing import precision
from kartrl.sizing.auto import choose_sizes
from kartrl.sizing.precision import MOST_NUMBERS, resolve_precision, right_precision, wrong_in_bf16, wrong_layer

IMAGE = EnvSpec("image", plain(54, 54, 1), ActionSpec.of(Discrete(6)), 1e-3)
VECTOR = EnvSpec("vector", plain(4), ActionSpec.of(Discrete(2)), 1e-3)
CPU = torch.device("cpu")


def resolved(spec, *overrides):
    return resolve_precision(read(overrides=["system.device=cpu", "model.hidden_size=16", *overrides]), spec)


@pytest.fixture
def measured(monkeypatch):
    """Seconds by precision, on hardware that multiplies bf16."""
    seconds = {"fp32": 1.0, "bf16": 0.5}
    monkeypatch.setattr(precision, "multiplies_bf16", lambda device: True)
    monkeypatch.setattr(precision, "pass_seconds", lambda config, spec, device: seconds)
    return seconds


def test_bf16_is_chosen_where_faster(measured):
    config = resolved(IMAGE)
    assert config.model.precision == "bf16"
    measured["bf16"] = 0.99
    assert resolved(IMAGE).model.precision == "fp32", "hardly faster"


def test_fp32_is_kept_without_hardware_or_if_reproducible(measured, monkeypatch):
    assert resolved(VECTOR).model.precision == "fp32"
    assert resolved(IMAGE, "run.reproducible=true", "evaluation.minutes=0").model.precision == "fp32"
    monkeypatch.setattr(precision, "multiplies_bf16", lambda device: False)
    assert resolved(IMAGE).model.precision == "fp32"


@pytest.mark.parametrize("given", ["fp32", "bf16"])
def test_given_precision_is_kept(given):
    assert resolved(IMAGE, f"model.precision={given}").model.precision == given


def test_both_precisions_are_really_measured():
    config = read(overrides=["model.hidden_size=16"])
    seconds = precision.pass_seconds(config, IMAGE, choose_device("cpu"))
    assert seconds.keys() == {"fp32", "bf16"}
    assert min(seconds.values()) > 0


def test_measurement_on_one_thread_restores_their_number(monkeypatch):
    before, during = torch.get_num_threads(), []
    make_pass = precision.make_pass

    def observed(*arguments):
        one = make_pass(*arguments)
        return lambda: (during.append(torch.get_num_threads()), one())

    monkeypatch.setattr(precision, "make_pass", observed)
    torch.set_num_threads(2)
    try:
        precision.pass_seconds(read(overrides=["model.hidden_size=16"]), IMAGE, choose_device("cpu"))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert set(during) == {1}
    assert len(during) >= 2 * precision.FEWEST_TRIALS


class Wrong(nn.Conv2d):
    """A convolution in its input's precision; in bf16, `fault` changes its output [N, C, H, W] or a gradient."""

    def __init__(self, fault):
        super().__init__(3, 4, 3)
        self.fault = fault

    def forward(self, x):
        weight, bias = self.weight.to(x.dtype), self.bias.to(x.dtype)
        if x.dtype != torch.bfloat16:
            return functional.conv2d(x, weight, bias)
        return self.fault(x, weight, bias)


class Encoder(nn.Module):
    """A layer for images of H x W x 3, behind a parameter: an image itself needs no gradient."""

    def __init__(self, layer):
        super().__init__()
        self.layer, self.scale = layer, nn.Parameter(torch.ones(()))

    def forward(self, images):
        return self.layer(self.scale * images.permute(0, 3, 1, 2))


def doubled(gradient):
    """A function that doubles the gradient of a tensor."""

    def double(tensor):
        tensor = tensor * 1
        if tensor.requires_grad:
            tensor.register_hook(lambda slope: slope * 2)
        return tensor

    return [double if name == gradient else lambda tensor: tensor for name in ("x", "weight", "bias")]


def with_gradient(name):
    change = doubled(name)
    return lambda *inputs: functional.conv2d(*(one(tensor) for one, tensor in zip(change, inputs, strict=True)))


def output(change):
    return lambda *inputs: change(functional.conv2d(*inputs))


def set_to(value, where):
    def change(made):
        made = made.clone()
        made[where] = value
        return made

    return change


FAULTS = {
    "half of a sum": lambda x, weight, bias: functional.conv2d(x[:, :2], weight[:, :2], bias),
    "a column": output(set_to(0.0, (slice(None), slice(None), slice(None), -1))),
    "one number": output(set_to(9.0, (-1, -1, -1, -1))),
    "infinity": output(set_to(torch.inf, (0, 0, 0, 0))),
    "not a number": output(set_to(torch.nan, (0, 0, 0, 0))),
    "the input's gradient": with_gradient("x"),
    "the weights' gradient": with_gradient("weight"),
    "the bias's gradient": with_gradient("bias"),
    "a batch of 20": lambda x, weight, bias: functional.conv2d(x, weight * (len(x) != 20), bias),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_layer_wrong_in_bf16_is_found(fault):
    found = wrong_layer(Encoder(Wrong(FAULTS[fault])), (6, 7, 3), [1, 4, 20])
    assert "Wrong(3, 4, kernel_size=(3, 3), stride=(1, 1)) on inputs" in found


def test_a_gradient_that_learning_does_not_need_may_be_wrong():
    encoder = Encoder(Wrong(FAULTS["the input's gradient"]))
    encoder.scale.requires_grad_(False)
    assert wrong_layer(encoder, (6, 7, 3), [1, 4]) is None


def test_a_layer_right_in_bf16_passes():
    assert wrong_layer(Encoder(Wrong(functional.conv2d)), (6, 7, 3), [1, 4, 20]) is None


@pytest.mark.parametrize("shape", [(54, 52, 1), (84, 84, 4), (85, 53, 3)])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_right_networks_pass_in_bf16(encoder, shape):
    section = Model(encoder=encoder, precision="bf16", normalise_observations=True, layer_norm=True, pooling="average")
    assert wrong_in_bf16(section, plain(*shape), [1, 16], CPU) is None


def test_large_batches_of_large_layers_are_compared_in_part():
    sizes = []

    def count(*inputs):
        made = functional.conv2d(*inputs)
        sizes.append(made.numel())
        return made

    assert wrong_layer(Encoder(Wrong(count)), (502, 502, 3), [160, 5]) is None
    assert 0.5 * MOST_NUMBERS < max(sizes) <= MOST_NUMBERS


@pytest.fixture
def wrong_torch(monkeypatch):
    """A PyTorch whose convolutions of 16 channels and more are wrong in bf16, as some are on CPUs with AMX."""
    right = functional.conv2d

    def convolve(x, weight, *rest):
        return right(x, weight * 0.5 if x.dtype == torch.bfloat16 and x.shape[1] >= 16 else weight, *rest)

    monkeypatch.setattr(functional, "conv2d", convolve)


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["algorithm.name=ppo", "system.torch_threads=2"],
        ["algorithm.name=a3c", "a3c.hogwild=true"],
        ["system.learners=2", "model.critic=separate", "model.core=lstm"],
        ["algorithm.name=acer", "run.reproducible=true", "evaluation.minutes=0"],
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("wrong_torch")
def test_wrong_bf16_falls_back_and_is_reported_once(overrides):
    lines = []
    config = read(overrides=["system.device=cpu", "model.precision=bf16", *overrides])
    config = right_precision(config, IMAGE, choose_sizes(config, IMAGE), lines.append)
    assert config.model.precision == "fp32"
    (line,) = lines
    assert "bf16" in line
    assert "Convolution(16, 32, kernel_size=(4, 4), stride=(2, 2))" in line
    assert "\n" not in line


@pytest.mark.usefixtures("wrong_torch")
def test_only_networks_that_would_be_wrong_fall_back():
    for spec, *overrides in (
        (IMAGE, "model.precision=fp32"),
        (IMAGE, "model.precision=bf16", "model.encoder=mlp"),
        (IMAGE, "model.precision=bf16", "model.channels=8 8 8"),
        (VECTOR, "model.precision=bf16"),
    ):
        config, lines = read(overrides=["system.device=cpu", *overrides]), []
        assert right_precision(config, spec, choose_sizes(config, spec), lines.append) == config
        assert not lines


def test_batches_of_acting_and_of_learning_are_compared(monkeypatch):
    right, batches = functional.conv2d, set()

    def convolve(x, *rest):
        batches.add((len(x), torch.get_num_threads()))
        return right(x, *rest)

    monkeypatch.setattr(functional, "conv2d", convolve)
    sizes = ["system.agents=3", "system.envs_per_agent=6", "algorithm.unroll_length=20", "appo.minibatch_size=70"]
    config = read(overrides=["system.device=cpu", "model.precision=bf16", "system.torch_threads=2", *sizes])
    assert right_precision(config, IMAGE, choose_sizes(config, IMAGE), print) == config
    assert batches >= {(3, 1), (6, 1)}, "a group, and all of an agent"
    assert batches >= {(160, 2), (8, 2), (70, 2)}, "parts of an update: unrolls, their last steps, and single steps"
    assert torch.get_num_threads() == 1


@pytest.mark.usefixtures("wrong_torch")
def test_doctor_warns_of_wrong_bf16(capsys):
    main(["doctor", "-c", "snake", "--set", "model.precision=bf16", "--set", "system.device=cpu"])
    printed = " ".join(capsys.readouterr().out.split())
    assert "gives wrong values for Convolution(16, 32" in printed


def test_run_with_wrong_bf16_is_in_fp32_and_reported_once(tmp_path):
    small = [
        "model.hidden_size=16",
        "system.agents=1",
        "run.agent_steps=1000",
        "run.name=run",
        "model.precision=bf16",
    ]
    options = [word for item in small for word in ("--set", item)]
    ended = run("train", "-c", "snake", *EVALUATE_OFF, *options, cwd=tmp_path, first=(HELPERS / "wrong_bf16",))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.count("gives wrong values") == 1
    assert "model in fp32" in ended.stdout
    assert read([tmp_path / "logs" / "run" / "config.cfg"]).model.precision == "fp32"
    assert checkpoint.load(tmp_path / "logs" / "run" / "best.pt").config.model.precision == "fp32"
