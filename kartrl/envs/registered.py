"""Any other Gymnasium environment, prepared for agents with Gymnasium's and ale-py's own wrappers."""

import contextlib
import dataclasses
import difflib
import importlib.util
import re
import sys
import warnings
from collections.abc import Container
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces, wrappers
from gymnasium.envs.registration import EnvSpec as Registered
from gymnasium.envs.registration import load_env_creator

from kartrl.config import Crop, Environment, View
from kartrl.envs.named_modules import apply_wrapper, import_named, is_own, look_here
from kartrl.envs.wrappers.atari import USUAL, Begin, FireAfterLife, scaled, step_limit
from kartrl.envs.wrappers.checked import Checked
from kartrl.envs.wrappers.observations import prepare_observations, stack_frames
from kartrl.errors import UserError

Env = gymnasium.Env[Any, Any]
OLD_MEMORY = re.compile(r"-ram(?=(NoFrameskip|Deterministic)?-v\d+$)")  # in ids that ale-py no longer registers
NO_FRAMES = "{}: cannot be rendered: 'rgb_array' is not in its metadata's render_modes"


def make_registered(section: Environment, render: bool) -> Env:
    """Make the environment `section.id`: observations uint8 [H, W, C] or float32 [D].

    Raises:
        UserError: Gymnasium has no such environment or lacks a dependency, its spaces are not supported, it cannot
            `render` frames, or `section.wrapper` cannot be applied.
    """
    atari = atari_spec(section)
    if atari is not None and atari.kwargs.get("continuous"):
        raise UserError(f"{section.id}: kwargs.continuous = true: kartrl presses FIRE as a Discrete action; use false")
    made = _make(section, atari is not None, render)
    try:
        if atari is None:
            return prepare_observations(apply_wrapper(made, section), section)
        view = section.view(USUAL)
        game = _atari(made, section.noop_max, view, step_limit(atari.kwargs, view.frame_skip))
        env = apply_wrapper(game, section)
        if section.wrapper == "none":
            return stack_frames(env, view.frame_stack, zeros=True)  # as in AtariVectorEnv
        return prepare_observations(env, section.model_copy(update={"crop": Crop()}), USUAL)
    except UserError as error:
        Checked(made).close()
        raise UserError(f"{section.id}: {error}") from error


def atari_spec(section: Environment) -> Registered | None:
    """The spec of ale-py's environment `section.id`, with `section.kwargs`.

    None if it is not one of ale-py's, or if its observations are the RAM.

    Raises:
        UserError: it is one, but ale-py is not installed.
    """
    name = section.id.rpartition(":")[2]
    if name not in gymnasium.registry:
        if importlib.util.find_spec("ale_py") is not None:
            _register_atari()
        elif name.startswith("ALE/"):
            raise UserError(f"{name} needs ale-py: pip install 'kartrl[atari]'")
    spec = gymnasium.registry.get(name)
    if spec is None or spec.entry_point != "ale_py.env:AtariEnv":
        return None
    kwargs = spec.kwargs | section.kwargs
    return None if kwargs.get("obs_type") == "ram" else dataclasses.replace(spec, kwargs=kwargs)


def known_ids() -> dict[str, int | None]:
    """All ids that Gymnasium and, if it is installed, ale-py have registered; with the episodes' limit of steps."""
    if importlib.util.find_spec("ale_py") is not None:
        _register_atari()
    return {name: spec.max_episode_steps for name, spec in sorted(gymnasium.registry.items())}


def _make(section: Environment, atari: bool, render: bool) -> Env:
    # AtariPreprocessing skips frames and reads the screen itself, so the environment's own observation is the cheapest
    settings = dict(section.kwargs)
    if atari:  # the limits are those of `_atari`
        settings |= dict.fromkeys(("max_episode_steps", "max_num_frames_per_episode")) | {
            "frameskip": 1,
            "obs_type": "ram",
        }
    look_here(section)
    name = section.id.rpartition(":")[2]
    if ":" in section.id:
        _register_function(import_named("id", section.id), name)
    if versions := [other for other in gymnasium.registry if re.fullmatch(re.escape(name) + r"-v\d+", other)]:
        # Gymnasium would choose one, and kartrl prepares each id in its own way
        newest = max(versions, key=lambda other: int(other.rpartition("-v")[2]))
        raise UserError(f"[environment] id = {section.id}: name its version, such as {newest}")
    mode = settings.get("render_mode")
    if render and mode in (None, "human"):
        settings["render_mode"] = "rgb_array"
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*render_mode='rgb_array' that is not in the possible")
            env = gymnasium.make(section.id, disable_env_checker=True, **settings)
        if render and "rgb_array" not in ((env.metadata or {}).get("render_modes") or ()):
            Checked(env).close()
            raise UserError(NO_FRAMES.format(section.id))
        if not render and mode is None and env.render_mode == "human":  # the default of some: a window for each
            with contextlib.suppress(AttributeError):
                env.unwrapped.render_mode = None
        return env
    except (gymnasium.error.DependencyNotInstalled, ModuleNotFoundError) as error:  # the id is known
        raise UserError(f"{section.id}: {error}") from error
    except gymnasium.error.Error as error:
        text = re.sub(r" Did you mean:.*", "", str(error))  # Gymnasium also suggests dissimilar ids
        raise UserError(f"[environment] id: {text}{_advice(section.id, error)}") from error
    except Exception as error:
        if render and ("keyword argument 'render_mode'" in str(error) or not _may_render(name)):
            raise UserError(NO_FRAMES.format(section.id)) from error
        raise


