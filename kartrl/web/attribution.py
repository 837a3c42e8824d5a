"""Which pixels and numbers of an observation move the network's value and the probability of its action."""

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from torch import Tensor, nn

from kartrl.learning import checkpoint
from kartrl.models import make_distribution
from kartrl.viewer.show import Thought

BLUR = 1.5  # standard deviation, pixels


class Attribution:
    """Gradient times input, of the value and of the log-probability of an action, for a checkpoint's network.

    Args:
        path: the checkpoint.

    Raises:
        UserError: it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        loaded = checkpoint.load(path)
        model = loaded.config.model
        if model.critic == "detached":  # the same weights; what the value sees counts, whatever it has trained
            model = model.model_copy(update={"critic": "shared"})
        config = loaded.config.model_copy(update={"model": model})
        self._network = checkpoint.load_network(loaded._replace(config=config), torch.device("cpu"))
        self._columns = loaded.action.columns
        self._distribution = make_distribution(loaded.action, model.squash_actions)
        self._inputs: list[Tensor] = []
        for parameter in self._network.parameters():
            parameter.requires_grad_(False)
        trunks: list[Any] = [self._network.trunk] + [self._network.critic] * (model.critic == "separate")
        self._parts = len(loaded.observation.parts)
        for trunk in trunks:
            encoders = [part.encoder for part in trunk.encoder.parts] if self._parts > 1 else [trunk.encoder]
            for encoder in encoders:
                encoder.register_forward_pre_hook(self._enter)

    def _enter(self, _: nn.Module, given: tuple[Tensor, ...]) -> Tensor:
        """Make an encoder's input, of any dtype, one that has a gradient; encoders change theirs in place."""
        self._inputs.append(given[0].detach().float().requires_grad_())
        return self._inputs[-1].clone()

    def explain(self, thought: Thought) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each part of the observation, float32 of its shape, what moved the value, and what the action."""
        self._inputs.clear()
        given = torch.from_numpy(thought.observation)[None].clone()
        legal = None if thought.restriction is None else torch.from_numpy(thought.restriction)
        policy, value, _ = self._network.step(given, torch.tensor([thought.first]), thought.memory.cpu().clone(), legal)
        action = torch.from_numpy(thought.decision[None, : self._columns])
        explained = []
        for target in (value, self._distribution.log_prob(policy, action)):
            gradients = torch.autograd.grad(target.sum(), self._inputs, retain_graph=True, allow_unused=True)
            moved = [
                torch.zeros_like(x) if gradient is None else gradient * x.detach()
                for gradient, x in zip(gradients, self._inputs, strict=True)
            ]
            explained.append([sum(moved[part :: self._parts])[0].numpy() for part in range(self._parts)])  # type: ignore[index]
        return [*zip(*explained, strict=True)]


def heat(moved: np.ndarray) -> np.ndarray:
    """Where something moved most, float32 [H, W] of 0 to 1, from an image's attribution [H, W, C]."""
    size = cv2.GaussianBlur(np.abs(moved.sum(2)).astype(np.float32), (0, 0), BLUR)
    return size / max(float(size.max()), 1e-12)


def shares(moved: np.ndarray) -> list[float]:
    """A vector's attribution [D] as shares of its largest, -1 to 1."""
    largest = max(float(np.abs(moved).max()), 1e-12)
    return [round(float(x) / largest, 3) for x in moved.ravel()]
