"""Losses and gradients as recorded work, such as CUDA graphs: one launch for hundreds of kernels, which take longer to
launch than to run."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar, cast

import torch
from torch import Tensor

from kartrl.algorithms import Algorithm
from kartrl.algorithms.algorithm import Batch, Loss
from kartrl.learning.optimizers import in_layout
from kartrl.trajectory import WITHOUT_TIME, Trajectory

SEEN = 4  # minibatches of a shape before its graph is captured, which takes as long as some of them
MOST = 8  # graphs; minibatches of other shapes do without
WARM_UPS = 3  # libraries choose their algorithms in the first calls
PADDED_STEPS = 32  # minibatches are padded to a multiple of about so many steps, so that there are few shapes

Result = TypeVar("Result")
Gradients = tuple[Tensor | None, ...]
LossAndGradients = Callable[[Batch], tuple[Loss, Gradients]]


class Unrecorded(Exception):
    """A `Capture` cannot record this work."""


class Capture(Protocol):
    """Records work on a device; the tensors of its result are overwritten by each call of the function returned.

    Raises:
        Unrecorded: it cannot.
    """

    def __call__(self, work: Callable[[], Result]) -> tuple[Result, Callable[[], None]]: ...


class CudaCapture:
    """Captures CUDA graphs on the current stream; they share memory, so only one may run at a time."""

    def __init__(self) -> None:
        self._pool: Any = None

    def __call__(self, work: Callable[[], Result]) -> tuple[Result, Callable[[], None]]:
        """See `Capture`; other threads may use the device meanwhile."""
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        for _ in range(WARM_UPS):
            work()
        with torch.cuda.graph(graph, pool=self._pool, stream=stream, capture_error_mode="thread_local"):
            result = work()
        self._pool = self._pool or graph.pool()
        return result, graph.replay


class GraphedLoss:
    """Computes loss and gradients of minibatches: of a frequent shape by its graph, of others as they are.

    Args:
        gradients: computes the loss, without its autograd graph, and the gradients of a batch, without waiting for the
            device.
        algorithm: whose loss it is; what it reads from `progress` and `return_deviation` is a tensor in a graph.
        parameters: in the order of the gradients, and in whose memory layout these are.
        capture: records a graph.
    """

    def __init__(
        self,
        gradients: LossAndGradients,
        algorithm: Algorithm[Any],
        parameters: Sequence[Tensor],
        capture: Capture,
    ) -> None:
        self._gradients, self._algorithm = gradients, algorithm
        self._parameters, self._capture = parameters, capture
        self._seen: dict[Any, int] = {}
        self._graphs: dict[Any, LossAndGradients] = {}

    def __call__(self, batch: Batch) -> tuple[Loss, Gradients]:
        """The loss and gradients of a batch; the next call may overwrite the gradients."""
        shape = self._shape(batch)
        graph = self._graphs.get(shape)
        if graph is None:
            self._seen[shape] = self._seen.get(shape, 0) + 1
            if self._seen[shape] <= SEEN or len(self._graphs) == MOST:
                return self._gradients(batch)
            try:
                graph = _Graph(batch, _padded(batch), self._laid_out, self._algorithm, self._capture)
            except Unrecorded:
                graph = self._gradients
            self._graphs[shape] = graph
        return graph(batch)

    def _laid_out(self, batch: Batch) -> tuple[Loss, Gradients]:
        """Loss and gradients, these in the memory layout of their parameters."""
        loss, gradients = self._gradients(batch)
        return loss, tuple(map(in_layout, gradients, self._parameters))

    def _shape(self, batch: Batch) -> Any:
        """What decides which graph a batch needs."""
        shapes = tuple(tensor.shape[:axis] + tensor.shape[axis + 1 :] for tensor, axis in _tensors(batch))
        return self._algorithm.describes, tuple(batch.targets), shapes, _padded(batch)


class _Graph:
    """The graph of one shape of minibatches, with the tensors that it reads.

    Padding consists of invalid steps, which have no weight in any loss, and are finite where the batch is.
    """

    def __init__(
        self, batch: Batch, width: int, gradients: LossAndGradients, algorithm: Algorithm[Any], capture: Capture
    ) -> None:
        kept = iter([_widened(tensor, axis, width) for tensor, axis in _tensors(batch)])
        trajectory = Trajectory(*(next(kept) for _ in batch.trajectory))
        targets = dict(zip(batch.targets, kept, strict=True))
        device = trajectory.reward.device
        self._algorithm = algorithm
        self._steps = torch.ones((), device=device)
        self._progress, self._deviation = (torch.ones((), device=device) for _ in range(2))
        self._batch = Batch(trajectory, targets, self._steps)

        def work() -> tuple[Tensor, Tensor, Gradients]:
            numbers = algorithm.progress, algorithm.return_deviation
            algorithm.progress, algorithm.return_deviation = cast(Any, self._progress), cast(Any, self._deviation)
            try:
                loss, of_parameters = gradients(self._batch)
            finally:
                algorithm.progress, algorithm.return_deviation = numbers
            self._terms, self._quantities = tuple(loss.terms), tuple(loss.steps)
            return torch.stack([loss.total, *loss.terms.values()]), torch.stack([*loss.steps.values()]), of_parameters

        self._fill(batch)
        (self._of_terms, self._of_steps, self._of_parameters), self._replay = capture(work)

    def __call__(self, batch: Batch) -> tuple[Loss, Gradients]:
        self._fill(batch)
        self._replay()
        number = batch.trajectory.reward.shape[1]
        total, *terms = self._of_terms.clone().unbind()  # the next minibatch overwrites them
        steps = self._of_steps[:, :, :number].clone().unbind()
        named_terms = dict(zip(self._terms, terms, strict=True))
        named_steps = dict(zip(self._quantities, steps, strict=True))
        return Loss(total, named_terms, named_steps, batch.trajectory.valid), self._of_parameters

    @torch.no_grad()
    def _fill(self, batch: Batch) -> None:
        """Copy a batch to where the graph reads it."""
        number = batch.trajectory.reward.shape[1]
        tensors = list(_tensors(self._batch))
        rows = [kept.narrow(axis, 0, number) for kept, axis in tensors]
        torch._foreach_copy_(rows, [tensor for tensor, _ in _tensors(batch)])
        if padding := self._batch.trajectory.reward.shape[1] - number:  # by the first unroll, but invalid
            # zeros could be a most likely action, and 0 times a ratio that is not finite would not be 0
            places = [kept.narrow(axis, number, padding) for kept, axis in tensors]
            first = [
                kept.narrow(axis, 0, 1).expand_as(place) for (kept, axis), place in zip(tensors, places, strict=True)
            ]
            torch._foreach_copy_(places, first)
            self._batch.trajectory.valid[:, number:] = False
        self._steps.copy_(torch.as_tensor(batch.steps))
        self._progress.fill_(self._algorithm.progress)
        self._deviation.fill_(self._algorithm.return_deviation)


def _tensors(batch: Batch) -> Iterator[tuple[Tensor, int]]:
    """All tensors of a batch, and the dimension of the unrolls in each."""
    for name, field in batch.trajectory._asdict().items():
        yield field, int(name not in WITHOUT_TIME)
    for target in batch.targets.values():
        yield target, 1


def _widened(tensor: Tensor, axis: int, width: int) -> Tensor:
    """An empty tensor for so many unrolls: 0 where nothing is written."""
    shape = list(tensor.shape)
    shape[axis] = width
    return torch.zeros(shape, dtype=tensor.dtype, device=tensor.device)


def _padded(batch: Batch) -> int:
    """Number of unrolls to which a batch is padded."""
    length, number = batch.trajectory.reward.shape
    multiple = max(1, PADDED_STEPS // length)
    return -(-number // multiple) * multiple
