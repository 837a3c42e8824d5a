"""Any other Gymnasium environment, made ready for an agent with Gymnasium's and ale-py's own wrappers."""

import difflib
import importlib.util
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces, wrappers
from gymnasium.envs.registration import EnvSpec

from kartrl.config import Environment
from kartrl.errors import UserError

Env = gymnasium.Env[Any, Any]


def make_other(section: Environment, render: bool) -> Env:
    """The environment `section.id`: observations uint8 [H, W, C] or float32 [D], Discrete actions.

    Raises:
        UserError: Gymnasium has no such environment or lacks what it needs, or its spaces are not of these kinds.
    """
    atari = atari_spec(section.id) is not None
    env = _make(section, atari, "rgb_array" if render else None)
    actions = env.action_space
    if not isinstance(actions, spaces.Discrete) or actions.start != 0:
        env.close()
        raise UserError(f"{section.id} has the actions {actions}; kartrl needs Discrete ones that count from 0")
    seen = env.observation_space
    if not isinstance(seen, spaces.Box):
        env.close()
        raise UserError(f"{section.id} has the observations {seen}; kartrl needs pictures or vectors (Box)")
    if atari:
        return _stacked(_atari(env, section), section.frame_stack, padding="zero")  # as in ale-py's AtariVectorEnv
    if seen.dtype == np.uint8 and len(seen.shape) in (2, 3):
        return _stacked(_pictures(env, section), section.frame_stack)
    size = int(np.prod(seen.shape))
    vector = spaces.Box(-np.inf, np.inf, (size,), np.float32)
    return wrappers.TransformObservation(env, lambda values: np.asarray(values, np.float32).reshape(size), vector)


def atari_spec(name: str) -> EnvSpec | None:
    """What the registry says of ale-py's environment `name`; None where it is not one of those.

    Raises:
        UserError: it is one, but ale-py is not installed.
    """
    if name not in gymnasium.registry:
        if importlib.util.find_spec("ale_py") is not None:
            _register_atari()
        elif name.startswith("ALE/"):
            raise UserError(f"{name} needs ale-py: pip install 'kartrl[atari]'")
    spec = gymnasium.registry.get(name)
    return spec if spec is not None and spec.entry_point == "ale_py.env:AtariEnv" else None


def _make(section: Environment, atari: bool, render_mode: str | None) -> Env:
    # AtariPreprocessing skips the frames, and reads the screen past the environment: its own observation may be the cheapest
    settings: dict[str, Any] = {"frameskip": 1, "obs_type": "ram"} if atari else {}
    try:
        return gymnasium.make(section.id, render_mode=render_mode, disable_env_checker=True, **settings)
    except gymnasium.error.DependencyNotInstalled as error:
        raise UserError(f"{section.id}: {error}") from error
    except (gymnasium.error.Error, ModuleNotFoundError) as error:
        near = _nearest(section.id)
        raise UserError(f"[environment] id: {error}" + (f" Nearest: {', '.join(near)}" if near else "")) from error


def _register_atari() -> None:
    import ale_py

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # or each agent prints a banner
    gymnasium.register_envs(ale_py)


def _nearest(wanted: str) -> list[str]:
    """Up to three ids like `wanted`, whatever its namespace: who types Pong-v5 means ALE/Pong-v5."""
    if importlib.util.find_spec("ale_py") is not None:
        _register_atari()
    ids = {known.rpartition("/")[2].lower(): known for known in reversed(gymnasium.registry)}
    return [ids[name] for name in difflib.get_close_matches(wanted.rpartition("/")[2].lower(), ids, n=3, cutoff=0.6)]


def _atari(env: Env, section: Environment) -> Env:
    rows, columns = env.unwrapped.ale.getScreenDims()  # type: ignore[attr-defined]
    screen = spaces.Box(0, 255, (rows, columns) if section.grayscale else (rows, columns, 3), np.uint8)
    return wrappers.AtariPreprocessing(
        wrappers.TransformObservation(env, lambda memory: memory, screen),  # only its shape is looked at
        noop_max=section.noop_max,
        frame_skip=section.frame_skip,
        screen_size=(section.width, section.height),
        grayscale_obs=section.grayscale,
        grayscale_newaxis=True,
    )


def _pictures(env: Env, section: Environment) -> Env:
    """Pictures uint8 [H, W] or [H, W, C] as uint8 [height, width, C]."""
    shape = env.observation_space.shape or ()
    if section.grayscale and len(shape) == 3 and shape[2] == 3:
        env = wrappers.GrayscaleObservation(env, keep_dim=True)
    env = wrappers.ResizeObservation(env, (section.height, section.width))
    shape = env.observation_space.shape or ()
    return env if len(shape) == 3 else wrappers.ReshapeObservation(env, (*shape, 1))


def _stacked(env: Env, number: int, padding: str = "reset") -> Env:
    """The newest `number` pictures as one, uint8 [H, W, C * number], the newest last."""
    if number == 1:
        return env
    height, width, channels = env.observation_space.shape or ()
    shape = (height, width, channels * number)
    return wrappers.TransformObservation(
        wrappers.FrameStackObservation(env, number, padding_type=padding),
        lambda pictures: np.moveaxis(pictures, 0, 2).reshape(shape),
        spaces.Box(0, 255, shape, np.uint8),
    )
