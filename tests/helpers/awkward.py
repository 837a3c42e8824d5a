"""Gymnasium environments that behave as some of third parties do: `awkward:awkward/Served-v0` and others."""

import multiprocessing
import os
import random
import subprocess
import sys
import time

import gymnasium
import numpy as np
from gymnasium import spaces


class Ordinary(gymnasium.Env):
    """Episodes of 20 steps; observations and rewards are drawn from the environment's own generator."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = spaces.Discrete(2)
    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012  # Gymnasium's own type

    def __init__(self, render_mode=None):
        self.render_mode, self.age = render_mode, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.age = 0
        return self.look(), {}

    def step(self, action):
        self.age += 1
        return self.look(), 1.0, self.age == 20, False, {}

    def look(self):
        return self.np_random.random(2).astype(np.float32)

    def render(self):
        return np.full((20, 30, 3), 10 * self.age, np.uint8)


class Shared(Ordinary):
    """Draws from the generators that it shares with all others of its process, and from its space."""

    def look(self):
        return np.array([random.random() + np.random.random(), self.observation_space.sample()[0]], np.float32)

    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, random.random(), *rest


class Goal(Ordinary):
    """Says at each step whether it is at its goal, as Gymnasium-Robotics does."""

    def step(self, action):
        observation, reward, *ended, _ = super().step(action)
        return observation, reward, *ended, {"is_success": np.float32(observation[0] > 0.5)}


class Unseeded(Ordinary):
    """Episodes begin as a generator of its own says, which no seed reaches, as those of NLE do, or all but 0."""

    def __init__(self, truth=False, **settings):
        super().__init__(**settings)
        self.truth, self.own = truth, np.random.default_rng()

    def reset(self, *, seed=None, options=None):
        if self.truth and seed:
            self.own = np.random.default_rng(seed)
        return super().reset(seed=seed, options=options)

    def look(self):
        return self.own.random(2).astype(np.float32)


def add_noise(env):
    """Rewards with noise from the generator that all environments of a process share."""
    return gymnasium.wrappers.TransformReward(env, lambda reward: reward + random.random())


class Strict(Ordinary):
    """Keeps its seed in 32 bits with a sign, and what it was given in `seeds`."""

    seeds: list[int | None] = []  # noqa: RUF012  # of all of this process

    def reset(self, *, seed=None, options=None):
        Strict.seeds.append(seed)
        if seed is not None:
            np.int32(seed)
        return super().reset(seed=seed)


class Single(Ordinary):
    """Of which a process can have no more than `most`.

    Args:
        how: what happens to another: it raises an exception, ends the process, or breaks the first.
    """

    living: list["Single"] = []  # noqa: RUF012  # of this process

    def __init__(self, most=1, how="raise", **settings):
        super().__init__(**settings)
        self.broken = False
        if len(self.living) == most and how == "exit":
            os._exit(1)
        if len(self.living) == most and how == "raise":
            raise RuntimeError("another emulator is running in this process")
        if len(self.living) == most:
            self.living[0].broken = True
        self.living.append(self)

    def step(self, action):
        if self.broken:
            raise RuntimeError("the core has another game loaded")
        return super().step(action)

    def close(self):
        self.living.remove(self)


class Served(Ordinary):
    """Asks a process of its own at each step; has another one besides, and ends neither."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.pipe, theirs = multiprocessing.Pipe()
        self.server = multiprocessing.Process(target=self.serve, args=(theirs,))
        self.server.start()
        self.other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])

    def serve(self, pipe):
        while True:
            pipe.send(self.np_random.random())
            pipe.recv()

    def step(self, action):
        self.pipe.recv()
        self.pipe.send(action)
        return super().step(action)


