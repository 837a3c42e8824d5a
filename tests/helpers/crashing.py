"""Gymnasium environments that fail after so many steps of their life: `crashing:Crash-v0` and others."""

import contextlib
import itertools
import multiprocessing
import os
import signal
import time
from pathlib import Path
from typing import ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces

KINDS = ("raise", "exit", "stall", "reward", "observation")


class Faulty(gymnasium.Env):
    """Episodes of 20 steps; after `lifetime` steps in all, `step` fails.

    Args:
        lifetime: steps before the fault.
        kind: raise an exception, end the process, sleep, or give a reward or an observation that is not a number.
        probability: instead of after `lifetime`, fail at each step with this probability, in a kind drawn.
        switch: a file.
    """

    observation_space = spaces.Box(-1.0, 1.0, (3,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(
        self,
        lifetime: int,
        kind: str = "raise",
        probability: float = 0.0,
        switch: str = "",
        render_mode: str | None = None,
    ) -> None:
        self.render_mode = render_mode
        self.lifetime, self.kind, self.probability = lifetime, kind, probability
        self.switch = Path(switch) if switch else None
        self.age, self.length = 0, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.length = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        self.age += 1
        self.length += 1
        observation, reward = self.observation_space.sample(), 1.0
        kind = self._fault()
        if kind == "raise":
            raise RuntimeError("the cartridge fell out")
        if kind == "exit":
            os._exit(3)
        if kind == "stall":
            time.sleep(3600)
        if kind in ("reward", "rewards"):
            reward = float("nan")
        if kind == "observation":
            observation[1] = np.inf
        return observation, reward, self.length == 20, False, {}

    def _fault(self) -> str:
        if self.probability:
            return str(self.np_random.choice(KINDS)) if self.np_random.random() < self.probability else ""
        if self.kind in ("reward", "both"):  # now and again, as such an environment lives on
            kinds = ("reward", "observation") if self.kind == "both" else (self.kind,)
            return kinds[self.age // self.lifetime % len(kinds)] if self.age % self.lifetime == 0 else ""
        return self.kind if self.age > self.lifetime else ""


class ByTurns(Faulty):
    """Another kind for each agent's process, by the files that those before made. A step takes two milliseconds."""

    claimed: ClassVar[dict[int, str]] = {}  # process -> its kind

    def step(self, action):
        time.sleep(0.002)
        return super().step(action)

    def _fault(self):
        if os.getpid() not in self.claimed:
            for number in itertools.count():
                with contextlib.suppress(FileExistsError):
                    os.close(os.open(f"{self.switch}-{number}", os.O_CREAT | os.O_EXCL))
                    break
            self.claimed[os.getpid()] = KINDS[number % 3]
        return self.claimed[os.getpid()] if self.age > self.lifetime else ""


class CrashHard(Faulty):
    """Kills its process when it is reset."""

    def reset(self, *, seed=None, options=None):
        os.kill(os.getpid(), signal.SIGSEGV)


class SlowReset(Faulty):
    """Takes a moment to begin again, as emulators do."""

    def reset(self, **arguments):
        time.sleep(0.02)
        return super().reset(**arguments)


class Hiccup(Faulty):
    """Every fifth step, of these the one of number `at`, takes longer, as on a busy machine."""

    def __init__(self, at=0, seconds=0.05, **settings):
        super().__init__(**settings)
        self.at, self.seconds = at, seconds

    def step(self, action):
        if self.age % 5 == self.at:
            time.sleep(self.seconds)
        return super().step(action)


class Doomed(Faulty):
    """Raises at the fifth step if the switch, a file, names this agent, and at any if it says "all". Takes 2 ms."""

    def step(self, action):
        time.sleep(0.002)
        return super().step(action)

    def _fault(self):
        doomed = self.switch.read_text() if self.switch.exists() else ""
        own = doomed == multiprocessing.current_process().name
        return "raise" if doomed == "all" or (own and self.age >= 5) else ""


class Talkative(Faulty):
    """Prints a long line at each reset. A step takes two milliseconds."""

    def step(self, action):
        time.sleep(0.002)
        return super().step(action)

    def reset(self, *, seed=None, options=None):
        print("a new episode begins, " * 100, flush=True)
        return super().reset(seed=seed, options=options)


class Life(gymnasium.Env):
    """Its observation is the number of its process and how many steps it has taken."""

    observation_space = spaces.Box(0.0, np.inf, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode, self.age = render_mode, 0

    def _look(self):
        return np.array([os.getpid(), self.age], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._look(), {}

    def step(self, action):
        self.age += 1
        return self._look(), 0.0, self.age % 17 == 0, False, {}


class Forking(Life):
    """Life with a process of its own, which outlives it and holds all that was open."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        if os.fork() == 0:
            time.sleep(3600)
            os._exit(0)


gymnasium.register("Crash-v0", Faulty, kwargs={"lifetime": 200})
gymnasium.register("CrashAtOnce-v0", Faulty, kwargs={"lifetime": 3})
gymnasium.register("ExitAtOnce-v0", Faulty, kwargs={"lifetime": 3, "kind": "exit"})
gymnasium.register("StallAtOnce-v0", Faulty, kwargs={"lifetime": 3, "kind": "stall"})
gymnasium.register("Exit-v0", Faulty, kwargs={"lifetime": 200, "kind": "exit"})
gymnasium.register("Stall-v0", Faulty, kwargs={"lifetime": 300, "kind": "stall"})
gymnasium.register("NowAndAgain-v0", Faulty, kwargs={"lifetime": 70, "kind": "both"})
gymnasium.register("ByTurns-v0", ByTurns, kwargs={"lifetime": 200, "switch": os.environ.get("KARTRL_TEST_SWITCH", "")})
gymnasium.register("NothingButBad-v0", Faulty, kwargs={"lifetime": 1, "kind": "reward"})
gymnasium.register("SlowlyBad-v0", SlowReset, kwargs={"lifetime": 1, "kind": "reward"})
gymnasium.register("TurnsBad-v0", Faulty, kwargs={"lifetime": 200, "kind": "rewards"})
gymnasium.register("Random-v0", Faulty, kwargs={"lifetime": 0, "probability": 2e-4})
gymnasium.register("Doomed-v0", Doomed, kwargs={"lifetime": 0, "switch": os.environ.get("KARTRL_TEST_SWITCH", "")})
gymnasium.register("Hiccup-v0", Hiccup, kwargs={"lifetime": 1_000_000})
gymnasium.register("Talkative-v0", Talkative, kwargs={"lifetime": 1_000_000_000})
gymnasium.register("Life-v0", Life)
gymnasium.register("Forking-v0", Forking)
gymnasium.register("CrashHard-v0", CrashHard, kwargs={"lifetime": 0})
