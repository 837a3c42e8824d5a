"""What the rest of kartrl needs to know of an environment, as data: shapes, kinds of actions, bounds."""

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from kartrl.envs.observation_spec import ObservationSpec
from kartrl.errors import UserError

LARGEST_POLICY = 131_072  # parameters of a policy's distribution
NO_BOUND = 1e30  # some environments give the largest float instead of infinity


class Part(ABC):
    """One kind of actions: its d columns of an action, and its p parameters of the policy's distribution."""

    @property
    @abstractmethod
    def columns(self) -> int:
        """d."""

    @property
    @abstractmethod
    def parameter_size(self) -> int:
        """p."""

    @property
    @abstractmethod
    def title(self) -> str:
        """For display, such as `6 actions`."""

    @abstractmethod
    def sample(self, random: np.random.Generator, restriction: np.ndarray) -> np.ndarray:
        """Actions of decisions, float32 [G, d], sampled uniformly from those that restrictions [G, p] allow."""

    @abstractmethod
    def is_valid(self) -> bool:
        """Whether its fields are, which a file may have given any values."""

    def taken(self, action: np.ndarray) -> np.ndarray:
        """Actions as they are taken, from those of decisions, float32 [G, d] both."""
        return action


@dataclass(frozen=True)
class Discrete(Part):
    """Choices by index, such as Gymnasium's Discrete and MultiDiscrete; parameters are log-probabilities."""

    sizes: tuple[int, ...]  # number of alternatives of each choice

    @property
    def columns(self) -> int:
        return len(self.sizes)

    @property
    def parameter_size(self) -> int:
        return sum(self.sizes)

    @property
    def title(self) -> str:
        sizes = " x ".join(map(str, self.sizes))
        return _counted(self.sizes[0]) if self.columns == 1 else f"{_counted(self.columns, 'discrete')} ({sizes})"

    def sample(self, random: np.random.Generator, restriction: np.ndarray) -> np.ndarray:
        scores = np.split(random.random(restriction.shape) + restriction, np.cumsum(self.sizes)[:-1], axis=1)
        return np.stack([score.argmax(1) for score in scores], 1).astype(np.float32)

    def is_valid(self) -> bool:
        return all(type(size) is int and size >= 1 for size in self.sizes)


@dataclass(frozen=True)
class Binary(Part):
    """Bits, such as Gymnasium's MultiBinary; parameters are the logits of ones."""

    size: int

    @property
    def columns(self) -> int:
        return self.size

    @property
    def parameter_size(self) -> int:
        return self.size

    @property
    def title(self) -> str:
        return _counted(self.size, "binary")

    def sample(self, random: np.random.Generator, restriction: np.ndarray) -> np.ndarray:
        return (random.random(restriction.shape) + restriction > 0.5).astype(np.float32)

    def is_valid(self) -> bool:
        return type(self.size) is int and self.size >= 1


