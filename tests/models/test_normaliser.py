"""The normalisers against NumPy on all data at once."""

import numpy as np
import pytest
import torch
from torch import nn

from kartrl.models.normaliser import PixelNormaliser, RunningNormaliser

OFFSET = np.array([0, 0, -3, 1e4, 5, 1e6, 0])
SPREAD = np.array([1, 0, 20, 1, 0, 50, 1e-3])  # the second and fifth never change


@pytest.fixture
def normaliser() -> nn.Module:
    return RunningNormaliser((len(OFFSET),))


def observations(number: int, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).normal(size=(number, len(OFFSET))) * SPREAD + OFFSET).astype(np.float32)


def mean_of(module: nn.Module) -> np.ndarray:
    return module.mean.double().numpy() + module.mean_rest.double().numpy()


def test_many_updates_are_the_statistics_of_all_data(normaliser):
    data = observations(5000)
    for part in np.split(data, [1, 3, 3, 200, 1999, 2000]):
        normaliser.update(torch.from_numpy(part))
    exact = data.astype(np.float64)
    assert int(normaliser.count) == 5000
    np.testing.assert_allclose(mean_of(normaliser), exact.mean(0), rtol=1e-7, atol=1e-5 * SPREAD.max())
    np.testing.assert_allclose((mean_of(normaliser) - exact.mean(0)) / (SPREAD + 1e-9), 0, atol=2e-4)
    np.testing.assert_allclose(normaliser.var.numpy(), exact.var(0), rtol=1e-4, atol=0)
    assert (normaliser.var.numpy()[SPREAD == 0] == 0).all()
    expected = ((exact - exact.mean(0)) / np.sqrt(exact.var(0) + 1e-8)).clip(-10, 10)
    np.testing.assert_allclose(normaliser(torch.from_numpy(data)).numpy(), expected, atol=2e-3)


def test_normaliser_is_as_exact_as_float64_on_ordinary_numbers(normaliser):
    data = observations(3000)[:, [0, 2]]
    padded = np.zeros((3000, len(OFFSET)), np.float32)
    padded[:, :2] = data
    for part in np.split(padded, 30):
        normaliser.update(torch.from_numpy(part))
    exact = data.astype(np.float64)
    np.testing.assert_allclose(mean_of(normaliser)[:2], exact.mean(0), atol=2e-6)
    np.testing.assert_allclose(normaliser.var.numpy()[:2], exact.var(0), rtol=2e-6)


def test_the_mean_still_moves_after_billions(normaliser):
    """In plain float32 a step of the mean, 1e-7 of its last digit's size, would be lost."""
    normaliser.update(torch.full((10, len(OFFSET)), 1000.0))
    normaliser.count.fill_(10**9)
    for _ in range(1000):
        normaliser.update(torch.full((100, len(OFFSET)), 1010.0))
    np.testing.assert_allclose(mean_of(normaliser) - 1000.0, 10 * 1e5 / (1e9 + 1e5), rtol=1e-3)


def test_before_the_first_update_numbers_are_only_clipped(normaliser):
    normaliser.update(torch.zeros(0, len(OFFSET)))
    x = torch.tensor([-30.0, -2.0, 0.0, 0.5, 3.0, 10.0, 1e9])
    torch.testing.assert_close(normaliser(x), x.clamp(-10, 10))


def test_statistics_change_only_in_update_and_are_in_the_state(normaliser):
    normaliser.update(torch.from_numpy(observations(100)))
    before = {name: tensor.clone() for name, tensor in normaliser.state_dict().items()}
    assert set(before) == {"mean", "mean_rest", "var", "count"}
    x = torch.from_numpy(observations(6, seed=1)).reshape(2, 3, -1)
    seen = normaliser(x)
    assert seen.shape == x.shape
    assert seen.dtype == torch.float32
    for name, tensor in normaliser.state_dict().items():
        assert torch.equal(tensor, before[name])
    assert not list(normaliser.parameters())
    other = RunningNormaliser((len(OFFSET),))
    other.load_state_dict(before)
    torch.testing.assert_close(other(x), seen, rtol=0, atol=0)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 1e-2)])
def test_pixels_are_normalised_in_the_precision_of_the_image(dtype, tolerance):
    """Of three pixels, one never changes, one is rarely set, and one is noise; what is returned is times 255."""
    drawn = np.random.default_rng(0)
    seen = np.full((4000, 1, 3, 1), 87, np.uint8)
    seen[::500, 0, 1] = 236
    seen[:, 0, 2, 0] = drawn.integers(0, 256, 4000)
    module = PixelNormaliser((1, 3, 1))
    x = seen[:501].astype(np.float64)
    torch.testing.assert_close(module(torch.tensor(x).to(dtype)).double(), torch.tensor(x), rtol=1e-2, atol=0)
    for part in np.split(seen, 4):
        module.update(torch.from_numpy(part).float() / 255)
    scaled = seen.astype(np.float64) / 255
    expected = ((x - seen.mean(0).round()) / 255 / np.sqrt(scaled.var(0) + 1 / 255**2)).clip(-10, 10)
    assert expected[1, 0, 0] == pytest.approx(0, abs=1e-9)
    assert expected[0, 0, 1] == 10
    made = module(torch.tensor(x).to(dtype))
    assert made.dtype == dtype
    np.testing.assert_allclose(made.double().numpy() / 255, expected, atol=tolerance, rtol=tolerance)
