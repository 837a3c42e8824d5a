"""A network's forward pass as a list of operations on NumPy arrays, recorded from the network itself (`recording`).

Between two steps of an emulator, PyTorch takes several times as long for its dispatch as a small network's arithmetic
does, and an agent that does without it has a third of the memory (docs/performance.md).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from kartrl.acting.operators import OPERATORS


class Operation(NamedTuple):
    """One operation: values are numbered in the order in which they were recorded."""

    name: str  # in `OPERATORS`
    inputs: tuple[int, ...]
    output: int


class Program(NamedTuple):
    """`ActorCritic.act` for batches of one size."""

    size: int  # number of values
    constants: dict[int, Any]
    weights: tuple[tuple[int, tuple[int, ...]], ...]  # value and shape of each, in the order of published weights
    preparation: tuple[Operation, ...]  # what depends on the weights alone
    operations: tuple[Operation, ...]
    arguments: tuple[int, ...]  # observation, first, state, noise and, if there are masks, restriction
    results: tuple[int, ...]  # decision and next state
    noise: tuple[tuple[str, int], ...]  # kind and columns, see `draw`
    products: int  # multiplications of all matrix products and convolutions


class Runner:
    """Runs a program with the newest weights, given by `load`."""

    def __init__(self, program: Program) -> None:
        self._values: list[Any] = [None] * program.size
        for place, value in program.constants.items():
            self._values[place] = value
        self._arguments, self._results = program.arguments, program.results
        self._weights = program.weights
        self._preparation, self._operations = (
            [(OPERATORS[name], inputs, output) for name, inputs, output in each]
            for each in (program.preparation, program.operations)
        )

    def load(self, flat: np.ndarray) -> None:
        """Take weights, float32 [n]; they are not copied."""
        begin = 0
        for place, shape in self._weights:
            end = begin + int(np.prod(shape))
            self._values[place] = flat[begin:end].reshape(shape)
            begin = end
        self._run(self._preparation)

    def __call__(self, *arguments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The decision, float32 [B, K], and the next state, float32 [B, S]; arguments as in `ActorCritic.act`."""
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
    """Noise for `ActorCritic.act`, float32 [batch, any]: columns of each kind, a method of NumPy's generators."""
    columns = [getattr(random, kind)((batch, number), np.float32) for kind, number in noise]
    return columns[0] if len(columns) == 1 else np.concatenate(columns, 1)
