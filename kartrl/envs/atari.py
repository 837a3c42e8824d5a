"""What Gymnasium's AtariPreprocessing leaves to others: FIRE, and lives. `AtariGroup` does the same for several games.

- A game begins with FIRE for one frame, where it has that action, and then no-ops: Breakout waits for it.
- After a life is lost, FIRE takes the place of the next action (without such an action, in training, a no-op does).
- In training that life's end is an episode's end to the learner, and the step after it only begins the next episode.
"""

from typing import Any

import gymnasium

Env = gymnasium.Env[Any, Any]
NOOP = 0


def fire_action(env: Env) -> int | None:
    """The action that presses FIRE alone; None where the game has none."""
    meanings: list[str] = env.unwrapped.get_action_meanings()  # type: ignore[attr-defined]
    return meanings.index("FIRE") if "FIRE" in meanings else None


class Begin(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Begins a game with FIRE and a random number of no-ops, as AtariVectorEnv does; steps are frames.

    Args:
        noop_max: one less than this is the largest number of frames, FIRE included; 0: no no-ops.
    """

    def __init__(self, env: Env, noop_max: int) -> None:
        super().__init__(env)
        self._fire, self._noop_max = fire_action(env), noop_max

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """See the class."""
        observation, info = self.env.reset(seed=seed, options=options)
        frames = int(self.unwrapped.np_random.integers(self._noop_max)) if self._noop_max else 0
        actions = [NOOP] * frames
        if self._fire is not None:
            actions[:1] = [self._fire]
        for action in actions:
            observation, _, terminated, truncated, info = self.env.step(action)
            if terminated or truncated:
                observation, info = self.env.reset()
        return observation, info


class FireAfterLife(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Presses FIRE, in place of the action, in the step after a life was lost."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self._fire, self._lives, self._lost = fire_action(env), 0, False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a new game."""
        result = self.env.reset(seed=seed, options=options)
        self._lives, self._lost = _lives(self), False
        return result

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """See the class."""
        result = self.env.step(self._fire if self._lost and self._fire is not None else action)
        lives = _lives(self)
        self._lost, self._lives = lives < self._lives, lives
        return result


class LifeLossEnds(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Ends an episode with each life, for the learner; the game goes on with the next reset.

    Outside of the episode statistics, which so count whole games: the `info` of an end within a game has none.
    """

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self._lives, self._lost = 0, False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Go on after a life was lost; after a game, or with a seed or options, begin a new one."""
        lost, self._lost = self._lost, False
        if lost and seed is None and options is None:
            observation, _, terminated, truncated, info = self.env.step(NOOP)  # FIRE, where there is such an action
            self._lives = _lives(self)
            if not (terminated or truncated):
                return observation, info
        result = self.env.reset(seed=seed, options=options)
        self._lives = _lives(self)
        return result

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """See the class."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        lives = _lives(self)
        self._lost = 0 < lives < self._lives and not (terminated or truncated)
        self._lives = lives
        return observation, reward, terminated or self._lost, truncated, info


def _lives(env: Env) -> int:
    return int(env.unwrapped.ale.lives())  # type: ignore[attr-defined]
