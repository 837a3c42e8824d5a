"""What Gymnasium's AtariPreprocessing does not handle: FIRE and lives. `AtariGroup` does the same for several games.

- A game begins with FIRE for one frame, if it has that action, followed by no-ops: Breakout waits for it.
- After the loss of a life, FIRE replaces the next action (a no-op in training, if there is no FIRE).
- A game is truncated after whole agent steps: ale-py's own limit of frames would cut a step short, and then both
  AtariPreprocessing and AtariVectorEnv return a mixture of the last two observations.
- In training, the loss of a life ends the episode for the learner, and the step after it only begins the next one.
"""

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium

from kartrl.config import Crop, View
from kartrl.envs.episode import STATISTICS
from kartrl.errors import UserError

Env = gymnasium.Env[Any, Any]
USUAL = View(frame_skip=4, frame_stack=4, height=84, width=84, grayscale=True)
NOOP = 0
UNLIMITED = 2**30  # steps
TERMINATED = "kartrl terminated"  # in the `info` of a reset: whether the game that ended with it was terminated


def fire_action(env: Env) -> int | None:
    """The action that presses only FIRE; None if the game has none."""
    meanings: list[str] = env.unwrapped.get_action_meanings()  # type: ignore[attr-defined]
    return meanings.index("FIRE") if "FIRE" in meanings else None


def step_limit(kwargs: Mapping[str, Any], frame_skip: int) -> int:
    """The agent steps after which a game is truncated, by the arguments of an environment of ale-py.

    Raises:
        UserError: an argument is invalid.
    """
    frames, steps = kwargs.get("max_num_frames_per_episode"), kwargs.get("max_episode_steps")
    if frames is not None and (type(frames) is not int or frames < 0):
        raise UserError(f"max_num_frames_per_episode must be a whole number, 0 (no limit) or more (got {frames!r})")
    if steps not in (None, -1) and (type(steps) is not int or steps < 1):
        raise UserError(f"max_episode_steps must be a whole number, 1 or more (got {steps!r})")
    return min(-(-(frames or UNLIMITED) // frame_skip), UNLIMITED if steps in (None, -1) else steps)


def scaled(view: View, screen: Callable[[], tuple[int, int]]) -> tuple[int, int, Crop]:
    """Height and width of the whole screen at the scale of the view, and what is observed of it.

    ale-py scales whole screens, so all of it must be whole pixels.

    Args:
        screen: returns its rows, 210 or 250, and columns, 160; called if a part is observed.

    Raises:
        UserError: it is not, or nothing is observed.
    """
    crop = view.seen
    if crop == Crop():
        return view.height, view.width, Crop()
    (rows, columns), sides = screen(), []
    for name, begin, side, seen, whole in (
        ("height", crop.y, crop.height, view.height, rows),
        ("width", crop.x, crop.width, view.width, columns),
    ):
        side = min(side or whole, whole - begin)
        if side <= 0:
            raise UserError(
                f"environment.crop: {' '.join(map(str, crop))} is outside of the screen, {columns} x {rows}"
            )
        if (whole * seen) % side or (begin * seen) % side:
            fitting = [other for other in range(1, side + 1) if not ((whole * other) % side or (begin * other) % side)]
            raise UserError(
                f"environment.{name} = {seen} does not scale {side} pixels of environment.crop and the whole screen of "
                f"{whole} to whole pixels; the nearest that does is {min(fitting, key=lambda other: abs(other - seen))}"
            )
        sides.append((whole * seen // side, begin * seen // side))
    (height, y), (width, x) = sides
    return height, width, Crop(x, y, view.width, view.height)


class Begin(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Begins a game with FIRE and a random number of no-ops, as AtariVectorEnv does; steps are frames.

    Args:
        noop_max: exclusive upper bound of the number of frames, FIRE included; 0: no no-ops.
    """

    def __init__(self, env: Env, noop_max: int) -> None:
        super().__init__(env)
        self._fire, self._noop_max = fire_action(env), noop_max

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
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
    """Presses FIRE instead of the action in the step after the loss of a life."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self._fire, self._lives, self._lost = fire_action(env), 0, False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a new game."""
        result = self.env.reset(seed=seed, options=options)
        self._lives, self._lost = _lives(self), False
        return result

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        result = self.env.step(self._fire if self._lost and self._fire is not None else action)
        lives = _lives(self)
        self._lost, self._lives = 0 < lives < self._lives, lives
        return result


class LifeLossEnds(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Ends an episode with each life, for the learner; the next reset continues the game.

    It wraps the episode statistics, which therefore count whole games: the `info` at the loss of a life has none.
    """

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self._noop = getattr(env.unwrapped, "noop", NOOP)
        self._lives, self._lost = 0, False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Continue after the loss of a life; after a game, or with a seed or options, begin a new one.

        If the game ends with the step that continues it, `info` has its statistics, and `TERMINATED`.
        """
        lost, self._lost = self._lost, False
        ended: dict[str, Any] = {}
        if lost and seed is None and options is None:
            observation, _, terminated, truncated, info = self.env.step(self._noop)  # FIRE, if the game has it
            self._lives = _lives(self)
            if not (terminated or truncated):
                return observation, info
            if STATISTICS in info:
                ended = {STATISTICS: info[STATISTICS], TERMINATED: terminated}
        observation, info = self.env.reset(seed=seed, options=options)
        self._lives = _lives(self)
        return observation, info | ended

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        lives = _lives(self)
        self._lost = 0 < lives < self._lives and not (terminated or truncated)
        self._lives = lives
        return observation, reward, terminated or self._lost, truncated, info


def _lives(env: Env) -> int:
    game: Any = getattr(env.unwrapped, "ale", env.unwrapped)
    return int(game.lives())
