"""Any other Gymnasium environment, made ready for an agent with Gymnasium's and ale-py's own wrappers."""

import difflib
import importlib.util
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces, wrappers
from gymnasium.envs.registration import EnvSpec as Registered

from kartrl.config import Environment
from kartrl.envs.observations import prepare_observations, stack_frames
from kartrl.envs.spec import ActionSpec
from kartrl.errors import UserError

Env = gymnasium.Env[Any, Any]


def make_other(section: Environment, render: bool) -> Env:
    """The environment `section.id`: observations uint8 [H, W, C] or float32 [D], actions as an `ActionSpec` tells.

    Raises:
        UserError: Gymnasium has no such environment or lacks what it needs, or its spaces are of another kind.
    """
    atari = atari_spec(section.id) is not None
    made = _make(section, atari, "rgb_array" if render else None)
    try:
        env = _take_actions(made)
        if atari:
            return stack_frames(_atari(env, section), section.frame_stack, padding="zero")  # as in AtariVectorEnv
        return prepare_observations(env, section)
    except UserError as error:
        made.close()
        raise UserError(f"{section.id}: {error}") from error


def atari_spec(name: str) -> Registered | None:
    """What the registry says of ale-py's environment `name`; None where it is not one of those, or shows memory alone.

    Raises:
        UserError: it is one, but ale-py is not installed.
    """
    if name not in gymnasium.registry:
        if importlib.util.find_spec("ale_py") is not None:
            _register_atari()
        elif name.startswith("ALE/"):
            raise UserError(f"{name} needs ale-py: pip install 'kartrl[atari]'")
    spec = gymnasium.registry.get(name)
    if spec is None or spec.entry_point != "ale_py.env:AtariEnv" or spec.kwargs.get("obs_type") == "ram":
        return None
    return spec


def _take_actions(env: Env) -> Env:
    """`env` with Discrete actions that count from 0, or with continuous ones, which are clipped to their bounds."""
    ActionSpec.of(env.action_space)
    if isinstance(actions := env.action_space, spaces.Box):
        # ClipAction would clip before it rounds to the environment's dtype, and hides the bounds.
        return wrappers.TransformAction(
            env, lambda action: np.clip(np.asarray(action, actions.dtype), actions.low, actions.high), actions
        )
    assert isinstance(actions, spaces.Discrete)
    if actions.start != 0:
        return wrappers.TransformAction(env, lambda action: action + actions.start, spaces.Discrete(actions.n))
    return env


def _make(section: Environment, atari: bool, render_mode: str | None) -> Env:
    # AtariPreprocessing skips frames and reads the screen itself: the environment's own observation may be the cheapest
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
