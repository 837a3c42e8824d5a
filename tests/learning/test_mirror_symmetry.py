"""Networks that treat an image and its mirror image alike, and learners that keep them so."""

from collections.abc import Sequence

import pytest
import torch
from gymnasium.spaces import Discrete
from torch import Tensor
from trajectories import random_trajectory

from kartrl.algorithms import ALGORITHMS, heads_of
from kartrl.config import Config, read
from kartrl.envs.observation_spec import plain
from kartrl.envs.spec import ActionSpec, EnvSpec
from kartrl.errors import UserError
from kartrl.learning.learner import make_learner
from kartrl.learning.optimizers import OPTIMIZERS
from kartrl.models import ActorCritic, make_network
from kartrl.models.mirror_symmetry import MirrorSymmetry, symmetry_of
from kartrl.trajectory import WITHOUT_TIME, Trajectory

ACTION, MIRRORED = ActionSpec.of(Discrete(5)), (0, 2, 1, 4, 3)
SMALL = ("model.channels=4 6", "model.kernels=4 3", "model.strides=2 1", "model.hidden_size=8", "model.precision=fp32")
SHAPE = (10, 12, 2)
# the narrowest that fit
WIDTHS = {"convolutional": 52, "a3c": 52, "nature": 52, "a3g": 56, "impala": 57, "mlp": 13}


def tied_network(config: Config, shape: tuple[int, ...] = SHAPE, axis: int = 1) -> tuple[ActorCritic, MirrorSymmetry]:
    """A symmetric network with random biases."""
    torch.manual_seed(3)
    network = make_network(config.model, plain(*shape), ACTION, heads_of(config))
    symmetry = MirrorSymmetry(network, shape, MIRRORED, axis)
    parameters = [*network.parameters()]
    assert not symmetry.holds(parameters)
    with torch.no_grad():
        for parameter in parameters:
            if parameter.dim() == 1:
                parameter += 0.1 * torch.randn_like(parameter)
    symmetry.tie(parameters)
    assert symmetry.holds(parameters)
    return network, symmetry


