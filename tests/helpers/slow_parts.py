"""Parts of networks that take long, for tests of where time is spent: on a busy machine, too, more than waiting."""

import time

import torch


class Slow(torch.nn.Linear):
    """An encoder of vectors whose every pass takes a twentieth of a second."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__(*shape, 16)

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        time.sleep(0.05)
        return super().forward(observation)
