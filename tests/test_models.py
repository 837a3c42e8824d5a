"""The network: unroll against steps, resets inside an unroll, shapes, and the layout of its parts."""

import pytest
import torch

from kartrl.config import Model
from kartrl.errors import UserError
from kartrl.models import ActorCritic, make_model

SHAPES = {"image": (54, 54, 1), "stacked": (84, 84, 4), "vector": (4,)}


def observations(shape, *leading):
    if len(shape) == 3:
        return torch.randint(0, 256, (*leading, *shape), dtype=torch.uint8)
    return torch.randn(*leading, *shape)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_an_unroll_equals_its_steps(shape):
    torch.manual_seed(0)
    model = make_model(Model(hidden_size=32), shape, 5)
    observation, reset = observations(shape, 7, 3), torch.rand(7, 3) < 0.3
    state = torch.randn(3, 64)
    logits, baseline, last = model(observation, reset, state)
    assert logits.shape == (7, 3, 5)
    assert baseline.shape == (7, 3)
    for t in range(7):
        step_logits, step_baseline, state = model.step(observation[t], reset[t], state)
        torch.testing.assert_close(step_logits, logits[t], atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(step_baseline, baseline[t], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(state, last, atol=1e-5, rtol=1e-4)


def test_the_recurrent_core_is_torchs_lstm():
    torch.manual_seed(1)
    model = ActorCritic(Model(hidden_size=16), (4,), 3)
    observation, state = torch.randn(1, 2, 4), torch.randn(2, 32)
    _, _, after = model(observation, torch.zeros(1, 2, dtype=torch.bool), state)
    output, cell = model.lstm(model.encoder(observation[0]), (state[:, :16].contiguous(), state[:, 16:].contiguous()))
    torch.testing.assert_close(after, torch.cat([output, cell], 1))


def test_a_reset_forgets_and_stops_the_gradient():
    torch.manual_seed(2)
    model = make_model(Model(hidden_size=16), (4,), 3)
    observation = torch.randn(5, 1, 4, requires_grad=True)
    reset = torch.zeros(5, 1, dtype=torch.bool)
    reset[3] = True
    state = torch.randn(1, 32)
    logits, _, _ = model(observation, reset, state)
    fresh, _, _ = model(observation[3:], torch.zeros(2, 1, dtype=torch.bool), model.initial_state(1))
    torch.testing.assert_close(logits[3:], fresh)
    logits[4].sum().backward()
    assert torch.all(observation.grad[:3] == 0)
    assert torch.any(observation.grad[3] != 0)


def test_the_default_network_is_the_seeds():
    model = make_model(Model(), (54, 54, 1), 6)
    assert sum(parameter.numel() for parameter in model.parameters()) == 620_631


def test_convolutions_that_do_not_fit_are_a_clear_error():
    with pytest.raises(UserError, match="do not fit an image of 10x10"):
        make_model(Model(), (10, 10, 1), 6)
