"""Running normalisation of observations."""

import torch
from torch import Tensor, nn

EPSILON = 1e-8
PIXEL_EPSILON = 1 / 255**2  # so that a deviation of one level or less is not magnified much


class RunningNormaliser(nn.Module):
    """Shifts and scales each dimension to mean 0 and variance 1 over all observations passed to `update`.

    Only `update` changes the statistics; in evaluation they are frozen. Before the first update, values are only
    clipped. Everything is float32, as MPS has no float64; `mean_rest` holds the mean's rounding error, so that the mean
    still moves after billions of observations.
    """

    bound = 10.0  # standard deviations to which values are clipped
    mean: Tensor  # float32 [...]
    mean_rest: Tensor  # float32 [...]; mean + mean_rest is the mean
    var: Tensor  # float32 [...], population variance: divided by count
    count: Tensor  # int64 []

    def __init__(self, shape: tuple[int, ...], epsilon: float = EPSILON) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("mean_rest", torch.zeros(shape))
        self.register_buffer("var", torch.ones(shape))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        """Observations float32 [N, ...], normalised and clipped to +-10, float32 [N, ...]."""
        return ((x - self.mean - self.mean_rest) * (self.var + self.epsilon).rsqrt()).clamp(-self.bound, self.bound)

    def update(self, x: Tensor) -> None:
        """Add observations, finite float32 [N, ...], from any device, by Chan's formula; if N is 0, nothing changes."""
        x = x.to(self.mean.device)
        number = x.shape[0]
        if number == 0:
            return
        with torch.no_grad():
            first = x[0]  # sums of differences from it keep their precision despite a large offset
            shift = (x - first).mean(0)
            var = (x - first - shift).square().mean(0)
            delta = (first - self.mean - self.mean_rest) + shift
            self.count += number
            weight = number / self.count.to(torch.float32)
            self.var.copy_(self.var * (1 - weight) + var * weight + delta.square() * (weight * (1 - weight)))
            rest = self.mean_rest + delta * weight
            mean = self.mean + rest
            self.mean_rest.copy_(rest - (mean - self.mean))
            self.mean.copy_(mean)


class PixelNormaliser(RunningNormaliser):
    """The same for pixels of 0 to 255, of which `update` takes a 255th; in place and in their precision, for speed.

    What never changes, such as a background, becomes 0, and what is rarely there, such as a ball, as far from 0 as the
    bound allows.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__(shape, PIXEL_EPSILON)

    def forward(self, x: Tensor) -> Tensor:
        """Images [N, H, W, C] of 0 to 255, normalised in place and in their own precision, times 255."""
        factor = (self.var + self.epsilon).rsqrt()
        mean = (255.0 * self.mean).round()  # exact in bfloat16, whose rounding could exceed the deviation
        x = x.sub_(mean.to(x.dtype)).mul_(factor.to(x.dtype))
        return x.clamp_(-255.0 * self.bound, 255.0 * self.bound)
