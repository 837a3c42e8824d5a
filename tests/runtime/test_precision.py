"""What `model.precision = auto` comes to."""

import pytest

from kartrl.config import read
from kartrl.envs.spec import ActionSpec, EnvSpec
from kartrl.runtime import precision
from kartrl.runtime.devices import choose_device
from kartrl.runtime.precision import resolve_precision

IMAGE = EnvSpec("image", (54, 54, 1), "uint8", ActionSpec("discrete", 6), 1e-3)
VECTOR = EnvSpec("vector", (4,), "float32", ActionSpec("discrete", 2), 1e-3)


def resolved(spec, *overrides):
    return resolve_precision(read(overrides=["system.device=cpu", "model.hidden_size=16", *overrides]), spec)


@pytest.fixture
def measured(monkeypatch):
    """Seconds by precision, on hardware that multiplies bf16."""
    seconds = {"fp32": 1.0, "bf16": 0.5}
    monkeypatch.setattr(precision, "multiplies_bf16", lambda device: True)
    monkeypatch.setattr(precision, "_pass_seconds", lambda config, spec, name, device: seconds[name])
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
    for name in ("fp32", "bf16"):
        assert precision._pass_seconds(config, IMAGE, name, choose_device("cpu")) > 0
