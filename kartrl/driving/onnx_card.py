"""The card of an ONNX file: what goes in, what comes out, and how the environment's observations are made."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import wrappers

from kartrl import __version__
from kartrl.config import settings
from kartrl.driving.driver import Driver
from kartrl.envs.observation_spec import ObservationSpec
from kartrl.envs.spec import ActionSpec, Binary, Continuous, Discrete, describe, leaves
from kartrl.envs.wrappers.observations import Packed
from kartrl.envs.wrappers.parts import parts_of as all_parts
from kartrl.envs.wrappers.vectors import ToVector, vector_converter, vector_size
from kartrl.models import ActorCritic

Env = gymnasium.Env[Any, Any]
FEW = 64  # numbers whose bounds the card lists


class Part(NamedTuple):
    """An input for a part of observations."""

    name: str  # "observation", or "observation.NAME"
    dtype: str
    shape: tuple[int, ...]
    low: Any  # a number, or one for each number; None: no bound
    high: Any
    meaning: str


def describe_file(driver: Driver, network: ActorCritic, parts: Sequence[Part], masked: bool) -> dict[str, Any]:
    """The card, but for the equality with the source."""
    action = ActionSpec.of(driver.env.action_space)
    return {
        "kartrl": __version__,
        "agent_steps": driver.agent_steps,
        "environment": _environment(driver),
        "inputs": _inputs(parts, network.state_size, action, masked),
        "outputs": _outputs(network, action),
        "action": _decoding(driver.env, action),
    }


def parts_of(env: Env, spec: ObservationSpec) -> list[Part]:
    """The inputs for observations, in the order of the network's."""
    if vector := next((wrapper for wrapper in _chain(env) if isinstance(wrapper, ToVector)), None):
        return [_vector(name, leaf) for name, leaf in _named(vector.env) if vector_size(leaf)]
    spaces = {name: leaf for packed in _chain(env) if isinstance(packed, Packed) for name, leaf in _named(packed.env)}
    return [
        Part(_input(part.name), "uint8", part.shape, 0, 255, "an image as kartrl.make_env gives it")
        if part.is_image
        else _vector(part.name, spaces[part.name])
        for part in spec.parts
    ]


def _named(env: Env) -> Iterator[tuple[str, gymnasium.Space[Any]]]:
    return ((part.name, part.space) for part in all_parts(env.observation_space))


def _vector(name: str, space: gymnasium.Space[Any]) -> Part:
    low, high, meaning = 0.0, 1.0, "one-hot"
    if isinstance(space, gymnasium.spaces.Box):
        convert = vector_converter(space)
        ends = [convert(end) for end in (space.low, space.high)]
        low, high = (_bounds(end) for end in ends)
        meaning = "numbers as they are" if space.dtype.kind == "f" else "numbers, bounded ones scaled to 0 to 1"
    elif isinstance(space, gymnasium.spaces.MultiBinary):
        meaning = "bits"
    return Part(_input(name), "float32", (vector_size(space),), low, high, f"{describe(space)}: {meaning}")


def _bounds(ends: np.ndarray) -> Any:
    values = [float(end) if np.isfinite(end) else None for end in ends]
    if len(set(values)) == 1:
        return values[0]
    return values if len(values) <= FEW else None


def _input(name: str) -> str:
    return f"observation.{name}" if name else "observation"


def _chain(env: Env) -> Iterator[Env]:
    while isinstance(env, gymnasium.Wrapper):
        yield env
        env = env.env
    yield env


def _inputs(parts: Sequence[Part], state: int, action: ActionSpec, masked: bool) -> list[dict[str, Any]]:
    described = [
        {
            "name": part.name,
            "dtype": part.dtype,
            "shape": ["batch", *part.shape],
            "low": part.low,
            "high": part.high,
            "meaning": part.meaning,
        }
        for part in parts
    ]
    if state:
        meaning = "zeros where an episode begins, else next_state of the step before"
        described.append(_entry("state", "float32", [state], meaning))
    if masked:
        meaning = "info['action_mask'], part after part: 1 if an alternative is legal, else 0; of bits, 2: either"
        size = sum(part.parameter_size for part in action.parts if not isinstance(part, Continuous))
        described.append(_entry("mask", "int8", [size], meaning) | {"low": 0, "high": 2})
    return described


def _outputs(network: ActorCritic, action: ActionSpec) -> list[dict[str, Any]]:
    entries = [
        _entry(*(("action", "int64", []) if action.choices else ("action", "float32", [action.columns])), "greedy"),
        _entry("policy", "float32", [action.parameter_size], "parameters of the distribution: see action"),
        _entry("value", "float32", [], "expected discounted return of the rewards that training saw"),
    ]
    return entries + [_entry("next_state", "float32", [network.state_size], "")] * bool(network.state_size)


def _entry(name: str, dtype: str, shape: list[int], meaning: str) -> dict[str, Any]:
    return {"name": name, "dtype": dtype, "shape": ["batch", *shape], "meaning": meaning}


def _decoding(env: Env, action: ActionSpec) -> dict[str, Any]:
    """How an environment's action is made of the outputs, by kind."""
    own = next((wrapper.env for wrapper in _chain(env) if isinstance(wrapper, wrappers.TransformAction)), env)
    parts: list[dict[str, Any]] = []
    column = parameter = 0
    for part in action.parts:
        place = {"columns": [column, column + part.columns], "policy": [parameter, parameter + part.parameter_size]}
        column, parameter = column + part.columns, parameter + part.parameter_size
        if isinstance(part, Discrete):
            parts.append({"kind": "discrete", **place, "sizes": part.sizes, "policy_is": "log-probabilities"})
        elif isinstance(part, Binary):
            parts.append({"kind": "binary", **place, "policy_is": "logits of ones"})
        elif isinstance(part, Continuous):
            meaning = "means, then log standard deviations, of numbers of which -1 and 1 are low and high"
            parts.append({"kind": "continuous", **place, "low": part.low, "high": part.high, "policy_is": meaning})
    return {
        "space": describe(own.action_space),
        "parts": parts,
        "environment_takes": [
            {
                "name": name,
                "space": describe(leaf),
                "shape": leaf.shape,
                "start": np.asarray(getattr(leaf, "start", 0)).tolist(),
            }
            for name, leaf in leaves(own.action_space)
        ],
        "meaning": "columns of action, reshaped to each shape; start is added, numbers are clipped to the space",
    }


def _environment(driver: Driver) -> dict[str, Any]:
    config = driver.world.config
    own = ("environment.", *(f"{name}." for name in type(config.world).model_fields))
    return {
        "id": config.environment.id,
        "wrappers": [type(wrapper).__name__ for wrapper in _chain(driver.env)][::-1],
        "settings": {name: value for name, value in settings(config).items() if name.startswith(own)},
        "made_by": "kartrl.make_env(kartrl.read_config(overrides=settings))",
        "levels": [driver.world.name_level(level) for level in driver.levels],
    }
