"""The reward of an agent step."""

from typing import NamedTuple

from kartrl.kart.settings import Reward


class RaceStep(NamedTuple):
    """Events of one agent step."""

    seconds: float  # of game time
    gained: int  # whole sections of new best progress
    advanced: float  # the same with fractions, if the game provides its gates
    sections: int  # of the circuit
    off_road: bool
    hit: bool  # the kart hit an obstacle
    wrong_way: bool
    finished: bool  # the race ended in this step


def step_reward(reward: Reward, step: RaceStep) -> float:
    """The reward of one step, clipped to [-bound, bound]."""
    if reward.kind == "checkpoint":
        total = float(step.gained)
    else:
        total = (
            reward.progress * step.advanced / step.sections
            + reward.time * step.seconds
            + reward.off_road * step.seconds * step.off_road
            + reward.wall * step.hit
            + reward.wrong_way * step.seconds * step.wrong_way
            + reward.finish * step.finished
        )
    return max(-reward.bound, min(reward.bound, total))