def swapped_state(state: Tensor, size: int) -> Tensor:
    """The state [B, S] in the mirror image: both halves of each vector of the core in exchange."""
    return state.unflatten(1, (-1, 2, size // 2)).flip(2).flatten(1) if state.shape[1] else state


def assert_symmetric(network: ActorCritic, shape: tuple[int, ...], size: int, axis: int = 1) -> None:
    """Compare the policy and the values of random unrolls with those of their mirror images."""
    observation = torch.randint(256, (4, 3, *shape), dtype=torch.uint8)
    first = torch.tensor([[False] * 3, [False] * 3, [False, True, False], [False] * 3])
    state = torch.randn_like(network.initial_state(3))
    with torch.no_grad():
        output, after = network(observation, first, state)
        other, mirrored_after = network(observation.flip(2 + axis), first, swapped_state(state, size))
    assert output.policy.std() > 1e-3
    torch.testing.assert_close(other.policy[..., list(MIRRORED)], output.policy, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(other.value, output.value, rtol=1e-4, atol=1e-5)
    if output.q is not None:
        torch.testing.assert_close(other.q[..., list(MIRRORED)], output.q, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(swapped_state(mirrored_after, size), after, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "overrides",
    [
        *([f"model.encoder={encoder}"] for encoder in WIDTHS),
        ["model.core=lstm", "model.critic=separate", "model.pooling=average"],
        ["model.core=gru", "model.layer_norm=true", "model.critic=detached"],
        ["algorithm.name=acer", "model.core=lstm", "model.activation=tanh"],
    ],
    ids=" ".join,
)
def test_tied_networks_mirror_the_policy_and_keep_the_value(overrides: list[str]) -> None:
    config = read(overrides=["model.hidden_size=16", "model.precision=fp32", *overrides])
    side = WIDTHS[config.model.encoder]
    for axis, shape in ((1, (54, side, 3)), (0, (side, 54, 3))):
        network, _ = tied_network(config, shape, axis)
        assert_symmetric(network, shape, 16, axis)


def image_trajectory(config: Config, network: ActorCritic) -> Trajectory[Tensor]:
    """Random unrolls of images, with ends of episodes."""
    batch = random_trajectory(ACTION, 5, state_size=network.state_size, dtype=torch.float32)
    return batch._replace(observation=torch.randint(256, (*batch.first.shape, *SHAPE), dtype=torch.uint8))


def with_mirror_images(batch: Trajectory[Tensor]) -> Trajectory[Tensor]:
    """All unrolls, followed by their mirror images: [T, 2 B, ...]."""
    other = list(MIRRORED)
    action, rest, parameters = batch.decision.split([1, 2, ACTION.choices], 2)
    swapped = torch.tensor(other)[action.long()].to(action.dtype)
    mirrored = batch._replace(
        observation=batch.observation.flip(3),
        initial_state=swapped_state(batch.initial_state, 8),
        decision=torch.cat([swapped, rest, parameters[..., other]], 2),
    )
    axes = [0 if name in WITHOUT_TIME else 1 for name in batch._fields]
    return Trajectory(*(torch.cat(pair, axis) for *pair, axis in zip(batch, mirrored, axes, strict=True)))


@pytest.mark.parametrize("core", ["none", "lstm"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_update_equals_that_of_batch_with_its_mirror_images(algorithm: str, core: str) -> None:
    """SGD, as its steps are linear in the gradients; minibatches hold the whole batch, or they would be others."""
    every = [f"{name}.minibatch_size=1000" for name in ("ppo", "appo")]
    config = read(
        overrides=[*SMALL, *every, f"algorithm.name={algorithm}", f"model.core={core}", "optimizer.name=sgd",
                   "optimizer.learning_rate=0.3", "optimizer.gradient_clip=0"]
    )  # fmt: skip
    results = []
    for doubled in (False, True):
        network, symmetry = tied_network(config)
        before = [parameter.detach().clone() for parameter in network.parameters()]
        torch.manual_seed(4)
        batch = image_trajectory(config, network)
        batch = with_mirror_images(batch) if doubled else batch
        learner = make_learner(config, network, ACTION, symmetry=None if doubled else symmetry)
        assert learner.update(batch, int(batch.valid.sum()), 0.0, lambda stage: None).finite
        results.append([now.detach() - then for now, then in zip(network.parameters(), before, strict=True)])
    alone, together = results
    assert max(float(change.abs().max()) for change in alone) > 1e-3
    for one, other in zip(alone, together, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=2e-6)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_weights_stay_tied_with_any_optimizer(optimizer: str) -> None:
    config = read(overrides=[*SMALL, f"optimizer.name={optimizer}", "optimizer.learning_rate=0.01"])
    network, symmetry = tied_network(config)
    learner = make_learner(config, network, ACTION, symmetry=symmetry)
    for _ in range(3):
        batch = image_trajectory(config, network)
        assert learner.update(batch, int(batch.valid.sum()), 0.0, lambda stage: None).finite
    assert symmetry.holds([*network.parameters()])
    assert_symmetric(network, SHAPE, 8)


@pytest.mark.parametrize("encoder", ["convolutional", "mlp"])
def test_running_means_of_pixels_are_symmetric(encoder: str) -> None:
    config = read(overrides=[*SMALL, "model.normalise_observations=true", f"model.encoder={encoder}"])
    for axis in (0, 1):
        network, symmetry = tied_network(config, axis=axis)
        learner = make_learner(config, network, ACTION, symmetry=symmetry)
        batch = image_trajectory(config, network)
        assert learner.update(batch, int(batch.valid.sum()), 0.0, lambda stage: None).finite
        assert_symmetric(network, SHAPE, 8, axis)


def test_networks_without_symmetry_are_not_mirrored() -> None:
    config = read(overrides=list(SMALL))
    network, symmetry = tied_network(config)
    batch = image_trajectory(config, network)
    make_learner(config, network, ACTION).update(batch, int(batch.valid.sum()), 0.0, lambda stage: None)
    assert not symmetry.holds([*network.parameters()])


@pytest.mark.parametrize(
    ("overrides", "width", "said"),
    [
        (["model.channels=4 5"], 12, "a layer of 5: mirror images need an even number"),
        (["model.hidden_size=7"], 12, "a layer of 7"),
        ([], 13, "kernel 4 and stride 2 leaves 1 of 13 columns out; mirror images need another environment.width"),
        (["model.encoder=impala"], 56, "kernel 3 and stride 2 leaves 1 of 56 columns out"),
    ],
)
def test_networks_that_cannot_be_symmetric_are_refused(overrides: Sequence[str], width: int, said: str) -> None:
    config = read(overrides=[*SMALL, *overrides])
    spec = EnvSpec("images", plain(10, width, 2), ACTION, 0.0, MIRRORED)
    network = make_network(config.model, spec.observation, ACTION)
    assert symmetry_of(network, spec._replace(mirrored=())) is None
    with pytest.raises(UserError, match=said):
        symmetry_of(network, spec)