@dataclass(frozen=True)
class Continuous(Part):
    """Numbers, such as Gymnasium's Box; -1 and 1 are scaled to the bounds; parameters are means and log deviations."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    @property
    def columns(self) -> int:
        return len(self.low)

    @property
    def parameter_size(self) -> int:
        return 2 * len(self.low)

    @property
    def title(self) -> str:
        return _counted(self.columns, "continuous")

    def sample(self, random: np.random.Generator, restriction: np.ndarray) -> np.ndarray:
        """See `Part`: within the bounds up to rounding; nothing restricts them."""
        return random.uniform(-1, 1, (len(restriction), self.columns)).astype(np.float32)

    def is_valid(self) -> bool:
        bounds = zip(self.low, self.high, strict=True)
        return len(self.low) > 0 and all(-math.inf < low < high < math.inf for low, high in bounds)

    def taken(self, action: np.ndarray) -> np.ndarray:
        low, high = np.array(self.low, np.float32), np.array(self.high, np.float32)
        return low + (action + 1) * (0.5 * (high - low))


KINDS: dict[str, type[Part]] = {"discrete": Discrete, "binary": Binary, "continuous": Continuous}


@dataclass(frozen=True)
class ActionSpec:
    """An environment's action space: one part, or several of other kinds, each chosen independently of the others.

    Columns of an action and parameters of its distribution are those of the parts, one after another.
    """

    parts: tuple[Part, ...]
    masked: bool = field(default=False, compare=False)  # the environment gives masks, see `kartrl.envs.masks`

    @classmethod
    def of(cls, space: gymnasium.Space[Any]) -> "ActionSpec":
        """The `ActionSpec` of a space; Tuple and Dict are flattened in Gymnasium's order.

        Raises:
            UserError: it has parts that are not supported, none at all, or too many.
        """
        parts = [part for part in (_part(leaf, name) for name, leaf in leaves(space)) if part.columns]
        joined = (_joined(list(same)) for _, same in itertools.groupby(parts, type))
        spec = cls(tuple(joined))
        if not 1 <= spec.parameter_size <= LARGEST_POLICY:
            raise UserError(
                f"its actions are {describe(space)}; their policy would have {spec.parameter_size:,} parameters, and "
                f"kartrl takes 1 to {LARGEST_POLICY:,}"
            )
        return spec

    @property
    def columns(self) -> int:
        """D, the number of columns of an action."""
        return sum(part.columns for part in self.parts)

    @property
    def parameter_size(self) -> int:
        """P, the number of parameters of the policy's distribution."""
        return sum(part.parameter_size for part in self.parts)

    @property
    def choices(self) -> int:
        """Number of alternatives if an action is a single choice, else 0."""
        only = self.parts[0]
        return only.sizes[0] if isinstance(only, Discrete) and self.columns == 1 else 0

    @property
    def continuous(self) -> bool:
        """Whether it contains continuous numbers."""
        return any(isinstance(part, Continuous) for part in self.parts)

    @property
    def title(self) -> str:
        """For display: `6 actions`, or `3 binary actions and 1 continuous action`."""
        return _shortened(" and ".join(part.title for part in self.parts))

    def taken(self, decision: np.ndarray) -> np.ndarray:
        """Actions to take for decisions [G, K]: int64 [G] if each is a single choice, else float32 [G, D]."""
        if self.choices:
            return decision[:, 0].astype(np.int64)
        each = np.split(decision, np.cumsum([part.columns for part in self.parts]), axis=1)[:-1]
        taken = [part.taken(action) for part, action in zip(self.parts, each, strict=True)]
        return taken[0] if len(taken) == 1 else np.concatenate(taken, 1)

    def sample(self, random: np.random.Generator, restriction: np.ndarray) -> np.ndarray:
        """Actions to take, sampled uniformly from those that restrictions, float32 [G, P], allow; see `taken`."""
        each = np.split(restriction, np.cumsum([part.parameter_size for part in self.parts])[:-1], axis=1)
        return self.taken(
            np.concatenate([part.sample(random, own) for part, own in zip(self.parts, each, strict=True)], 1)
        )

    def as_json(self) -> list[list[Any]]:
        """For `from_json`: the kind and the fields of each part."""
        names = {kind: name for name, kind in KINDS.items()}
        return [[names[type(part)], *vars(part).values()] for part in self.parts]

    @classmethod
    def from_json(cls, description: Sequence[Sequence[Any]]) -> "ActionSpec":
        """The inverse of `as_json`.

        Raises:
            UserError: its sizes or bounds are invalid.
            Exception: any, if it is malformed.
        """
        fields = ((tuple(value) if isinstance(value, list) else value for value in part[1:]) for part in description)
        spec = cls(tuple(KINDS[part[0]](*values) for part, values in zip(description, fields, strict=True)))
        if not (all(part.is_valid() for part in spec.parts) and 1 <= spec.parameter_size <= LARGEST_POLICY):
            raise UserError("its actions are invalid")
        return spec