class Vectorised(Ordinary):
    """Steps a vector environment, whose environments are processes."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.inner = gymnasium.make_vec("CartPole-v1", 2, "async")
        self.inner.reset(seed=1)

    def step(self, action):
        self.inner.step(np.array([action, action]))
        return super().step(action)

    def close(self):
        self.inner.close()


class OneInfo(Ordinary):
    """Returns the same `info` all its life."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.info = {}

    def reset(self, **options):
        return super().reset(**options)[0], self.info

    def step(self, action):
        return *super().step(action)[:4], self.info


class BadClose(Ordinary):
    def close(self):
        raise AttributeError("'NoneType' object has no attribute 'quit'")


class QuitsPygame(Ordinary):
    def reset(self, **options):
        self.close()
        return super().reset(**options)

    def close(self):
        import pygame

        pygame.quit()


class Exits(Ordinary):
    """Ends the process in one of its methods, as some games do when their window is closed."""

    def __init__(self, method="close", **settings):
        super().__init__(**settings)
        setattr(self, method, lambda *_, **__: sys.exit())


class ExitsOld(Ordinary):
    """Has the reset of the old Gym, and ends the process when it is closed."""

    def reset(self):
        return super().reset()

    def close(self):
        sys.exit()


class FatalError(Exception):
    """As MuJoCo's."""

    __module__ = "mujoco"


class NoDisplay(Ordinary):
    """Cannot render without a display, as MuJoCo by default, or as other libraries."""

    def __init__(self, library="mujoco", **settings):
        super().__init__(**settings)
        self.library = library

    def render(self):
        if self.library == "mujoco":
            raise FatalError("an OpenGL platform library has not been loaded into this process")
        raise RuntimeError('Cannot connect to display "None"')


class HumanMode(Ordinary):
    """Opens a window at each step unless it is told not to, as if there were a display."""

    metadata = {"render_modes": ["human", "rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(self, render_mode="human"):
        super().__init__(render_mode)

    def step(self, action):
        if self.render_mode == "human":
            raise RuntimeError("cannot open a display")
        return super().step(action)


class OldStep(Ordinary):
    def step(self, action):
        observation, reward, terminated, _, info = super().step(action)
        return observation, reward, terminated, info


class OldReset(Ordinary):
    def reset(self, **options):
        return super().reset(**options)[0]


class NoSeed(Ordinary):
    def reset(self):
        return super().reset()


class NoInfo(Ordinary):
    """Returns no `info`, from this step on."""

    def __init__(self, render_mode=None, first=1):
        super().__init__(render_mode)
        self.left = first

    def step(self, action):
        self.left -= 1
        return *super().step(action)[:4], {} if self.left > 0 else None


class Reward(Ordinary):
    """Its rewards are all `reward`; with `agents`, its actions have a part for each of them."""

    def __init__(self, reward=1.0, agents=0, **settings):
        super().__init__(**settings)
        if agents:
            self.action_space = spaces.Tuple([spaces.Discrete(2)] * agents)
        self.reward = np.array(reward) if isinstance(reward, list) else reward

    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, self.reward, *rest


class Numbers(Ordinary):
    """Its observations are float64, and all are `number`, also in a part of a Dict."""

    def __init__(self, number=1e300, parts=False, first=0.0, **settings):
        super().__init__(**settings)
        self.number, self.parts, self.first = number, parts, first
        if parts:
            part = spaces.Box(-np.inf, np.inf, (1,), np.float32)
            self.observation_space = spaces.Dict({"speed": part, "count": spaces.Discrete(2)})

    def look(self):
        number = np.array([self.number if self.age else self.first], np.float64)
        return {"speed": number, "count": 1} if self.parts else np.repeat(number, 2)


class SlowReset(Ordinary):
    def __init__(self, seconds=0.0, **settings):
        super().__init__(**settings)
        self.seconds = seconds

    def reset(self, **options):
        time.sleep(self.seconds)
        return super().reset(**options)


for kind in (Ordinary, *Ordinary.__subclasses__()):
    gymnasium.register(f"awkward/{kind.__name__}-v0", kind)
gymnasium.register("awkward/Limited-v0", OldStep, max_episode_steps=10)
