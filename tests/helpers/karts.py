"""For the tests of the kart: a scripted driver, and ways to drive and compare."""

import math
from collections.abc import Callable

import gymnasium
import numpy as np

from kartrl.kart.block import Block
from kartrl.kart.circuits.states import circuit_block
from kartrl.kart.env import KartEnv
from kartrl.kart.game_files import BUNDLED, GAMES, circuits

FOLDER = GAMES / BUNDLED
CIRCUITS = circuits(FOLDER)
ONE_OF_EACH_KIND = tuple(sorted({circuit.partition(".")[0] + ".Act1" for circuit in CIRCUITS}))
NONE, LEFT_B, RIGHT_B = 0, 3, 4
START = {"section": 0, "noop": 0}
SECTION = 10 / 40  # at most what a section is worth where a lap is worth 10

MakeKart = Callable[..., KartEnv]


class Doubled(gymnasium.RewardWrapper):
    """What `environment.wrapper` may name."""

    def reward(self, reward: float) -> float:
        return 2 * reward


class Numbered(gymnasium.ActionWrapper):
    """Its actions count from 1."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self.action_space = gymnasium.spaces.Discrete(env.action_space.n, start=1)

    def action(self, action: int) -> int:
        assert 1 <= action <= 9
        return action - 1


def block_of(circuit: str) -> Block:
    """The circuit as its start state holds it."""
    block = circuit_block(FOLDER, circuit)
    assert block is not None
    return block


def steer(env: KartEnv, info: dict, ahead: int) -> int:
    """LEFT+B or RIGHT+B towards the gate so many sections ahead of the kart's."""
    race = env.console.race()
    gates = block_of(info["circuit"]).gates
    x, y, _ = gates[(race["checkpoint"] + ahead) % len(gates)]
    wanted = math.atan2(x - info["x"], info["y"] - y) / math.tau * 256
    error = (wanted - race["camera_angle"] - 4 * race["angle_velocity"] + 128) % 256 - 128
    return LEFT_B if error < 0 else RIGHT_B


def drive(env: KartEnv, steps: int, options: dict | None = None, ahead: int = 2) -> list[tuple]:
    """Steps of the scripted driver until the episode ends."""
    _, info = env.reset(seed=1, options=options or START)
    taken = []
    for _ in range(steps):
        taken.append(env.step(steer(env, info, ahead)))
        info = taken[-1][4]
        if taken[-1][2] or taken[-1][3]:
            break
    return taken


def record(env: KartEnv, seed: int, steps: int = 60) -> list[tuple]:
    """A seeded random drive: all that the environment gives."""
    env.action_space.seed(seed)
    seen: list[tuple] = [env.reset(seed=seed)]
    for _ in range(steps):
        seen.append(env.step(env.action_space.sample()))
        if seen[-1][2] or seen[-1][3]:
            seen.append(env.reset())
    return seen


def same(one: list[tuple], other: list[tuple]) -> bool:
    return len(one) == len(other) and all(
        np.array_equal(first[0], second[0]) and first[1:] == second[1:]
        for first, second in zip(one, other, strict=True)
    )
