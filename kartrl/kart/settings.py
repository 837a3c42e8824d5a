"""What the kart brings to the configuration: [kart], [reward], and circuits as levels. Loads no emulator."""

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, model_validator

from kartrl.config.section import DAY, Section, Words
from kartrl.config.worlds import WorldSections, WorldSettings
from kartrl.kart.levels import CircuitSyntax

if TYPE_CHECKING:
    from kartrl.config import Config


class Kart(Section):
    """The race, the kart's buttons, and the part of the screen that the agent observes."""

    fixed: ClassVar = True

    game: Literal["auto", "bundled", "cartridge"] = Field(
        "auto", description="bundled, cartridge (an imported ROM), or auto (the cartridge if one was imported)"
    )
    crop_top: int = Field(36, ge=0, le=223, description="first row of the screen that is observed; above it is the sky")
    crop_bottom: int = Field(
        106, ge=1, le=224, description="the observation ends before this row of the screen; below it is the map"
    )
    noop_max: int = Field(
        30,
        ge=0,
        le=3600,
        description="at the start of an episode, one random action is held for a random number of frames, at most this",
    )
    random_start: bool = Field(True, description="begin training episodes at a random checkpoint (bundled game only)")
    circuit_sampling: Literal["episodes", "steps"] = Field(
        "episodes",
        description="give all circuits equally many episodes, or all groups (such as BowserCastle and random.ice) and "
        "their circuits equally many steps (episodes on hard circuits are short)",
    )
    opponents: int = Field(
        0, ge=0, le=7, description="number of opponents, all of which start ahead of the kart (bundled game only)"
    )
    time_limit: float = Field(
        300, gt=0, le=DAY, description="truncate an episode after this many seconds on the race clock"
    )
    no_progress_limit: float = Field(
        3, gt=0, le=DAY, description="truncate an episode after this many seconds without a new checkpoint"
    )
    actions: Words = Field(
        ("none", "left", "right", "left+B", "right+B", "left+Y", "right+Y", "left+B+L", "right+B+L"),
        min_length=2,
        description="buttons pressed by each action (B accelerates, Y brakes, L hops and slides)",
    )

    @model_validator(mode="after")
    def _crop_is_not_empty(self) -> "Kart":
        if self.crop_top >= self.crop_bottom:
            raise ValueError("crop_top must be less than crop_bottom")
        return self


class Reward(Section):
    """The kart's reward; each step's total is clipped to [-bound, bound]."""

    kind: Literal["shaped", "checkpoint"] = Field(
        "shaped", description="shaped (the terms below) or checkpoint (1 for each new checkpoint, and nothing else)"
    )
    progress: float = Field(10.0, description="reward per lap's worth of new progress")
    time: float = Field(-0.1, description="reward per second")
    off_road: float = Field(-0.2, description="reward per second off the road")
    wall: float = Field(-0.2, description="reward per collision")
    wrong_way: float = Field(-0.2, description="reward per second in the wrong direction")
    coin: float = Field(0.0, description="reward per coin, of the ten that make the kart faster; minus per coin lost")
    finish: float = Field(0.0, description="reward for finishing the race")
    stuck: float = Field(
        0.0,
        description="reward for the end of a kart that is stuck (kart.no_progress_limit); bound clips it too",
    )
    bound: float = Field(1.0, gt=0, description="maximum absolute value of a step's reward")


class KartSections(WorldSections):
    """The kart's own sections."""

    kart: Kart = Kart()
    reward: Reward = Reward()


# found by `kartrl tune`, 44 trials: 45 of 50 races finished in the fewest minutes (docs/tuning.md)
DEFAULTS = {"algorithm": {"discount": "0.98"}, "appo": {"epochs": "1", "minibatch_size": "64"}}
SETTINGS = WorldSettings("kartrl.kart.world:KartWorld", KartSections, CircuitSyntax(), DEFAULTS)


def sections_of(config: "Config") -> KartSections:
    """The kart's sections of a configuration of the kart."""
    assert isinstance(config.world, KartSections)
    return config.world
