"""What `model.precision = auto` comes to."""

import pytest
import torch
from gymnasium.spaces import Discrete

from kartrl.config import read
from kartrl.envs.spec import ActionSpec, EnvSpec
from kartrl.hardware.devices import choose_device
from kartrl.sizing import precision
from kartrl.sizing.precision import resolve_precision

IMAGE = EnvSpec("image", (54, 54, 1), "uint8", ActionSpec.of(Discrete(6)), 1e-3)
VECTOR = EnvSpec("vector", (4,), "float32", ActionSpec.of(Discrete(2)), 1e-3)


def resolved(spec, *overrides):
    return resolve_precision(read(overrides=["system.device=cpu", "model.hidden_size=16", *overrides]), spec)


@pytest.fixture
def measured(monkeypatch):
    """Seconds by precision, on hardware that multiplies bf16."""
    seconds = {"fp32": 1.0, "bf16": 0.5}
    monkeypatch.setattr(precision, "multiplies_bf16", lambda device: True)
    monkeypatch.setattr(precision, "_pass_seconds", lambda config, spec, device: seconds)
    return seconds


def test_bf16_where_it_is_faster(measured):
    config = resolved(IMAGE)
    assert config.model.precision == "bf16"
    measured["bf16"] = 0.99
    assert resolved(IMAGE).model.precision == "fp32", "hardly faster"


def test_fp32_where_the_hardware_cannot_or_the_choice_must_not_depend_on_the_clock(measured, monkeypatch):
    assert resolved(VECTOR).model.precision == "fp32"
    assert resolved(IMAGE, "run.reproducible=true", "evaluation.minutes=0").model.precision == "fp32"
    monkeypatch.setattr(precision, "multiplies_bf16", lambda device: False)
    assert resolved(IMAGE).model.precision == "fp32"


@pytest.mark.parametrize("given", ["fp32", "bf16"])
def test_what_is_given_is_kept(given):
    assert resolved(IMAGE, f"model.precision={given}").model.precision == given


def test_both_precisions_are_really_measured():
    config = read(overrides=["model.hidden_size=16"])
    seconds = precision._pass_seconds(config, IMAGE, choose_device("cpu"))
    assert seconds.keys() == {"fp32", "bf16"}
    assert min(seconds.values()) > 0


def test_the_measurement_is_on_one_thread_and_leaves_their_number_as_it_was(monkeypatch):
    before, during = torch.get_num_threads(), []
    make_pass = precision._make_pass

    def observed(*arguments):
        one = make_pass(*arguments)
        return lambda: (during.append(torch.get_num_threads()), one())

    monkeypatch.setattr(precision, "_make_pass", observed)
    torch.set_num_threads(2)
    try:
        precision._pass_seconds(read(overrides=["model.hidden_size=16"]), IMAGE, choose_device("cpu"))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert set(during) == {1}
    assert len(during) >= 2 * precision.FEWEST_TRIALS
