"""The network: unroll against steps, resets in an unroll, decisions, precision."""

import multiprocessing
from typing import get_args

import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete
from torch.nn import functional
from trajectories import ACTIONS, CONTINUOUS, DISCRETE, kind

from kartrl.acting.messages import Requests
from kartrl.acting.predictor import group_states, make_policy
from kartrl.acting.published_weights import PublishedWeights
from kartrl.acting.slab import Slab, SlabShape
from kartrl.config import Model, read
from kartrl.envs.observation_spec import plain
from kartrl.envs.spec import ActionSpec
from kartrl.errors import UserError
from kartrl.learning.learner import make_learner
from kartrl.models import VALUE, ActorCritic, for_inference, make_distribution, make_network
from kartrl.models.cores import CORES
from kartrl.models.encoders import ENCODERS, Convolution
from kartrl.trajectory import decision_size, split_decision

SHAPES = {"image": (54, 54, 1), "stacked": (84, 84, 4), "vector": (4,)}
by_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
by_core = pytest.mark.parametrize("core", CORES)
by_kind = pytest.mark.parametrize("action", ACTIONS, ids=kind)
CPU = torch.device("cpu")


def observations(shape, *leading):
    if len(shape) == 3:
        return torch.randint(0, 256, (*leading, *shape), dtype=torch.uint8)
    return torch.randn(*leading, *shape)


