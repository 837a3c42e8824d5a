"""Running normalisation of vector observations."""

from typing import Final

import torch
from torch import Tensor, nn

from kartrl.models.scripting import export


class RunningNormaliser(nn.Module):
    """Shifts and scales each of D dimensions to mean 0 and variance 1 over all observations passed to `update`.

    Only `update` changes the statistics; in evaluation they are frozen. Before the first update, values are only
    clipped. Everything is float32, as MPS has no float64; `mean_rest` holds the mean's rounding error, so that the mean
    still moves after billions of observations.
    """

    bound: Final[float] = 10.0  # standard deviations to which values are clipped
    epsilon: Final[float] = 1e-8  # added to the variance, or a constant dimension would be divided by 0
    mean: Tensor  # float32 [D]
    mean_rest: Tensor  # float32 [D]; mean + mean_rest is the mean
    var: Tensor  # float32 [D], population variance: divided by count
    count: Tensor  # int64 []

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("mean_rest", torch.zeros(size))
        self.register_buffer("var", torch.ones(size))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        """Observations float32 [..., D], normalised and clipped to +-10, float32 [..., D]."""
        return ((x - self.mean - self.mean_rest) * (self.var + self.epsilon).rsqrt()).clamp(-self.bound, self.bound)

    @export
    def update(self, x: Tensor) -> None:
        """Add observations, finite float32 [N, D], by Chan's parallel formula; if N is 0, nothing changes."""
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