class EnvSpec(NamedTuple):
    """Properties of an environment, determined before training."""

    title: str
    observation: ObservationSpec
    action: ActionSpec
    step_seconds: float  # per step in one process
    mirrored: tuple[int, ...] = ()  # for each action, the one that does the same in a mirrored image; (): unknown
    upside_down: bool = False  # the mirror exchanges up and down, not left and right
    left_out: tuple[str, ...] = ()  # names of the text parts of its observations, which networks do not read
    most_envs: int = 0  # that a process can have; 0: no limit is known
    limit: str = ""  # why it cannot have more
    renders: bool = True  # whether it says that it renders frames
    normalising: tuple[str, ...] = ()  # keys that do what wrappers do by running statistics, which no checkpoint holds
    faint: tuple[str, ...] = ()  # parts of its observations that use little of the range that they declare
    large: tuple[str, ...] = ()  # parts of its observations that are large numbers
    rewards: tuple[float, float] = (0.0, 0.0)  # the lowest and the highest of some random steps
    unseeded: Literal["", "zero", "any"] = ""  # seeds of which two resets begin different episodes
    unused_mask: str = ""  # where it says which actions are legal, if that is not `info`
    remark: str = ""  # see `World.remark`


LONGEST = 160  # characters of a description


def describe(space: gymnasium.Space[Any], name: str = "") -> str:
    """The space on one line, shortened: NumPy spreads long bounds over several; and the name of the part that it is."""
    return _shortened(" ".join(str(space).split())) + f" (at {name})" * bool(name)


def leaves(space: gymnasium.Space[Any], name: str = "") -> Iterator[tuple[str, gymnasium.Space[Any]]]:
    """The parts of nested Dict and Tuple spaces, with their names, in the order in which Gymnasium flattens them."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        for key, part in parts:
            yield from leaves(part, f"{name}.{key}" if name else str(key))
    else:
        yield name, space


def columns_of(space: gymnasium.Space[Any], names: tuple[str, ...]) -> list[tuple[str, tuple[str, ...]]]:
    """Of each column of an action its name, which may be "", and the names of its alternatives, () if they have none.

    Args:
        names: see `World.action_names`.
    """
    columns = list[tuple[str, tuple[str, ...]]]()
    for name, leaf in leaves(space):
        part = _part(leaf, name)
        own = [f"{name} {place}" if name and part.columns > 1 else name for place in range(1, part.columns + 1)]
        own = [*names] if isinstance(part, Binary) and len(names) == part.columns else own
        sizes = part.sizes if isinstance(part, Discrete) else (0,) * part.columns
        columns += [(word, names * (len(names) == size)) for word, size in zip(own, sizes, strict=True)]
    return columns


def has_bound(bound: np.ndarray) -> np.ndarray:
    """Where floats have this bound, bool."""
    return np.abs(bound.astype(np.float64)) < NO_BOUND  # NO_BOUND would overflow, with a warning, as float16


def _part(space: gymnasium.Space[Any], name: str) -> Part:
    """A space that is no Dict or Tuple.

    Args:
        name: where it is in the action space.
    """
    if isinstance(space, spaces.Discrete):
        return Discrete((int(space.n),))
    if isinstance(space, spaces.MultiDiscrete):
        return Discrete(tuple(space.nvec.ravel().tolist()))
    if isinstance(space, spaces.MultiBinary):
        return Binary(math.prod(space.shape))
    if isinstance(space, spaces.Box):
        low, high = space.low.ravel(), space.high.ravel()
        if space.dtype.kind == "f" and (has_bound(low) & has_bound(high) & (low < high)).all():
            return Continuous(tuple(low.tolist()), tuple(high.tolist()))
    raise UserError(
        f"its actions are {describe(space, name)}; kartrl takes Discrete, MultiDiscrete and MultiBinary ones, Box "
        "ones of floats with finite bounds, low < high, and Tuple and Dict of these; environment.action_bounds gives "
        "floats other bounds, or none"
    )


def _joined(parts: Sequence[Any]) -> Part:
    """Parts of one kind as one."""
    fields = zip(*(vars(part).values() for part in parts), strict=True)
    return type(parts[0])(*(sum(values[1:], values[0]) for values in fields))


def _counted(number: int, kind: str = "") -> str:
    return f"{number} {kind}{' ' * bool(kind)}action{'s' * (number > 1)}"


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