@by_core
@by_shape
def test_an_unroll_equals_its_steps(shape, core):
    torch.manual_seed(0)
    network = make_network(Model(hidden_size=32, core=core), plain(*shape), DISCRETE)
    observation, first = observations(shape, 7, 3), torch.rand(7, 3) < 0.3
    state = torch.randn(3, network.state_size)
    output, last = network(observation, first, state)
    assert output.policy.shape == (7, 3, 4)
    assert output.value.shape == (7, 3)
    for t in range(7):
        policy, value, state = network.step(observation[t], first[t], state)
        torch.testing.assert_close(policy, output.policy[t], atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(value, output.value[t], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(state, last, atol=1e-5, rtol=1e-4)


@by_core
def test_q_head_value_is_the_mean_of_q_under_the_policy(core):
    torch.manual_seed(3)
    section = Model(hidden_size=16, core=core)
    network = make_network(section, plain(4), DISCRETE, frozenset({"q"}))
    observation, first = torch.randn(5, 3, 4), torch.rand(5, 3) < 0.3
    state = torch.randn(3, network.state_size)
    output, _ = network(observation, first, state)
    assert output.q.shape == (5, 3, 4)
    torch.testing.assert_close(output.value, (output.policy.exp() * output.q).sum(2))
    noise = make_distribution(DISCRETE).noise(3, CPU, torch.Generator())
    decision = split_decision(network.act(observation[0], first[0], state, noise, False)[0], 1)
    torch.testing.assert_close(decision.value, output.value[0], atol=1e-5, rtol=1e-4)
    (output.q[:-1].sum() + output.value[:-1].square().sum()).backward()
    assert all(parameter.grad is None for name, parameter in network.named_parameters() if name.startswith("policy"))


@by_kind
def test_without_that_head_there_is_none(action):
    network = make_network(Model(hidden_size=8), plain(4), action)
    output, _ = network(torch.randn(3, 2, 4), torch.zeros(3, 2, dtype=torch.bool), network.initial_state(2))
    assert output.q is None
    assert output.features is None
    assert network.value.weight.shape == (1, 8)


@pytest.mark.parametrize("critic", ["shared", "detached", "separate"])
def test_continuous_advantages_take_actions_as_the_env_does(critic):
    torch.manual_seed(3)
    section = Model(hidden_size=16, critic=critic)
    network = make_network(section, plain(4), CONTINUOUS, frozenset({"q"}))
    output, _ = network(torch.randn(5, 3, 4), torch.zeros(5, 3, dtype=torch.bool), network.initial_state(3))
    assert output.q is None
    assert output.value.shape == (5, 3)
    action = 2 * torch.randn(7, 5, 3, 2)
    advantages = network.advantages(output.features, action)
    head = network.advantage
    for n in range(7):
        inputs = torch.cat([output.features, action[n].clamp(-1, 1)], 2)
        torch.testing.assert_close(advantages[n], head.last(head.hidden(inputs).relu()).squeeze(2))
    advantages[:, :-1].sum().backward()
    gradients = {name: parameter.grad for name, parameter in network.named_parameters()}
    reached = {name.split(".")[0] for name, gradient in gradients.items() if gradient is not None and gradient.any()}
    assert reached == {"advantage"} | {"shared": {"trunk"}, "detached": set(), "separate": {"critic"}}[critic]


def test_the_recurrent_core_is_torchs_lstm():
    torch.manual_seed(1)
    network = ActorCritic(Model(hidden_size=16, core="lstm"), plain(4), DISCRETE)
    observation, state = torch.randn(5, 2, 4), torch.randn(2, 32)
    _, after = network(observation, torch.zeros(5, 2, dtype=torch.bool), state)
    halves = (state[None, :, :16].contiguous(), state[None, :, 16:].contiguous())
    _, (output, cell) = network.trunk.core.lstm(network.trunk.encoder(observation.flatten(0, 1)).view(5, 2, 16), halves)
    torch.testing.assert_close(after, torch.cat([output, cell], 2)[0])


def test_the_gated_core_is_torchs_gru():
    torch.manual_seed(1)
    network = ActorCritic(Model(hidden_size=16, core="gru"), plain(4), DISCRETE)
    observation, state = torch.randn(5, 2, 4), torch.randn(2, 16)
    _, after = network(observation, torch.zeros(5, 2, dtype=torch.bool), state)
    features = network.trunk.encoder(observation.flatten(0, 1)).view(5, 2, 16)
    torch.testing.assert_close(after, network.trunk.core.gru(features, state[None])[1][0])


@pytest.mark.parametrize("core", ["lstm", "gru"])
@pytest.mark.parametrize("critic", ["shared", "separate"])
def test_a_reset_forgets_and_stops_the_gradient(core, critic):
    torch.manual_seed(2)
    network = make_network(Model(hidden_size=16, core=core, critic=critic), plain(4), DISCRETE)
    observation = torch.randn(6, 1, 4, requires_grad=True)
    first = torch.zeros(6, 1, dtype=torch.bool)
    first[3] = True
    state = torch.randn(1, network.state_size)
    value = network(observation, first, state)[0].value
    fresh = network(observation[3:], torch.zeros(3, 1, dtype=torch.bool), network.initial_state(1))[0].value
    torch.testing.assert_close(value[3:], fresh)
    value[4].sum().backward()
    assert torch.all(observation.grad[:3] == 0)
    assert torch.any(observation.grad[3] != 0)


@pytest.mark.parametrize("core", ["lstm", "gru"])
def test_disabled_bptt_stops_gradients_but_not_outputs(core):
    first = torch.zeros(6, 2, dtype=torch.bool)
    first[3, 0] = True
    said, reach = [], []
    for bptt in (True, False):
        torch.manual_seed(2)
        section = Model(hidden_size=16, core=core, bptt=bptt)
        network = make_network(section, plain(4), DISCRETE)
        observation, state = torch.randn(6, 2, 4, requires_grad=True), torch.randn(2, network.state_size)
        output, after = network(observation, first, state)
        steps = [torch.autograd.grad(output.value[t, 1], observation, retain_graph=True)[0] for t in range(5)]
        said.append([output.policy, output.value, after])
        reach.append(torch.stack(steps).abs().sum(3)[:, :, 1] > 0)  # [by step, of step]
    for one, other in zip(*said, strict=True):
        torch.testing.assert_close(one, other)
    assert torch.equal(reach[0], torch.ones(5, 6).tril() > 0)
    assert torch.equal(reach[1], torch.eye(6, dtype=torch.bool)[:5])


@by_kind
def test_gradients_equal_those_of_single_steps_but_for_the_last(action):
    torch.manual_seed(3)
    network = make_network(Model(hidden_size=16, core="lstm"), plain(54, 54, 1), action)
    observation, first = observations((54, 54, 1), 5, 2), torch.rand(5, 2) < 0.3
    weight = torch.randn(4, 2, make_distribution(action).parameter_size)

    def gradient(policy):
        network.zero_grad()
        (torch.stack(list(policy))[:4] * weight).sum().backward()
        return {
            name: parameter.grad.clone() for name, parameter in network.named_parameters() if parameter.grad is not None
        }

    state, steps = network.initial_state(2), []
    for t in range(5):
        policy, _, state = network.step(observation[t], first[t], state)
        steps.append(policy)
    unroll, _ = network(observation, first, network.initial_state(2))
    slow, fast = gradient(steps), gradient(unroll.policy)
    assert slow.keys() == fast.keys()
    for name, value in slow.items():
        torch.testing.assert_close(fast[name], value, atol=1e-5, rtol=1e-3)


@by_kind
@pytest.mark.parametrize("greedy", [False, True])
def test_decision_columns_are_the_networks_outputs(action, greedy):
    torch.manual_seed(4)
    network, distribution = (
        make_network(Model(hidden_size=16, core="lstm"), plain(4), action),
        make_distribution(action),
    )
    observation, first = torch.randn(50, 4), torch.rand(50) < 0.3
    state = torch.randn(50, 32)
    noise = distribution.noise(50, CPU, torch.Generator().manual_seed(0))
    parameters, value, after = network.step(observation, first, state)
    decision, after_too = network.act(observation, first, state, noise, greedy)
    assert decision.shape == (50, decision_size(distribution.action_columns, distribution.parameter_size))
    assert decision.dtype == torch.float32
    parts = split_decision(decision, distribution.action_columns)
    expected = distribution.mode(parameters) if greedy else distribution.sample(parameters, noise)
    torch.testing.assert_close(parts.action, expected, rtol=0, atol=0)
    torch.testing.assert_close(parts.log_prob, distribution.log_prob(parameters, expected))
    torch.testing.assert_close(parts.value, value)
    torch.testing.assert_close(parts.parameters, parameters)
    torch.testing.assert_close(after_too, after)


def test_learners_give_squashed_actions_their_acting_density():
    torch.manual_seed(4)
    config = read(overrides=["model.hidden_size=16", "model.squash_actions=true"])
    network = make_network(config.model, plain(4), CONTINUOUS)
    with torch.no_grad():
        network.policy.bias.copy_(torch.tensor([2.0, -4.0, 0.0, 1.0]))
    observation, first = torch.randn(200, 4), torch.ones(200, dtype=torch.bool)
    distribution = make_learner(config, network, CONTINUOUS).algorithm.distribution
    noise = distribution.noise(200, CPU, torch.Generator().manual_seed(0))
    with torch.no_grad():
        decision = split_decision(network.act(observation, first, network.initial_state(200), noise, False)[0], 2)
    assert decision.action.abs().max() <= 1
    assert CONTINUOUS.taken(decision.action.numpy()).max() <= 1
    assert (decision.action.abs() > 0.999).any(), "near the bounds too"
    torch.testing.assert_close(distribution.log_prob(decision.parameters, decision.action), decision.log_prob)


def test_actions_are_samples_of_the_policy():
    torch.manual_seed(4)
    network = make_network(Model(hidden_size=16, core="lstm"), plain(4), ActionSpec.of(Discrete(3)))
    with torch.no_grad():
        network.policy.bias.copy_(torch.tensor([0.0, 1.0, -1.0]))
    observation = torch.randn(1, 4).expand(20_000, 4)
    arguments = (observation, torch.zeros(20_000, dtype=torch.bool), network.initial_state(20_000))
    policy = network.step(*arguments)[0][0].exp()
    decision = split_decision(network.act(*arguments, torch.empty(20_000, 3).exponential_(), False)[0], 1)
    share = torch.bincount(decision.action[:, 0].long(), minlength=3) / 20_000
    torch.testing.assert_close(share, policy, atol=0.015, rtol=0)


@by_core
def test_bf16_is_fp32_but_for_rounding(core):
    torch.manual_seed(5)
    exact = make_network(Model(core=core), plain(54, 54, 1), DISCRETE)
    rounded = make_network(Model(core=core, precision="bf16"), plain(54, 54, 1), DISCRETE)
    rounded.load_state_dict(exact.state_dict())
    predicting = for_inference(rounded)
    arguments = (observations((54, 54, 1), 8), torch.zeros(8, dtype=torch.bool), exact.initial_state(8))
    policy, value, _ = exact.step(*arguments)
    for network in (rounded, predicting):
        near, near_value, _ = network.step(*arguments)
        assert near.dtype == torch.float32
        torch.testing.assert_close(near, policy, atol=2e-3, rtol=0.02)
        torch.testing.assert_close(near_value, value, atol=0.03, rtol=0.02)
    first = torch.zeros(3, 2, dtype=torch.bool)
    output, _ = rounded(observations((54, 54, 1), 3, 2), first, exact.initial_state(2))
    (output.policy.sum() + output.value.sum()).backward()
    assert all(parameter.grad.dtype == torch.float32 for parameter in rounded.parameters())


def test_only_the_copy_that_predicts_is_turned_to_bfloat16():
    network = make_network(Model(precision="bf16", core="lstm"), plain(54, 54, 1), DISCRETE)
    copied = for_inference(network)
    assert {parameter.dtype for parameter in network.parameters()} == {torch.float32}
    types = {name: parameter.dtype for name, parameter in copied.trunk.encoder.named_parameters()}
    scaled = {f"body.convolutions.0.{name}" for name in ("weight", "bias")}  # rounded after they have been scaled
    assert {name for name, dtype in types.items() if dtype == torch.float32} == scaled
    assert set(types.values()) == {torch.float32, torch.bfloat16}
    assert copied.policy.weight.dtype == torch.float32
    with torch.no_grad():
        network.policy.bias.fill_(3.0)
    assert not copied.policy.bias.any(), "its weights are its own"


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("heads", [VALUE, frozenset({"q"})], ids=["value", "q"])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_acting_and_learning_are_equal_bit_for_bit(encoder, heads, precision):
    """In batches of the same shape: of others, the sums of a product may be added in another order."""
    torch.manual_seed(7)
    for shape, core, normalised in (((54, 52, 1), "lstm", True), ((84, 84, 4), "none", False)):
        section = Model(
            encoder=encoder, precision=precision, core=core, hidden_size=32, normalise_observations=normalised
        )
        network = make_network(section, plain(*shape), DISCRETE, heads)
        network.observe(observations(shape, 20))
        weights, acting = PublishedWeights(network), for_inference(network)
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.add_(0.03 * torch.randn_like(parameter))
        weights.publish()
        weights.fetch(acting, 0)
        observation, first, state = observations(shape, 8), torch.rand(8) < 0.5, torch.randn(8, network.state_size)
        decision, after = acting.act(observation, first, state, make_distribution(DISCRETE).noise(8, CPU, None), False)
        acted = split_decision(decision, 1)
        policy, value, learned = network.step(observation, first, state)
        ratio = (make_distribution(DISCRETE).log_prob(policy, acted.action) - acted.log_prob).exp()
        assert ratio.unique().tolist() == [1.0]
        assert torch.equal(policy, acted.parameters)
        assert torch.equal(value, acted.value)
        assert torch.equal(learned, after)


def test_with_an_lstm_the_default_network_is_the_seeds():
    network = make_network(Model(core="lstm"), plain(54, 54, 1), ActionSpec.of(Discrete(6)))
    assert sum(parameter.numel() for parameter in network.parameters()) == 620_631


def test_feed_forward_network_is_that_of_nature():
    section = Model(channels=(32, 64, 64), hidden_size=512, core="none")
    network = make_network(section, plain(84, 84, 4), ActionSpec.of(Discrete(6)))
    assert sum(parameter.numel() for parameter in network.parameters()) == 1_687_719


def parameters(module):
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize("encoder", ["convolutional", "a3c", "nature"])
def test_at_first_networks_see_differences_and_not_brightness(encoder):
    """Filters of a mean other than 0 mostly see brightness, and die together in the first updates."""
    torch.manual_seed(1)
    network = make_network(Model(encoder=encoder, precision="fp32"), plain(54, 52, 3), DISCRETE)
    dark = torch.randint(0, 100, (5, 54, 52, 3), dtype=torch.uint8)
    before, after = network.features(dark), network.features(dark + 150)
    assert before.std() > 0.01
    torch.testing.assert_close(after, before, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("encoder", "hidden_size", "shape", "expected"),
    [
        ("a3c", 256, (84, 84, 4), 4_112 + 8_224 + 2_592 * 256 + 256),
        ("nature", 512, (84, 84, 4), 1_684_128),
        ("a3g", 512, (80, 80, 1), 832 + 25_632 + 32_832 + 36_928),
        # figure 3: 15 convolutions; 72x96 images become 9x12
        ("impala", 256, (72, 96, 3), 448 + 4 * 2_320 + 4_640 + 4 * 9_248 + 5 * 9_248 + 9 * 12 * 32 * 256 + 256),
        ("mlp", 256, (84, 84, 4), 84 * 84 * 4 * 256 + 256 + 256 * 256 + 256),
    ],
)
def test_published_networks_have_their_numbers_of_parameters(encoder, hidden_size, shape, expected):
    section = Model(encoder=encoder, hidden_size=hidden_size, core="lstm")
    network = make_network(section, plain(*shape), ActionSpec.of(Discrete(6)))
    assert parameters(network.trunk.encoder) == expected
    features = 1024 if encoder == "a3g" else hidden_size  # 64 channels of 4x4, without a linear layer
    assert network.trunk.core.lstm.input_size == features
    assert parameters(network.trunk.core) == 4 * hidden_size * (features + hidden_size + 2)


def test_the_deep_network_is_that_of_the_figure():
    """By hand, with the functional forms, in float64."""
    torch.manual_seed(3)
    network = ActorCritic(Model(encoder="impala", hidden_size=16), plain(20, 22, 3), DISCRETE)
    image = observations((20, 22, 3), 2)
    encoder, weights = network.trunk.encoder, list(network.trunk.encoder.double().parameters())
    convolutions = iter(zip(weights[0:30:2], weights[1:30:2], strict=True))

    def convolve(x):
        return functional.conv2d(x, *next(convolutions), padding=1)

    x = image.permute(0, 3, 1, 2).double() / 255
    for _ in range(3):
        x = functional.max_pool2d(convolve(x), 3, 2, 1)
        for _ in range(2):
            x = x + convolve(convolve(x.relu()).relu())
    expected = functional.linear(x.relu().flatten(1), *weights[30:]).relu()
    body = encoder.body(image.permute(0, 3, 1, 2).double())
    torch.testing.assert_close(encoder.linear(body.flatten(1)), expected)


@pytest.mark.parametrize("encoder", ["convolutional", "impala", "mlp"])
def test_pixels_are_normalised_by_their_running_statistics(encoder):
    """By hand in float32; the network that does not normalise sees images that are normalised already."""
    torch.manual_seed(3)
    section = Model(encoder=encoder, hidden_size=16, normalise_observations=True)
    network = ActorCritic(section, plain(40, 40, 2), DISCRETE)
    seen = observations((40, 40, 2), 51) // 4
    seen[:, :20] = 7
    network.observe(seen)
    scaled = seen.double() / 255
    mean = scaled.mean(0) if encoder == "mlp" else (255 * scaled.mean(0)).round() / 255
    image = ((seen[:3].double() / 255 - mean) / (scaled.var(0, unbiased=False) + 1 / 255**2).sqrt()).float()
    assert image[:, :20].abs().max() < 1e-4
    made = network.trunk.encoder
    if encoder == "mlp":
        expected = made.layers(image.flatten(1))
    else:
        expected = made.linear(made.body(255 * image.permute(0, 3, 1, 2)).flatten(1))
    torch.testing.assert_close(made(seen[:3]), expected, atol=1e-3, rtol=1e-3)
    assert not torch.allclose(
        ActorCritic(section, plain(40, 40, 2), DISCRETE).trunk.encoder(seen[:3]), expected, atol=0.1
    )


def test_acting_in_bf16_normalises_pixels_as_learning_does():
    """Of pixels whose deviation is less than bfloat16's rounding of their mean."""
    torch.manual_seed(3)
    section = Model(hidden_size=16, normalise_observations=True, precision="bf16")
    network = make_network(section, plain(40, 40, 2), DISCRETE)
    seen = 150 + observations((40, 40, 2)) // 4 + (torch.rand(200, 40, 40, 2) < 0.45)
    network.observe(seen.byte())
    learning, acting = network.features(seen.byte()), for_inference(network).features(seen.byte())
    assert (learning - acting).abs().mean() < 0.01 * learning.abs().mean()


def test_average_pooling_is_the_mean_for_images_of_any_size():
    torch.manual_seed(3)
    network = ActorCritic(Model(encoder="impala", hidden_size=16, pooling="average"), plain(40, 40, 1), DISCRETE)
    encoder = network.trunk.encoder
    assert encoder.linear.linear.weight.shape == (16, 32)
    image = observations((64, 48, 1), 3)
    expected = encoder.linear(encoder.body(image.permute(0, 3, 1, 2).float()).flatten(2).mean(2))
    torch.testing.assert_close(encoder(image), expected)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("shape", [(4,), (48, 48, 1)])
def test_activation_is_that_of_the_encoders_linear_layers(activation, shape):
    torch.manual_seed(4)
    network = make_network(Model(hidden_size=16, activation=activation), plain(*shape), DISCRETE)
    encoder, function = network.trunk.encoder, getattr(torch, activation)
    x = observations(shape, 3) if len(shape) == 3 else torch.randn(3, *shape)
    if len(shape) == 3:  # convolutions have a ReLU whatever the linear layer has
        body = x.permute(0, 3, 1, 2).float() / 255
        for convolution in encoder.body.convolutions:
            body = torch.nn.functional.conv2d(body, convolution.weight, convolution.bias, convolution.stride).relu()
        expected, layers = body.flatten(1), [encoder.linear]
    else:
        expected, layers = x, list(encoder.layers)
    for layer in layers:
        expected = function(expected @ layer.linear.weight.T + layer.linear.bias)
    torch.testing.assert_close(encoder(x), expected)


@pytest.mark.parametrize("size", [8, 54, 55, 59])
@pytest.mark.parametrize(("channels", "kernel", "stride"), [(1, 8, 4), (3, 8, 4), (4, 4, 2), (2, 3, 3)])
def test_convolution_reading_columns_as_channels_is_the_same(size, channels, kernel, stride):
    torch.manual_seed(9)
    first, other = (Convolution(channels, 5, kernel, stride, image=True) for _ in range(2))
    assert first.columns == stride
    assert Convolution(channels, 5, kernel, stride).columns == 1, "only of an image"
    other.columns = 1
    other.load_state_dict(first.state_dict())
    image = observations((size, size + 1, channels), 3).permute(0, 3, 1, 2).bfloat16()
    ours, theirs = first(image), other(image)
    torch.testing.assert_close(ours, theirs)
    weight = torch.randn_like(theirs)
    for output in (ours, theirs):
        (output * weight).sum().backward()
    torch.testing.assert_close(first.weight.grad, other.weight.grad, rtol=0.02, atol=0.02 * first.weight.grad.std())
    torch.testing.assert_close(first.bias.grad, other.bias.grad)
    assert torch.equal(first(image.float()), other(image.float())), "only in bfloat16"


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("layer_norm", [False, True])
def test_each_encoder_learns_with_all_of_its_parameters(encoder, layer_norm):
    """Some steps on which of two images it sees; nearly the same in bf16."""
    torch.manual_seed(5)
    section = Model(encoder=encoder, hidden_size=16, layer_norm=layer_norm)
    shape = (48, 48, 1)
    network = make_network(section, plain(*shape), DISCRETE)
    images, first = observations(shape, 1, 2), torch.zeros(2, 2, dtype=torch.bool)
    images[0, 0, :24] //= 8
    images[0, 1, 24:] //= 8
    target, state = torch.tensor([-2.0, 2.0]), network.initial_state(2)
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    errors = []
    for _ in range(30):
        output, _ = network(images.expand(2, *images.shape[1:]), first, state)
        error = (output.value[0] - target).square().mean()
        optimizer.zero_grad()
        (error + 1e-3 * output.policy[0, :, 0].sum()).backward()
        assert all(bool(parameter.grad.abs().any()) for parameter in network.parameters())
        optimizer.step()
        errors.append(error.item())
    assert errors[-1] < 0.1 * errors[0]
    rounded = make_network(section.model_copy(update={"precision": "bf16"}), plain(*shape), DISCRETE)
    rounded.load_state_dict(network.state_dict())
    for other in (rounded, for_inference(rounded)):
        value = other.step(images[0], first[0], state)[1]
        torch.testing.assert_close(value, network.step(images[0], first[0], state)[1], atol=0.1, rtol=0.1)


@pytest.mark.parametrize("critic", ["shared", "detached", "separate"])
def test_value_gradient_reaches_only_a_shared_trunk(critic):
    torch.manual_seed(6)
    network = make_network(Model(hidden_size=16, core="gru", critic=critic), plain(4), DISCRETE)
    first = torch.zeros(4, 2, dtype=torch.bool)
    network(torch.randn(4, 2, 4), first, network.initial_state(2))[0].value[:-1].sum().backward()
    reached = [bool(parameter.grad is not None and parameter.grad.any()) for parameter in network.trunk.parameters()]
    assert all(reached) if critic == "shared" else not any(reached)
    others = [bool(parameter.grad.any()) for parameter in network.critic.parameters()]
    assert all(others)
    assert bool(others) is (critic == "separate")


def test_a_free_deviation_is_the_same_everywhere_and_learned():
    torch.manual_seed(7)
    network = make_network(Model(hidden_size=16, deviation="free"), plain(4), CONTINUOUS)
    with torch.no_grad():
        network.policy.log_deviation.copy_(torch.tensor([-1.0, 0.5]))
    parameters, _, _ = network.step(torch.randn(5, 4), torch.ones(5, dtype=torch.bool), network.initial_state(5))
    assert torch.equal(parameters[:, 2:], torch.tensor([[-1.0, 0.5]]).expand(5, 2))
    parameters[:, 2:].sum().backward()
    assert network.policy.log_deviation.grad.tolist() == [5.0, 5.0]
    assert make_network(Model(deviation="free"), plain(4), DISCRETE).policy.weight.shape == (4, 256)


@by_kind
def test_new_unit_of_returns_leaves_predicted_returns(action):
    torch.manual_seed(8)
    section = Model(hidden_size=16, normalise_returns=True)
    network = make_network(section, plain(4), action, frozenset({"q"}))
    arguments = torch.randn(5, 4), torch.ones(5, dtype=torch.bool), network.initial_state(5)

    @torch.no_grad()
    def said():
        observation, first, state = arguments
        output, _ = network(observation.expand(2, 5, 4), first.expand(2, 5), state)
        if action is DISCRETE:
            return torch.stack([output.value[0], output.q.sum(2)[0]])
        drawn = torch.full((1, 2, 5, action.columns), 0.5)
        return torch.stack([output.value[0], network.advantages(output.features, drawn)[0, 0]])

    assert float(network.return_deviation()) == pytest.approx(1.0)
    returns = []
    for size in (100, 3, 50):
        deviation = float(network.return_deviation())
        before = said() * deviation
        returns.append(torch.randn(size) * 30 + 100)
        network.observe_returns(returns[-1] / deviation, deviation)
        expected = float(torch.cat(returns).double().var(correction=0).sqrt())
        assert float(network.return_deviation()) == pytest.approx(expected, rel=1e-4)
        torch.testing.assert_close(said() * network.return_deviation(), before)


def test_every_name_in_the_configuration_is_in_a_table():
    for key, table in (("encoder", ENCODERS), ("core", CORES)):
        names, _ = get_args(Model.model_fields[key].annotation)  # or a function of the user's own
        assert set(get_args(names)) == set(table)


def test_convolutions_that_do_not_fit_are_a_clear_error():
    with pytest.raises(UserError, match="do not fit an image of 10x10"):
        make_network(Model(), plain(10, 10, 1), DISCRETE)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(
    ("shape", "action"), [*((shape, DISCRETE) for shape in SHAPES), ("image", CONTINUOUS), ("vector", CONTINUOUS)]
)
def test_predictor_acts_in_every_precision_on_every_observation(shape, precision, action):
    torch.manual_seed(2)
    shape = SHAPES[shape]
    network, distribution = (
        make_network(Model(hidden_size=32, precision=precision, core="lstm"), plain(*shape), action),
        make_distribution(action),
    )
    size = decision_size(distribution.action_columns, distribution.parameter_size)
    dtype = "uint8" if len(shape) == 3 else "float32"
    slab = Slab(multiprocessing.get_context("spawn"), SlabShape(1, 1, 4, 2, 5, shape, dtype, size, network.state_size))
    policy = make_policy(network, distribution, group_states(slab, network), 1, slab, 1)
    zero, observation = np.zeros(1, np.int64), observations(shape, 1, 4).numpy()
    answer, before = policy.act(Requests(zero, zero, zero, zero + 1, observation, np.ones((1, 4), bool)))
    decision = split_decision(torch.from_numpy(answer[0]), distribution.action_columns)
    parameters, value, _ = network.step(
        torch.from_numpy(observation[0]), torch.ones(4, dtype=torch.bool), torch.zeros(4, 64)
    )
    torch.testing.assert_close(decision.parameters, parameters, atol=0.02, rtol=0.02)
    torch.testing.assert_close(decision.value, value, atol=0.03, rtol=0.03)
    torch.testing.assert_close(decision.log_prob, distribution.log_prob(decision.parameters, decision.action))
    assert before.shape == (1, 4, 64)


def test_continuous_head_begins_with_deviation_1():
    network = make_network(Model(hidden_size=16, core="lstm"), plain(4), CONTINUOUS)
    parameters, _, _ = network.step(torch.randn(50, 4), torch.ones(50, dtype=torch.bool), network.initial_state(50))
    torch.testing.assert_close(parameters, torch.zeros(50, 4), atol=0.1, rtol=0)
