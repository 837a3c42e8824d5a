"""The network: unroll against steps, resets inside an unroll, shapes, and the layout of its parts."""

import multiprocessing

import numpy as np
import pytest
import torch

from kartrl.config import Model
from kartrl.errors import UserError
from kartrl.models import ActorCritic, make_model
from kartrl.runtime.messages import Requests
from kartrl.runtime.predictor_thread import RecurrentStates, make_policy
from kartrl.runtime.slab import Slots

SHAPES = {"image": (54, 54, 1), "stacked": (84, 84, 4), "vector": (4,)}


def observations(shape, *leading):
    if len(shape) == 3:
        return torch.randint(0, 256, (*leading, *shape), dtype=torch.uint8)
    return torch.randn(*leading, *shape)


@pytest.mark.parametrize("core", ["lstm", "none"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_an_unroll_equals_its_steps(shape, core):
    torch.manual_seed(0)
    model = make_model(Model(hidden_size=32, core=core), shape, 5)
    observation, reset = observations(shape, 7, 3), torch.rand(7, 3) < 0.3
    state = torch.randn(3, 64 if core == "lstm" else 0)
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
    observation, state = torch.randn(5, 2, 4), torch.randn(2, 32)
    _, _, after = model(observation, torch.zeros(5, 2, dtype=torch.bool), state)
    halves = (state[None, :, :16].contiguous(), state[None, :, 16:].contiguous())
    _, (output, cell) = model.lstm(model.encoder(observation.flatten(0, 1)).view(5, 2, 16), halves)
    torch.testing.assert_close(after, torch.cat([output, cell], 2)[0])


def test_a_reset_forgets_and_stops_the_gradient():
    torch.manual_seed(2)
    model = make_model(Model(hidden_size=16), (4,), 3)
    observation = torch.randn(6, 1, 4, requires_grad=True)
    reset = torch.zeros(6, 1, dtype=torch.bool)
    reset[3] = True
    state = torch.randn(1, 32)
    logits, _, _ = model(observation, reset, state)
    fresh, _, _ = model(observation[3:], torch.zeros(3, 1, dtype=torch.bool), model.initial_state(1))
    torch.testing.assert_close(logits[3:], fresh)
    logits[4].sum().backward()
    assert torch.all(observation.grad[:3] == 0)
    assert torch.any(observation.grad[3] != 0)


def test_gradients_equal_those_of_single_steps_but_for_the_last():
    torch.manual_seed(3)
    model = make_model(Model(hidden_size=16), (54, 54, 1), 3)
    observation, reset = observations((54, 54, 1), 5, 2), torch.rand(5, 2) < 0.3
    weight = torch.randn(4, 2, 3)

    def gradient(logits):
        model.zero_grad()
        (torch.stack(list(logits))[:4] * weight).sum().backward()
        return {
            name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None
        }

    state, steps = model.initial_state(2), []
    for t in range(5):
        logits, _, state = model.step(observation[t], reset[t], state)
        steps.append(logits)
    unroll, _, _ = model(observation, reset, model.initial_state(2))
    slow, fast = gradient(steps), gradient(unroll)
    assert slow.keys() == fast.keys()
    for name, value in slow.items():
        torch.testing.assert_close(fast[name], value, atol=1e-5, rtol=1e-3)


def test_actions_are_samples_of_the_policy():
    torch.manual_seed(4)
    model = make_model(Model(hidden_size=16), (4,), 3)
    with torch.no_grad():
        model.policy.bias.copy_(torch.tensor([0.0, 1.0, -1.0]))
    observation = torch.randn(1, 4).expand(20_000, 4)
    arguments = (observation, torch.zeros(20_000, dtype=torch.bool), model.initial_state(20_000))
    logits, _, state = model.step(*arguments)
    answer, after = model.act(*arguments, torch.empty(20_000, 3).exponential_())
    policy = logits[0].softmax(0)
    share = torch.bincount(answer[:, 0].long(), minlength=3) / 20_000
    torch.testing.assert_close(share, policy, atol=0.015, rtol=0)
    torch.testing.assert_close(answer[:, 1].exp(), policy[answer[:, 0].long()])
    torch.testing.assert_close(after, state)


@pytest.mark.parametrize("core", ["lstm", "none"])
def test_bf16_is_fp32_but_for_rounding(core):
    torch.manual_seed(5)
    exact = make_model(Model(core=core), (54, 54, 1), 6)
    rounded = make_model(Model(core=core, precision="bf16"), (54, 54, 1), 6)
    rounded.load_state_dict(exact.state_dict())
    predicting = make_model(Model(core=core, precision="bf16"), (54, 54, 1), 6)
    predicting.encoder.to(torch.bfloat16)
    predicting.load_state_dict(exact.state_dict())
    arguments = (observations((54, 54, 1), 8), torch.zeros(8, dtype=torch.bool), exact.initial_state(8))
    logits, baseline, _ = exact.step(*arguments)
    for model in (rounded, predicting):
        near, value, _ = model.step(*arguments)
        assert near.dtype == torch.float32
        torch.testing.assert_close(near, logits, atol=2e-3, rtol=0.02)
        torch.testing.assert_close(value, baseline, atol=0.03, rtol=0.02)
    rounded(observations((54, 54, 1), 3, 2), torch.zeros(3, 2, dtype=torch.bool), exact.initial_state(2))[
        0
    ].sum().backward()
    assert all(parameter.grad is None or parameter.grad.dtype == torch.float32 for parameter in rounded.parameters())


def test_the_default_network_is_the_seeds():
    model = make_model(Model(), (54, 54, 1), 6)
    assert sum(parameter.numel() for parameter in model.parameters()) == 620_631


def test_feed_forward_it_is_the_nature_network():
    section = Model(channels=(32, 64, 64), hidden_size=512, core="none")
    model = make_model(section, (84, 84, 4), 6)
    assert sum(parameter.numel() for parameter in model.parameters()) == 1_687_719


def test_convolutions_that_do_not_fit_are_a_clear_error():
    with pytest.raises(UserError, match="do not fit an image of 10x10"):
        make_model(Model(), (10, 10, 1), 6)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_predictor_acts_in_every_precision_on_every_kind_of_observation(shape, precision):
    torch.manual_seed(2)
    model = make_model(Model(hidden_size=32, precision=precision), shape, 3)
    dtype = "uint8" if len(shape) == 3 else "float32"
    slots = Slots(multiprocessing.get_context("spawn"), 1, 1, 4, 2, 5, shape, dtype)
    policy = make_policy(model, RecurrentStates(slots, model), 1, slots, 1)
    zero, observation = np.zeros(1, np.int64), observations(shape, 1, 4).numpy()
    answer = policy.act(Requests(zero, zero, zero, zero + 1, observation, np.ones((1, 4), bool)))
    logits, _, _ = model.step(torch.from_numpy(observation[0]), torch.ones(4, dtype=torch.bool), torch.zeros(4, 64))
    wanted = logits.log_softmax(1).gather(1, torch.from_numpy(answer[0, :, :1]).long())
    torch.testing.assert_close(torch.from_numpy(answer[0, :, 1:]), wanted, atol=0.02, rtol=0.02)
    assert all(parameter.dtype == torch.float32 for parameter in model.parameters()), (
        "only the copy is turned to bfloat16"
    )
