"""Networks for packed observations: an encoder a part, in both precisions."""

import pytest
import torch
from trajectories import CONTINUOUS, DISCRETE

from kartrl.config import Model
from kartrl.envs.observation_spec import ObservationPart, ObservationSpec
from kartrl.errors import UserError
from kartrl.models import ActorCritic, for_inference, make_network

SPEC = ObservationSpec.packed(
    [
        ObservationPart("speed", (3,)),
        ObservationPart("camera", (41, 37, 3)),  # rows whose vectors are aligned by padding
        ObservationPart("map", (40, 44, 1)),
        ObservationPart("gear", (2,)),
    ]
)
SMALL = {"hidden_size": 16, "channels": (8,), "kernels": (8,), "strides": (4,)}


def packed(*leading: int) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Random rows uint8 [*leading, N], and their parts."""
    parts = [
        torch.randint(0, 256, (*leading, *part.shape), dtype=torch.uint8)
        if part.is_image
        else torch.randn(*leading, *part.shape)
        for part in SPEC.parts
    ]
    rows = torch.zeros(*leading, SPEC.nbytes, dtype=torch.uint8)
    for part, own, begin in zip(SPEC.parts, parts, SPEC.begins, strict=True):
        rows[..., begin : begin + part.nbytes] = own.contiguous().view(torch.uint8).flatten(len(leading))
    return rows, parts


@pytest.mark.parametrize("encoder", ["convolutional", "impala", "a3g", "mlp"])
def test_features_are_those_of_each_parts_own_encoder(encoder):
    torch.manual_seed(1)
    network = ActorCritic(Model(**SMALL, encoder=encoder), SPEC, DISCRETE)
    rows, parts = packed(5)
    own = [each.encoder(part) for each, part in zip(network.trunk.encoder.parts, parts, strict=True)]
    features = network.features(rows)
    assert features.shape == (5, network.trunk.encoder.features)
    torch.testing.assert_close(features, torch.cat(own, 1), atol=0, rtol=0)


@pytest.mark.parametrize("core", ["none", "lstm", "gru"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("critic", ["shared", "separate"])
def test_acting_network_gives_what_the_learning_one_does(core, precision, critic):
    torch.manual_seed(2)
    section = Model(**SMALL, core=core, precision=precision, critic=critic, normalise_observations=True)
    network = make_network(section, SPEC, CONTINUOUS)
    rows, _ = packed(6, 3)
    network.observe(rows.flatten(0, 1))
    first, state = torch.rand(6, 3) < 0.3, torch.randn(3, network.state_size)
    output, _ = network(rows, first, state)
    acting = for_inference(network)
    for t in range(6):
        policy, value, state = acting.step(rows[t], first[t], state)
        tolerance = {"atol": 0.03, "rtol": 0.03} if precision == "bf16" else {"atol": 1e-5, "rtol": 1e-4}
        torch.testing.assert_close(policy, output.policy[t], **tolerance)
        torch.testing.assert_close(value, output.value[t], **tolerance)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_each_parts_encoder_gets_a_gradient(precision):
    torch.manual_seed(3)
    network = make_network(Model(**SMALL, precision=precision), SPEC, DISCRETE)
    rows, _ = packed(4, 2)
    output, _ = network(rows, torch.zeros(4, 2, dtype=torch.bool), network.initial_state(2))
    (output.policy[:-1].square().sum() + output.value[:-1].square().sum()).backward()
    assert all(parameter.grad.abs().sum() > 0 for name, parameter in network.named_parameters() if "weight" in name)


def test_running_statistics_are_of_each_part():
    torch.manual_seed(4)
    network = ActorCritic(Model(**SMALL, normalise_observations=True), SPEC, DISCRETE)
    rows, parts = packed(50)
    network.observe(rows)
    for each, part in zip(network.trunk.encoder.parts, parts, strict=True):
        values = part.float() / 255 if part.dtype == torch.uint8 else part
        torch.testing.assert_close(each.encoder.normaliser.mean, values.mean(0), atol=1e-5, rtol=1e-4)


def test_an_image_that_is_too_small_is_named():
    spec = ObservationSpec.packed([ObservationPart("wide", (40, 40, 1)), ObservationPart("tiny", (10, 10, 1))])
    with pytest.raises(UserError, match=r"do not fit an image of 10x10 \(at tiny\)"):
        make_network(Model(), spec, DISCRETE)
