"""[environment]: which environment, and how it is seen."""

import re
from collections.abc import Container
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from kartrl.config.section import Actions, Bounds, Section, Words, split_words


def _function(value: str) -> str:
    if value != "none" and re.fullmatch(r"[^\W\d][\w.]*:[^\W\d][\w.]*", value) is None:
        raise ValueError("expected module:function, such as minigrid.wrappers:ImgObsWrapper, or none")
    return value


Auto = Literal["auto"]
LARGEST_IMAGE = 4096  # pixels of a side


class Crop(NamedTuple):
    """The part of an image that is observed; a width or height of 0, or one too large, ends at the image's edge."""

    x: int = 0
    y: int = 0
    width: int = 0
    height: int = 0

    @property
    def rows(self) -> slice:
        """Rows of the image."""
        return slice(self.y, self.y + self.height if self.height else None)

    @property
    def columns(self) -> slice:
        """Columns of the image."""
        return slice(self.x, self.x + self.width if self.width else None)


def _crop(value: Any) -> Any:
    try:
        x, y, width, height = map(int, split_words(value))
    except (TypeError, ValueError):
        x = y = width = height = -1
    if not all(0 <= side <= LARGEST_IMAGE for side in (x, y, width, height)):
        raise ValueError(f"must be X Y WIDTH HEIGHT, four whole numbers from 0 to {LARGEST_IMAGE},")
    return Crop(x, y, width, height)


class View(NamedTuple):
    """How an environment is seen: the keys of [environment] whose defaults depend on it."""

    frame_skip: int
    frame_stack: int
    height: int
    width: int
    grayscale: bool
    crop: Crop | Auto = Crop()

    @property
    def seen(self) -> Crop:
        """The crop, all of the image if it is auto."""
        return Crop() if self.crop == "auto" else self.crop


class Environment(Section):
    """The environment, and what the agent observes of it."""

    fixed: ClassVar = True

    id: str = Field(
        "kartrl/Kart-v0",
        min_length=1,
        description="Gymnasium id: kartrl/Kart-v0, CartPole-v1, ALE/Pong-v5, ...; module:Id imports the module first; "
        "module:function calls a function that returns the environment; retro/Airstriker-Genesis-v0, ...: a game that "
        "stable-retro knows (kartrl list retro)",
    )
    kwargs: dict[str, Any] = Field(
        {},
        description="arguments of the environment's constructor, one key each: kwargs.continuous = false, "
        "kwargs.map_name = 8x8; a value is a Python literal, such as -9., (3, 4) or {'a': [1, none]}, with true, false "
        "and none in any case; anything else is text",
    )
    wrapper: Annotated[str, AfterValidator(_function)] = Field(
        "none", description="module:function that takes the environment and returns it wrapped; none: no wrapper"
    )
    frame_skip: Annotated[int, Field(ge=1, le=60)] | Auto = Field(
        "auto", description="kart, Atari, retro: frames for which each action is held; auto: kart 5, else 4"
    )
    frame_stack: Annotated[int, Field(ge=1, le=16)] | Auto = Field(
        "auto", description="number of latest frames in an observation; auto: Atari and retro 4, else 1"
    )
    height: Annotated[int, Field(ge=1, le=512)] | Auto = Field(
        "auto",
        description="height of the observation in pixels; auto: kart 54, Atari and retro 84, else the image's own, "
        "scaled to sides of 40 to 96 pixels",
    )
    width: Annotated[int, Field(ge=1, le=512)] | Auto = Field(
        "auto", description="width of the observation in pixels; auto: kart 52, Atari and retro 84, else as height"
    )
    grayscale: bool | Auto = Field(
        "auto",
        description="one grey channel instead of three colour channels; auto: kart, Atari and retro true, else false",
    )
    crop: Annotated[Crop, BeforeValidator(_crop), WithJsonSchema({"type": "crop"})] | Auto = Field(
        "auto",
        description="X Y WIDTH HEIGHT of the image that is observed, before it is scaled; 0 as width or height: to "
        "the edge; auto: retro the scenario's, else all of it",
    )
    noop_max: int = Field(
        30,
        ge=0,
        le=3600,
        description="Atari: at the start of an episode, a random number of no-op frames below this",
    )
    life_loss_ends: bool = Field(
        True,
        description="Atari, CarRacing (which leaves the road): losing a life ends the episode for the learner; returns "
        "still count whole games",
    )
    observation_parts: Annotated[Words, Field(min_length=1)] = Field(
        ("all",),
        description="Dict and Tuple observations: names of the parts that the network sees, such as image camera.left "
        "(of a Tuple numbers, from 0), or of what contains them; all: all but text",
    )
    action_bounds: Bounds | Literal["auto", "none"] = Field(
        "auto",
        description="continuous actions: LOW HIGH, the bounds of those that the environment does not bound, such as "
        "-2 2; none: actions are the policy's own numbers, about -1 to 1 at first, clipped only to bounds that the "
        "environment has; auto: its bounds, which must be finite",
    )
    action_masks: bool = Field(
        True,
        description='take only discrete actions that the environment\'s info["action_mask"] allows, if it has one',
    )
    mirrored_actions: Actions | Literal["auto", "none"] = Field(
        "auto",
        description="for each action, the number of the one that does the same in a mirrored image, such as 0 1 3 2 if "
        "the last two are right and left; the network then treats images and mirror images alike "
        "(docs/algorithms.md); auto: the kart's, if the network's layers fit; none: no symmetry",
    )
    mirror: Literal["left-right", "up-down"] = Field(
        "left-right", description="what a mirrored image exchanges, if mirrored_actions says how actions are"
    )

    def view(self, usual: View) -> View:
        """The keys of a `View`; where they are auto, the usual ones."""
        given = (getattr(self, key) for key in View._fields)
        return View._make(own if mine == "auto" else mine for own, mine in zip(usual, given, strict=True))

    def seen_as(self, usual: View, kept: Container[str] = ()) -> "Environment":
        """A copy with the usual keys of a `View` where they are auto, but for those `kept`, and the crop."""
        view = self.view(usual)._asdict()
        return self.model_copy(update={key: value for key, value in view.items() if key not in kept and key != "crop"})

    @property
    def seen(self) -> Crop:
        """The part of images that is observed, without a scenario's."""
        return Crop() if self.crop == "auto" else self.crop

    @property
    def frames(self) -> int:
        """`frame_stack` of a configuration after `World.fit`."""
        return 1 if self.frame_stack == "auto" else self.frame_stack
