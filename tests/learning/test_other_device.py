"""Updates on a device other than the CPU, simulated or a GPU: the same numbers, and no operation mixes the two."""

import contextlib

import pytest
import torch
from gpu import GPU
from learners import CASES, NAMES, SETTINGS, noise_of_the_cpu, with_replayed
from other_device import NAME, OtherDevice, There
from trajectories import DISCRETE, random_trajectory

from kartrl.acting.published_weights import PublishedWeights
from kartrl.algorithms import heads_of
from kartrl.config import read
from kartrl.envs.observation_spec import plain
from kartrl.learning.learner import make_learner
from kartrl.models import make_distribution, make_network
from kartrl.models.cores import CORES
from kartrl.models.encoders import ENCODERS
from kartrl.trajectory import Trajectory


@pytest.fixture
def replaced_parameters(device):
    """Parameters of another type cannot be changed in place."""
    torch.__future__.set_overwrite_module_params_on_conversion(device == NAME)
    yield
    torch.__future__.set_overwrite_module_params_on_conversion(False)


def exists(device):
    """Context manager: the device can be used."""
    return OtherDevice() if device == NAME else contextlib.nullcontext()


def of_device(device, tensor):
    """Whether a tensor lies there."""
    return isinstance(tensor, There) if device == NAME else tensor.device.type == device


def test_the_simulated_device_refuses_what_a_gpu_refuses():
    with OtherDevice():
        numbers = torch.arange(6.0).view(2, 3).to(NAME)
        assert isinstance(numbers, There)
        order = torch.tensor([1, 0])
        assert numbers[order][0].tolist() == [3.0, 4.0, 5.0], "indexing takes the CPU's indices"
        with pytest.raises(RuntimeError, match="same device"):
            numbers.index_select(0, order)
        with pytest.raises(RuntimeError, match="same device"):
            numbers + torch.ones(3)
        assert float((numbers * torch.tensor(2.0)).sum()) == 30.0, "as numbers, the CPU's are taken"
        numbers[0] = 7.0
        assert numbers.cpu().tolist() == [[7.0] * 3, [3.0, 4.0, 5.0]]


@pytest.mark.usefixtures("replaced_parameters", "exact_products")
@pytest.mark.parametrize("device", [NAME, GPU])
@pytest.mark.parametrize(("algorithm", "action", "settings"), CASES, ids=NAMES)
def test_an_update_is_the_same_on_another_device(algorithm, action, settings, device):
    overrides = [f"algorithm.name={algorithm}", "model.hidden_size=8", *SETTINGS[settings]]
    config = read(overrides=overrides)
    trajectory = with_replayed(random_trajectory(action, size=5, dtype=torch.float32), settings)
    results = []
    for place in ("cpu", device):
        torch.manual_seed(1)
        with exists(device):
            network = make_network(config.model, plain(3), action, heads_of(config)).to(place)
            learner = make_learner(config, network, action)
            learner.algorithm.distribution.noise = noise_of_the_cpu(learner.algorithm.distribution)
            moved = Trajectory(*(tensor.to(place) for tensor in trajectory))
            torch.manual_seed(2)
            update = learner.update(moved, int(trajectory.valid.sum()), 0.0, lambda stage: None, probe=True)
            results.append((update.scalars(), {name: tensor.cpu() for name, tensor in network.state_dict().items()}))
    assert update.finite
    assert all(of_device(device, parameter) for parameter in network.parameters())
    (scalars, network), (others, other) = results
    assert scalars == pytest.approx(others, rel=1e-3, abs=1e-5, nan_ok=True)
    for name, tensor in network.items():
        torch.testing.assert_close(other[name], tensor, rtol=1e-3, atol=1e-5)


@pytest.mark.usefixtures("replaced_parameters", "exact_products")
@pytest.mark.parametrize("device", [NAME, GPU])
@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("encoder", ENCODERS)
def test_image_unrolls_are_the_same_on_another_device(encoder, core, device):
    overrides = ["model.hidden_size=8", f"model.encoder={encoder}", f"model.core={core}"]
    config, distribution = read(overrides=overrides), make_distribution(DISCRETE)
    torch.manual_seed(3)
    observation = torch.randint(256, (4, 2, 84, 84, 2), dtype=torch.uint8)
    first, noise = torch.rand(4, 2) < 0.3, distribution.noise(2, torch.device("cpu"), None)
    results = []
    for place in ("cpu", device):
        torch.manual_seed(1)
        with exists(device):
            network = make_network(config.model, plain(84, 84, 2), DISCRETE).to(place)
            acting = make_network(config.model, plain(84, 84, 2), DISCRETE).to(place)
            published = PublishedWeights(network)
            output, _ = network(observation.to(place), first.to(place), network.initial_state(2))
            (output.policy.mean() + output.value.mean()).backward()
            with torch.no_grad():
                for parameter in network.parameters():
                    parameter -= 0.1 * parameter.grad
            published.publish()
            published.fetch(acting, 0)
            step = observation[0].to(place), first[0].to(place), acting.initial_state(2), noise.to(place), False
            decision, state = acting.act(*step)
            results.append([tensor.detach().cpu() for tensor in (output.policy, output.value, decision, state)])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-3, atol=1e-5)
