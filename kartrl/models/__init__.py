"""The networks, as TorchScript modules."""

from kartrl.config import Model
from kartrl.models.actor_critic import ActorCritic
from kartrl.models.scripting import Script, script

__all__ = ["ActorCritic", "Script", "make_model"]


def make_model(section: Model, observation_shape: tuple[int, ...], num_actions: int) -> Script:
    """The scripted actor-critic for these observations ([H, W, C] images or [D] vectors) and actions.

    Raises:
        UserError: the convolutions of `section` do not fit the image.
    """
    return script(ActorCritic(section, observation_shape, num_actions))
