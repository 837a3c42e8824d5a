"""Which modules the fork server loads for the agents; this runs before PyTorch is loaded."""

from kartrl.config import Config
from kartrl.config.environment import View
from kartrl.envs.worlds import load_world

LIGHT = 1_000_000  # multiplications of an observation's convolutions: with more, agents run them by PyTorch
IN_PYTORCH = "kartrl.acting.predictor"
PLAIN = View(1, 1, 1, 1, grayscale=True)  # vectors, or images of an unknown size


def preloaded(config: Config, known: bool = True) -> list[str]:
    """Modules for agents that run the network themselves: with PyTorch only if they are likely to need it.

    An agent in which it is missing after all loads it by itself, which takes time and memory.

    Args:
        known: False where most of the configuration is in a checkpoint, which only PyTorch can read.
    """
    if not config.allows_own_networks:
        return []
    if not known:
        return [IN_PYTORCH]
    model, view = config.model, config.environment.view(load_world(config).usual_view or PLAIN)
    height, width, products = view.height, view.width, 0
    inputs = view.frame_stack * (1 if view.grayscale else 3)
    for outputs, kernel, stride in zip(model.channels, model.kernels, model.strides, strict=True):
        height, width = ((size - kernel) // stride + 1 for size in (height, width))
        products += max(0, height) * max(0, width) * outputs * kernel**2 * inputs
        inputs = outputs
    light = model.encoder in ("convolutional", "mlp") and products < LIGHT
    return ["kartrl.acting.own_predictor" if light else IN_PYTORCH]
