"""The environments that an agent steps together.

Episode ends follow Gymnasium's `AutoresetMode.NEXT_STEP`: the step that ends an episode returns its true last
observation, and the step after it ignores its action and returns the first observation of the next episode.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import gymnasium
import numpy as np

from kartrl.config import Environment
from kartrl.envs import masks
from kartrl.envs.episode import STATISTICS, Episode
from kartrl.envs.frames import joined_frames
from kartrl.envs.seeds import SEEDS, seed_generators
from kartrl.envs.wrappers.atari import NOOP, TERMINATED, UNLIMITED, USUAL, scaled, step_limit
from kartrl.envs.wrappers.finite import NonFinite, fits, is_finite, reward_fault
from kartrl.envs.wrappers.vectors import fault_of

MakeEpisode = Callable[[dict[str, Any], bool], Episode]


class GroupStep(NamedTuple):
    """The result of a step of G environments."""

    observation: np.ndarray  # [G, ...], see `ObservationSpec`
    reward: np.ndarray  # float32 [G]
    terminated: np.ndarray  # bool [G]
    truncated: np.ndarray  # bool [G]
    faulty: np.ndarray  # bool [G], True where the environment returned a non-finite number; replaced by zeros
    episodes: Sequence[Episode]  # that ended with this step


class EnvGroup(Protocol):
    """G environments that are stepped together.

    Attributes:
        fault: what was wrong with the newest `faulty` step, such as "an observation that is not finite"; "" if nothing.
    """

    fault: str

    @property
    def restriction(self) -> np.ndarray:
        """Which actions are legal for the newest observations, float32 [G, P]; see `kartrl.envs.masks`.

        Raises:
            UserError: a mask of an environment is invalid.
        """

    def check_unmasked(self) -> None:
        """Refuse masks where the first look has found none.

        Raises:
            UserError: an environment gives one for its newest observation.
        """

    def reset(self, seed: int) -> np.ndarray:
        """Begin an episode in each environment, i seeded with seed + i. Returns the observations [G, ...]."""

    def step(self, action: np.ndarray) -> GroupStep:
        """Take actions as `ActionSpec.taken` gives them."""

    def close(self) -> None:
        """Close the environments."""


class SingleGroup:
    """Any environments, stepped one after another.

    Gymnasium's SyncVectorEnv does the same, but collects each step's `info` in arrays, which would take as long as
    stepping some environments.

    Args:
        envs: with episode statistics.
        make_episode: makes an `Episode` from the `info` of its last step and whether it was terminated.
    """

    def __init__(self, envs: Sequence[gymnasium.Env[Any, Any]], make_episode: MakeEpisode) -> None:
        self.envs, self._make_episode = envs, make_episode
        self._done = np.zeros(len(envs), bool)
        self._masks: list[Any] = [None] * len(envs)  # of the newest observations, None where an episode ended
        space = envs[0].observation_space
        self._blank = np.zeros(space.shape or (), space.dtype)
        self.fault = ""

    def reset(self, seed: int) -> np.ndarray:
        seed_generators(seed)
        begun = []
        for index, env in enumerate(self.envs):
            begun.append(env.reset(seed=seed + index))
            if not is_finite(begun[-1][0]):
                raise ValueError(f"the environment began with {fault_of(env)}")
        self._masks = [info.get(masks.KEY) for _, info in begun]
        return np.stack([observation for observation, _ in begun])

    @property
    def restriction(self) -> np.ndarray:
        return np.stack([masks.restriction(env, mask) for env, mask in zip(self.envs, self._masks, strict=True)])

    def check_unmasked(self) -> None:
        for env, mask in zip(self.envs, self._masks, strict=True):
            masks.check_unmasked(env, mask)

    def step(self, action: np.ndarray) -> GroupStep:
        size = len(self.envs)
        observations: list[Any] = [None] * size
        reward = np.zeros(size, np.float32)
        terminated, truncated, faulty = (np.zeros(size, bool) for _ in range(3))
        episodes: list[Episode] = []
        for index, env in enumerate(self.envs):
            try:
                if self._done[index]:
                    observations[index], info = env.reset()
                    if TERMINATED in info:
                        episodes.append(self._make_episode(info, info[TERMINATED]))
                else:
                    observations[index], value, terminated[index], truncated[index], info = env.step(action[index])
                    if fits(value):
                        reward[index] = value
                    else:
                        faulty[index], self.fault = True, reward_fault(value)
                if not is_finite(observations[index]):
                    faulty[index], self.fault = True, fault_of(env)
            except NonFinite as error:
                faulty[index], self.fault = True, str(error)
            if faulty[index]:  # the episode is truncated and not counted anywhere
                observations[index], reward[index] = self._blank, 0.0
                terminated[index], truncated[index] = False, True
            elif (terminated[index] or truncated[index]) and STATISTICS in info:  # not merely the loss of a life
                episodes.append(self._make_episode(info, bool(terminated[index])))
            self._masks[index] = None if terminated[index] or truncated[index] else info.get(masks.KEY)
        self._done = terminated | truncated
        return GroupStep(np.stack(observations), reward, terminated, truncated, faulty, episodes)

    def close(self) -> None:
        for env in self.envs:
            env.close()


class AtariGroup:
    """Atari games on ale-py's AtariVectorEnv: the same frames and rewards as its single environments, but faster.

    Sticky actions are as probable there, but of other random numbers, as ale-py makes other seeds of the same one.

    The loss of a life is detected here, as ale-py's own `episodic_life` would begin a new game, and games are truncated
    here; see `kartrl.envs.wrappers.atari`.

    Args:
        spec: with arguments from `ARGUMENTS` only.
    """

    PASSED = frozenset(("game", "repeat_action_probability", "full_action_space"))
    ARGUMENTS = PASSED | {"max_num_frames_per_episode", "max_episode_steps", "frameskip", "obs_type", "render_mode"}

    fault = ""  # ale-py's frames and scores are integers, so always finite

    def __init__(self, section: Environment, spec: gymnasium.envs.registration.EnvSpec, size: int) -> None:
        from ale_py.vector_env import AtariVectorEnv

        view = section.view(USUAL)
        height, width, self._crop = scaled(view, partial(_screen, spec.kwargs["game"]))
        self.env = AtariVectorEnv(
            num_envs=size,
            num_threads=1,
            **{key: value for key, value in spec.kwargs.items() if key in self.PASSED},
            max_num_frames_per_episode=UNLIMITED,
            img_height=height,
            img_width=width,
            grayscale=view.grayscale,
            stack_num=view.frame_stack,
            frameskip=view.frame_skip,
            noop_max=section.noop_max,
            reward_clipping=False,
            use_fire_reset=True,
        )
        actions = [action.name for action in self.env.ale.get_action_set()]
        self.restriction = np.zeros((size, len(actions)), np.float32)
        self._fire = actions.index("FIRE") if "FIRE" in actions else None
        self._life_loss_ends = section.life_loss_ends
        self._lives = np.zeros(size, np.int64)
        self._lost = np.zeros(size, bool)  # a life, in the last step
        self._begins = np.zeros(size, bool)  # the next step only continues the game after the loss of a life
        self._limit = step_limit(spec.kwargs, view.frame_skip)
        self._cut = np.zeros(size, bool)  # truncated in the last step
        self._length = np.zeros(size, np.int64)
        self._return = np.zeros(size)

    def reset(self, seed: int) -> np.ndarray:
        stack, info = self.env.reset(seed=(seed + np.arange(len(self._lives))) % SEEDS)
        self._lives[:] = info["lives"]
        return self._pictures(stack)

    def check_unmasked(self) -> None:
        """See `EnvGroup`; they never give any."""

    def step(self, action: np.ndarray) -> GroupStep:
        if self._fire is not None:
            action = np.where(self._lost, self._fire, action)
        else:
            action = np.where(self._begins, NOOP, action)
        stack, reward, terminated, _, info = self.env.step(action)
        reward = np.where(self._cut, 0, reward)
        self._length += 1
        self._return += reward
        truncated = self._length >= self._limit
        ended = (terminated | truncated) & ~self._cut
        episodes: list[Episode] = []
        for index in np.flatnonzero(ended):
            episodes.append(Episode(int(self._length[index]), float(self._return[index]), bool(terminated[index])))
            self._length[index], self._return[index] = -1, 0.0  # the next step only resets
        # a game that ends with the step that was to continue it is followed at once
        new = self._cut | (ended & self._begins)
        if new.any():
            stack, info = self.env.reset(options={"reset_mask": new})
            terminated, truncated, self._length[new] = terminated & ~new, truncated & ~new, 0
        self._cut = truncated & ~terminated
        self._lost = (info["lives"] > 0) & (info["lives"] < self._lives) & (self._length > 0)
        self._lives[:] = info["lives"]
        fine = np.zeros(len(reward), bool)
        seen = np.where(self._begins, 0, reward).astype(np.float32)
        if self._life_loss_ends:
            self._begins = self._lost & ~self._begins
            terminated = terminated | self._begins
        return GroupStep(self._pictures(stack), seen, terminated, truncated, fine, episodes)

    def _pictures(self, stack: np.ndarray) -> np.ndarray:
        """[G, frame_stack, H, W] or [G, frame_stack, H, W, 3] as [G, H, W, C] of the crop, the newest frame last."""
        stack = stack[:, :, self._crop.rows, self._crop.columns]
        return joined_frames(stack[..., None] if stack.ndim == 4 else stack)

    def close(self) -> None:
        self.env.close()


def _screen(game: str) -> tuple[int, int]:
    """Rows and columns of a game's screen, which AtariVectorEnv does not tell."""
    from ale_py import ALEInterface, roms

    ale = ALEInterface()
    ale.loadROM(str(roms.get_rom_path(game)))
    rows, columns = ale.getScreenDims()
    return rows, columns
