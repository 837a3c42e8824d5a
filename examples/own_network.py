"""Train a network with an encoder and a core of one's own, defined here: python examples/own_network.py."""

import torch
from torch import Tensor, nn

import kartrl


def make_encoder(shape: tuple[int, ...]) -> nn.Module:
    """An encoder of vectors: float32 [B, *shape] -> float32 [B, any]."""
    return nn.Sequential(nn.Linear(shape[0], 32), nn.SiLU(), nn.Linear(32, 32), nn.SiLU())


class MinimalGru(nn.Module):
    """A recurrent unit with one gate (arXiv:1603.09420): [B, F], [B, S] -> output [B, any], next state [B, S]."""

    def __init__(self, features: int, size: int) -> None:
        super().__init__()
        self.state_size = size
        self.gate, self.new = nn.Linear(features + size, size), nn.Linear(features + size, size)

    def forward(self, features: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step; kartrl zeroes the state where an episode begins."""
        gate = torch.sigmoid(self.gate(torch.cat([features, state], 1)))
        new = torch.tanh(self.new(torch.cat([features, gate * state], 1)))
        after = (1 - gate) * state + gate * new
        return after, after


def make_core(features: int) -> nn.Module:
    """A core for this many features."""
    return MinimalGru(features, 24)


if __name__ == "__main__":  # kartrl's processes import this file
    parts = {"model.encoder": make_encoder, "model.core": make_core}
    config = kartrl.read_config("cartpole", parts | {"run.agent_steps": 5_000, "evaluation.minutes": 0})
    run = kartrl.train(config, progress=False)
    (result,) = kartrl.evaluate(run.policy(), episodes=5)
    print(f"state of {run.policy().state_size}, lengths {[episode.agent_steps for episode in result.episodes]}")
