"""The wrapper around every environment: checks what Gymnasium demands of one, and handles what it allows."""

import contextlib
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Space, Tuple

from kartrl.envs.episode import STATISTICS
from kartrl.envs.seeds import SEEDS
from kartrl.errors import brief

Env = gymnasium.Env[Any, Any]
Info = dict[str, Any]


class Misfit(TypeError):
    """An environment returned something that Gymnasium's interface does not allow, or kartrl does not take."""


class Checked(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The environment with plain rewards and flags, episode statistics, seeds of 31 bits and a `close` that succeeds.

    The `info` of an episode's last step has its statistics at `STATISTICS`: return `r` and length `l`. It is a copy, as
    an environment may return the same dict at each step.

    Args:
        beat: called now, and after each reset and step.
    """

    def __init__(self, env: Env, beat: Callable[[], None] = lambda: None) -> None:
        super().__init__(env)
        self._beat, self._return, self._length = beat, 0.0, 0
        beat()

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Begin an episode. With a seed, the spaces are seeded too, as environments draw from them.

        Raises:
            Misfit: it returned no `info`.
        """
        if seed is not None:
            seed %= SEEDS
            self._seed_spaces(seed)
        try:
            observation, info = self.env.reset(seed=seed, options=options)
        except SystemExit as error:
            raise _stayed("reset", error) from error
        _check_info("reset", info)
        self._return, self._length = 0.0, 0
        self._beat()
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        """See Gymnasium.

        Raises:
            Misfit: the reward is not a number, `terminated` or `truncated` not a truth value, or `info` not a dict.
        """
        try:
            observation, reward, terminated, truncated, info = self.env.step(action)
        except SystemExit as error:
            raise _stayed("step", error) from error
        _check_info("step", info)
        if type(reward) is not float:
            reward = _number(reward, self.env.action_space)
        ended = _flag("terminated", terminated), _flag("truncated", truncated)
        self._return += reward
        self._length += 1
        self._beat()
        if True in ended:
            info = {**info, STATISTICS: {"r": self._return, "l": self._length}}
        return observation, reward, *ended, info

    def close(self) -> None:
        """Close it; an environment that fails to, as some do, is not used any more anyway."""
        try:
            self.env.close()
        except SystemExit as error:
            _stayed("close", error)
        except Exception:
            pass

    def _seed_spaces(self, seed: int) -> None:
        env: Env = self.env
        while True:
            for space in (env.action_space, env.observation_space):
                with contextlib.suppress(Exception):  # of a space of their own; only its own generator is left unseeded
                    space.seed(seed)
            if not isinstance(env, gymnasium.Wrapper):
                return
            env = env.env


def _stayed(method: str, error: SystemExit) -> RuntimeError:
    """What to raise in place of an exception by which an environment, such as a game with a window, ends the process.

    Raises:
        SystemExit: it is a signal's.
    """
    if isinstance(error.code, int) and error.code > 128:  # as kartrl's handlers of signals raise it
        raise error
    what = "" if error.code is None else brief(repr(error.code))
    return RuntimeError(f"its {method} ends the process by sys.exit({what})").with_traceback(error.__traceback__)


def _check_info(method: str, info: Any) -> None:
    if not isinstance(info, dict):
        raise Misfit(f"its {method} returned no info, which is a dict, but {_short(info)}")


def _number(reward: Any, actions: Space[Any]) -> float:
    if isinstance(reward, np.ndarray) and reward.size == 1:
        reward = reward.item()
    try:
        return float(reward)
    except (TypeError, ValueError) as error:
        if (count := np.size(reward)) > 1:
            what = (
                f"as many as its actions have parts: it may have {count} agents, of which kartrl trains one. Name a "
                "wrapper in environment.wrapper that acts for the others, or adds up all rewards"
                if isinstance(actions, Tuple) and len(actions) == count
                else "and kartrl takes one number: name a wrapper that combines them in environment.wrapper, such as "
                "mo_gymnasium.wrappers:LinearReward"
            )
            raise Misfit(f"its rewards are vectors of {count} numbers, {what}") from error
        raise Misfit(f"its rewards must be numbers (got {_short(reward)})") from error


def _flag(name: str, value: Any) -> bool:
    if value is True or value is False:
        return bool(value)
    try:
        return bool(value)
    except ValueError as error:
        raise Misfit(f"its {name} must be True or False (got {_short(value)})") from error


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."
