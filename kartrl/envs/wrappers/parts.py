"""The parts of Dict and Tuple observations: their names, and which of them the network sees."""

import itertools
import re
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import getitem
from typing import Any, NamedTuple

import gymnasium
from gymnasium import spaces

from kartrl.config.wording import nearest
from kartrl.errors import UserError

Env = gymnasium.Env[Any, Any]
Space = gymnasium.Space[Any]
KEY = "environment.observation_parts"
ALL = ("all",)
MOST_TOLD = 12  # names in a message


class Part(NamedTuple):
    """A part of observations that is neither Dict nor Tuple."""

    name: str  # such as `camera.left`; "" if there is no other
    keys: tuple[Any, ...]  # where it is
    space: Space

    def of(self, observation: Any) -> Any:
        return reduce(getitem, self.keys, observation)


def parts_of(space: Space) -> list[Part]:
    """The parts of nested Dict and Tuple spaces, in the order in which Gymnasium flattens them.

    Raises:
        UserError: two have the same name.
    """
    parts = [Part(".".join(map(_word, keys)), keys, leaf) for keys, leaf in _paths(space)]
    names = sorted(part.name for part in parts)
    for one, other in itertools.pairwise(names):
        if one == other:
            raise UserError(f"two parts of its observations have the same name, {one}: rename one of them in a wrapper")
    return parts


class ChosenParts(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Some parts of observations: a Dict of them by name, or the only one by itself.

    Args:
        chosen: these parts.
        left_out: names of text parts that nobody asked to leave out.
    """

    def __init__(self, env: Env, chosen: Sequence[Part], left_out: tuple[str, ...] = ()) -> None:
        super().__init__(env)
        self._parts, self.left_out = chosen, left_out
        only = chosen[0].space if len(chosen) == 1 else None
        self.observation_space = only or spaces.Dict([(part.name, part.space) for part in chosen])

    def observation(self, observation: Any) -> Any:
        if len(self._parts) == 1:
            return self._parts[0].of(observation)
        return {part.name: part.of(observation) for part in self._parts}


def choose_parts(env: Env, names: Sequence[str]) -> Env:
    """`env` with these parts of its observations; of all parts, without those that are text, if there are others.

    Args:
        names: of parts, or of a Dict or Tuple for all in it; or `ALL`.

    Raises:
        UserError: there is no such part.
    """
    space = env.observation_space
    parts = parts_of(space)
    if tuple(names) != ALL:
        return ChosenParts(env, _named(names, parts))
    words = [part for part in parts if part.space.dtype is not None and part.space.dtype.kind == "U"]
    if not 0 < len(words) < len(parts):
        return env
    left_out = tuple(part.name for part in words)
    return ChosenParts(env, [part for part in parts if part.name not in left_out], left_out)


def left_out(env: Env) -> tuple[str, ...]:
    """Names of the text parts of the environment's observations, which are not passed to the network."""
    return tuple(env.get_wrapper_attr("left_out")) if env.has_wrapper_attr("left_out") else ()


def _named(names: Sequence[str], parts: Sequence[Part]) -> list[Part]:
    """The parts with these names, in the order of the space."""
    if not (parts and parts[0].keys):
        raise UserError(f"{KEY} = {' '.join(names)}: its observations have no parts; leave it out")
    known = [part.name for part in parts]
    above = dict.fromkeys(
        ".".join(words[:count]) for words in (name.split(".") for name in known) for count in range(1, len(words))
    )
    for name in names:
        if name not in known and name not in above:
            near = nearest(name, [*known, *above])
            raise UserError(f"{KEY}: there is no part {name}; the nearest is {near}, of {told(known)}")
    return [part for part in parts if any(part.name == name or part.name.startswith(f"{name}.") for name in names)]


def told(names: Sequence[str]) -> str:
    """Names of parts, for a message."""
    return ", ".join([*names[:MOST_TOLD], *["..."] * (len(names) > MOST_TOLD)])


def _paths(space: Space, keys: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Space]]:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        for key, part in space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces):
            yield from _paths(part, (*keys, key))
    else:
        yield keys, space


def _word(key: Any) -> str:
    """A key as a word that a configuration can hold."""
    word = re.sub(r"[\s,]+", "_", str(key))
    return word if word.isprintable() else ascii(word)[1:-1]
