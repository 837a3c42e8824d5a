"""What retro games bring to the configuration: [retro], and start states as levels. Loads no emulator."""

import math
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from pydantic import Field, field_validator

from kartrl.config.section import DAY, Section, Words
from kartrl.config.worlds import WorldSections, WorldSettings
from kartrl.retro.levels import StateSyntax

if TYPE_CHECKING:
    from kartrl.config import Config

# values of `Retro.actions` that list no actions
COMBINATIONS, BUTTONS, FILTERED = ("combinations",), ("buttons",), ("filtered",)
HIGHEST = "max"


class Change(NamedTuple):
    """A part of a reward: changes of a variable times a factor."""

    name: str
    reward: float  # factor of increases
    penalty: float  # of decreases
    highest: bool  # whether only what exceeds all values so far counts


def changes(words: tuple[str, ...]) -> list[Change]:
    """The parts of a reward.

    Raises:
        ValueError: one is malformed; the message is one line.
    """
    found = []
    for word in words:
        name, *factors = word.split(":")
        highest = factors[1:] == [HIGHEST]
        try:
            numbers = [float(factor) for factor in (factors[:1] if highest else factors)]
        except ValueError:
            numbers = []
        if not name or len(numbers) not in (1, 2) or not all(map(math.isfinite, numbers)):
            raise ValueError(
                f"must be NAME:REWARD, NAME:REWARD:PENALTY or NAME:REWARD:{HIGHEST}, such as score:1, x:0.01:0 or "
                f"x:0.01:{HIGHEST}"
            )
        found.append(Change(name, numbers[0], 0.0 if highest else numbers[-1], highest))
    return found


class Retro(Section):
    """The game's actions, reward and end, and the part of the screen that the agent observes."""

    fixed: ClassVar = True

    actions: Words = Field(
        COMBINATIONS,
        min_length=1,
        description="combinations (those of the game's integration, one Discrete action each), buttons (each button is "
        "held or not: MultiBinary), filtered (the same, but of buttons that are no combination none counts), "
        "or the buttons that each action holds, such as none right right+B",
    )
    players: int = Field(
        1,
        ge=1,
        le=8,
        description="joypads that the policy holds, an action each; what is seen and the reward are the first player's",
    )
    sticky: Literal["none", "first", "every"] = Field(
        "first",
        description="with sticky_probability the last buttons are held on: first, for the first frame of a step (the "
        "Retro Contest's stochastic frame skip); every, in each frame (ALE's sticky actions); none: never",
    )
    sticky_probability: float = Field(0.25, ge=0, le=1, description="see sticky")
    noop_max: int = Field(
        30,
        ge=0,
        le=3600,
        description="at the start of an episode, no button is held for a random number of frames, at most this",
    )
    scenario: str = Field(
        "scenario",
        pattern=r"^[\w.+-]+$",
        max_length=200,
        description="the game's file of reward and end, without .json; none: neither",
    )
    reward: Words = Field(
        (),
        description="instead of the scenario's reward: changes of variables in memory, each as NAME:REWARD, as "
        "NAME:REWARD:PENALTY, whose penalty is the factor of decreases, or as NAME:REWARD:max, where only new maxima "
        "of the episode count; such as score:1 x:0.01:max",
    )
    life_variables: Words = Field(
        (), description="variables in memory, such as lives, of which a decrease ends the episode as well"
    )
    time_limit: float = Field(300, gt=0, le=DAY, description="truncate an episode after this many seconds of play")

    @field_validator("reward")
    @classmethod
    def _reward_has_factors(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        changes(value)
        return value


class RetroSections(WorldSections):
    """The section of retro games."""

    retro: Retro = Retro()


SETTINGS = WorldSettings("kartrl.retro.world:RetroWorld", RetroSections, StateSyntax())


def section_of(config: "Config") -> Retro:
    """The section [retro] of a configuration of a retro game."""
    assert isinstance(config.world, RetroSections)
    return config.world.retro