def _register_function(module: ModuleType, name: str) -> None:
    """Register the module's own function or class of this name, if there is one and no environment has this id."""
    function = vars(module).get(name)
    known = gymnasium.registry.get(name)
    if callable(function) and is_own(module, function) and (known is None or callable(known.entry_point)):
        gymnasium.registry.pop(name, None)
        gymnasium.register(name, entry_point=function)


def _may_render(name: str) -> bool:
    """Whether a registered environment may render frames, as far as its class tells."""
    creator: Any = gymnasium.registry[name].entry_point
    creator = load_env_creator(creator) if isinstance(creator, str) else creator
    metadata = getattr(creator, "metadata", None)
    return not isinstance(metadata, dict) or "rgb_array" in (metadata.get("render_modes") or ())


def _advice(wanted: str, error: Exception) -> str:
    """What to try if there is no environment of this id."""
    retro = importlib.util.find_spec("stable_retro")
    folder = None if retro is None or retro.origin is None else Path(retro.origin).parent / "data"
    if folder is not None and re.fullmatch(r"[\w-]+", wanted) and any(folder.glob(f"*/{wanted}")):
        return f" Nearest: retro/{wanted}"
    if near := _nearest(wanted):
        memory = "; for its memory, set environment.kwargs.obs_type=ram" if OLD_MEMORY.search(wanted) else ""
        return f" Nearest: {', '.join(near)}{memory}"
    if wanted.rpartition(":")[2] in _registered_with_gym():
        return " It is one of the old Gym: make it by shimmy.GymV21CompatibilityV0(env=...) in a module of your own"
    if ":" in wanted or not isinstance(error, gymnasium.error.NameNotFound | gymnasium.error.NamespaceNotFound):
        return ""
    return f" If a package or a file of yours registers it, name that module too: --set environment.id=module:{wanted}"


def _registered_with_gym() -> Container[str]:
    """Ids of the old Gym, if that has been imported."""
    registry: Any = getattr(sys.modules.get("gym.envs.registration"), "registry", {})
    ids: Container[str] = getattr(registry, "env_specs", registry)
    return ids


def _register_atari() -> None:
    import ale_py

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # or each agent prints a banner
    gymnasium.register_envs(ale_py)


def _nearest(wanted: str) -> list[str]:
    """Up to three ids with names similar to that of `wanted`, in any namespace: Pong-v5 means ALE/Pong-v5."""
    if importlib.util.find_spec("ale_py") is not None:
        _register_atari()
    specs = sorted(gymnasium.registry.values(), key=lambda spec: (spec.version or 0, spec.namespace is None))
    newest = {spec.name.lower(): spec for spec in specs}
    current = re.sub(r"Deterministic(?=-v\d+$)", "NoFrameskip", OLD_MEMORY.sub("", wanted))  # frames are skipped here
    name = re.sub(r"-v\d+$", "", re.split("[:/]", current)[-1]).lower()
    if name in newest:
        return [newest[name].id]
    return [newest[near].id for near in difflib.get_close_matches(name, newest, n=3, cutoff=0.75)]


def _atari(env: Env, noop_max: int, view: View, limit: int) -> Env:
    rows, columns = env.unwrapped.ale.getScreenDims()  # type: ignore[attr-defined]
    screen = spaces.Box(0, 255, (rows, columns) if view.grayscale else (rows, columns, 3), np.uint8)
    height, width, crop = scaled(view, lambda: (rows, columns))
    processed = wrappers.AtariPreprocessing(
        # of its observations only the shape is used
        wrappers.TransformObservation(Begin(env, noop_max), lambda memory: memory, screen),
        noop_max=0,
        frame_skip=view.frame_skip,
        screen_size=(width, height),
        grayscale_obs=view.grayscale,
        grayscale_newaxis=True,
    )
    shape = (view.height, view.width, 1 if view.grayscale else 3)
    seen = (
        processed
        if crop == Crop()
        else wrappers.TransformObservation(
            processed, lambda image: image[crop.rows, crop.columns], spaces.Box(0, 255, shape, np.uint8)
        )
    )
    return FireAfterLife(wrappers.TimeLimit(seen, limit))  # Gymnasium would count frames
