"""A network's forward pass as a list of operations on NumPy arrays, recorded from the network itself (`recording`).

Between two steps of an emulator, PyTorch takes several times as long for its dispatch as a small network's arithmetic
does, and an agent that does without it has a third of the memory (docs/performance.md).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from kartrl.acting.operators import EACH, OPERATORS

Node = tuple[str, str, list[str]]  # of a graph: name, kind, and names of its inputs
SMALLEST = np.finfo(np.float32).tiny
STILL = {"standard_exponential": 1.0, "standard_normal": 0.0, "random": 0.5}
"""Of each kind of noise, that with which the most likely action is drawn."""


class Operation(NamedTuple):
    """One operation: values are numbered in the order in which they were recorded."""

    name: str  # in `OPERATORS`
    inputs: tuple[int, ...]
    output: int


class Program(NamedTuple):
    """`ActorCritic.act` for batches of one size."""

    size: int  # number of values
    constants: dict[int, Any]
    weights: tuple[tuple[int, tuple[int, ...], str], ...]  # value, shape and name of each published one, in order
    preparation: tuple[Operation, ...]  # what depends on the weights alone
    operations: tuple[Operation, ...]
    arguments: tuple[int, ...]  # observation, first, state, noise and, if there are masks, restriction
    results: tuple[int, ...]  # decision and next state
    noise: tuple[tuple[str, int], ...]  # kind and columns, see `draw`
    products: int  # multiplications of all matrix products and convolutions
    state_size: int  # S

    @property
    def masked(self) -> bool:
        """Whether it takes a restriction."""
        return len(self.arguments) > 4

    def graph(self) -> list[Node]:
        """The operations; those of a layer share its scope."""
        names = dict(zip(self.arguments, ("observation", "first", "state", "noise", "restriction"), strict=False))
        names |= {place: name.replace(".", "/") for place, _, name in self.weights}
        nodes: list[Node] = [(name, "Weight" if "/" in name else "Input", []) for name in names.values()]
        for operation in sorted((*self.preparation, *self.operations), key=lambda each: each.output):
            inputs = [names[place] for place in operation.inputs if place in names]
            scope = inputs[-1].rpartition("/")[0] if inputs else ""
            names[operation.output] = name = f"{scope}/{operation.name}_{operation.output}".lstrip("/")
            nodes.append((name, operation.name, inputs))
        return nodes


class Runner:
    """Runs a program with the newest weights, given by `load`.

    Args:
        each: with results that do not depend, to the bit, on how many others are in a batch; a little slower.
    """

    def __init__(self, program: Program, each: bool = False) -> None:
        self._values: list[Any] = [None] * program.size
        for place, value in program.constants.items():
            self._values[place] = value
        self._arguments, self._results = program.arguments, program.results
        self._weights = program.weights
        self._preparation, self._operations = (
            [((EACH if each else OPERATORS)[name], inputs, output) for name, inputs, output in operations]
            for operations in (program.preparation, program.operations)
        )
        self._newer: np.ndarray | None = None  # weights that are prepared when they are needed

    def load(self, flat: np.ndarray) -> None:
        """Take weights, float32 [n]; they are not copied, so they must stay as they are."""
        self._newer = flat

    def _prepare(self, flat: np.ndarray) -> None:
        begin = 0
        for place, shape, _ in self._weights:
            end = begin + int(np.prod(shape))
            self._values[place] = flat[begin:end].reshape(shape)
            begin = end
        self._run(self._preparation)

    def __call__(self, *arguments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The decision, float32 [B, K], and the next state, float32 [B, S]; arguments as in `ActorCritic.act`."""
        if self._newer is not None:
            self._prepare(self._newer)
            self._newer = None
        for place, value in zip(self._arguments, arguments, strict=True):
            self._values[place] = value
        self._run(self._operations)
        decision, state = self._results
        return self._values[decision], self._values[state]

    def _run(self, operations: Sequence[tuple[Callable[..., Any], tuple[int, ...], int]]) -> None:
        values = self._values
        with np.errstate(all="ignore"):  # as PyTorch
            for function, inputs, output in operations:
                values[output] = function(*[values[place] for place in inputs])


def draw(random: np.random.Generator, batch: int, noise: Sequence[tuple[str, int]]) -> np.ndarray:
    """Noise for `ActorCritic.act`, float32 [batch, any]: columns of each kind, a method of NumPy's generators.

    Exponential noise is never 0, as NumPy's is once in 7 million: that would select even an illegal action.
    """
    columns = [getattr(random, kind)((batch, number), np.float32) for kind, number in noise]
    for column, (kind, _) in zip(columns, noise, strict=True):
        if kind == "standard_exponential":
            np.maximum(column, SMALLEST, out=column)
    return columns[0] if len(columns) == 1 else np.concatenate(columns, 1)


def still(batch: int, noise: Sequence[tuple[str, int]]) -> np.ndarray:
    """As `draw`, for the most likely actions."""
    return np.concatenate([np.full((batch, number), STILL[kind], np.float32) for kind, number in noise], 1)
