"""Losses and gradients of small networks as NumPy's operations: PyTorch's dispatch and autograd take several times as
long as their arithmetic does."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
from torch import Tensor

from kartrl.acting.operators import OPERATORS
from kartrl.acting.recording import Recording, used
from kartrl.learning.graphed_loss import Capture, Unrecorded
from kartrl.models import ActorCritic
from kartrl.models.encoders import MlpEncoder

FEWEST_STEPS = 32  # of a minibatch
LARGEST_PRODUCT = 2**18  # multiplications in a matrix product; NumPy's library shares larger ones among the cores
TOLERANCE = 1e-3

Result = TypeVar("Result")


class RecordedWork:
    """Records work on a CPU as operations on NumPy arrays, in the memory of the tensors that the work reads."""

    def __call__(self, work: Callable[[], Result]) -> tuple[Result, Callable[[], None]]:
        """See `Capture`.

        Raises:
            Unrecorded: not all of its operations are in `OPERATORS`, or they are large.
        """
        with Recording(live=True) as recorder:
            result = work()
        if unknown := {operation.name for operation in recorder.operations} - OPERATORS.keys():
            raise Unrecorded(", ".join(sorted(unknown)))
        if recorder.largest > LARGEST_PRODUCT:
            raise Unrecorded(f"a product of {recorder.largest:,} multiplications")
        outputs = [(recorder.place(tensor), tensor.detach().numpy()) for tensor in _tensors(result)]
        operations = [
            (OPERATORS[name], inputs, output)
            for name, inputs, output in used(recorder.operations, [place for place, _ in outputs])
        ]
        values: list[Any] = [None] * recorder.size
        for place, value in recorder.constants.items():
            values[place] = value

        def replay() -> None:
            with np.errstate(all="ignore"):  # as PyTorch
                for function, inputs, output in operations:
                    values[output] = function(*[values[place] for place in inputs])
                for place, array in outputs:
                    np.copyto(array, values[place])

        expected = [array.copy() for _, array in outputs]
        try:
            replay()
        except Exception as error:
            raise Unrecorded(str(error)) from error
        if not all(
            np.allclose(array, before, TOLERANCE, TOLERANCE, equal_nan=True)
            for (_, array), before in zip(outputs, expected, strict=True)
        ):
            raise Unrecorded("other results")
        return result, replay


def capture_for(network: ActorCritic) -> Capture | None:
    """What records a learner's work, if it may be small enough: of feed-forward networks for vectors, on the CPU."""
    parameters = list(network.parameters())
    small = max(each.numel() for each in parameters) * FEWEST_STEPS <= LARGEST_PRODUCT
    vectors = isinstance(network.trunk.encoder, MlpEncoder) and not network.state_size
    return RecordedWork() if small and vectors and parameters[0].device.type == "cpu" else None


def _tensors(result: Any) -> Iterator[Tensor]:
    """The tensors in a result, which may consist of tuples and None."""
    if isinstance(result, Tensor):
        yield result
    elif isinstance(result, tuple):
        for each in result:
            yield from _tensors(each)
