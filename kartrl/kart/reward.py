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
    coins: int  # taken less lost, of those that make the kart faster
    finished: bool  # the race ended in this step
    stuck: bool  # the episode ended for lack of progress


def reward_parts(reward: Reward, step: RaceStep) -> dict[str, float]:
    """The terms of a step's reward by their names, before its total is clipped."""
    if reward.kind == "checkpoint":
        return {"checkpoint": float(step.gained)}
    return {
        "progress": reward.progress * step.advanced / step.sections,
        "time": reward.time * step.seconds,
        "off_road": reward.off_road * step.seconds * step.off_road,
        "wall": reward.wall * step.hit,
        "wrong_way": reward.wrong_way * step.seconds * step.wrong_way,
        "coin": reward.coin * step.coins,
        "finish": reward.finish * step.finished,
        "stuck": reward.stuck * step.stuck,
    }


def step_reward(reward: Reward, parts: dict[str, float]) -> float:
    """The reward of one step from its `reward_parts`, clipped to [-bound, bound]."""
    return max(-reward.bound, min(reward.bound, sum(parts.values())))
