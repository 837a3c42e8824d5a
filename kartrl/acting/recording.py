"""Records a network's forward pass as a `Program`, from PyTorch's operations while it runs once."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from kartrl.acting.operators import OPERATORS
from kartrl.acting.own_predictor import OwnNetwork
from kartrl.acting.program import Node, Operation, Program, Runner, draw
from kartrl.acting.published_weights import PublishedWeights, published, published_by_name
from kartrl.acting.sizes import Sizes
from kartrl.algorithms import heads_of
from kartrl.config import Config, Model
from kartrl.envs.observation_spec import ObservationSpec
from kartrl.envs.spec import ActionSpec, EnvSpec
from kartrl.hardware.devices import one_thread
from kartrl.models import ActorCritic, make_network

MOST_PRODUCTS = 12_000_000  # in a pass; PyTorch is faster with more, docs/performance.md
MADE = ("zeros", "ones", "full", "arange", "scalar_tensor", "lift_fresh", "_to_copy")  # constants
TOLERANCE = 1e-3


class Recorder:
    """Records operations.

    Args:
        arguments: of the network.
        weights: tensors that change between passes.
        live: everything that is computed depends on tensors that change, in place.
    """

    def __init__(self, arguments: Sequence[Tensor] = (), weights: Sequence[Tensor] = (), live: bool = False) -> None:
        super().__init__()
        self.size, self.products, self.largest = 0, 0, 0
        self._live = live
        self.constants: dict[int, Any] = {}
        self.preparation: list[Operation] = []
        self.operations: list[Operation] = []
        self._places: dict[int, int] = {}  # of tensors, by their identity
        self._alive: list[Tensor] = []  # or another could have their identity
        self._late: set[int] = set()  # values that depend on the arguments
        self._given: set[int] = set()  # values that no operation may change
        self.weights = [self._placed(tensor) for tensor in weights]
        self.arguments = [self._placed(tensor) for tensor in arguments]
        self._given.update(self.weights)
        self._late.update(self.arguments)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        name = function.name().split("::")[1].split(".")[0]
        values = _positional(function, args, kwargs or {})
        if not any(isinstance(value, Tensor | list) for value in values) and name in MADE:
            return result  # a constant when it is used
        if name == "detach":
            self._placed(result, self.place(values[0]))
            return result
        if name == "convolution" and _is_plain(*values):
            x, weight, bias, stride, padding, *_ = values
            self._count(result.numel() * weight[0].numel())
            matrix = self._record("kernel_matrix", [self.place(weight)])
            given = self.place(x), matrix, self.place(bias)
            places = [*given, *(self._constant(tuple(each)) for each in (weight.shape[2:], stride, padding))]
        else:
            if name in ("addmm", "mm"):
                self._count(result.numel() * values[name == "addmm"].shape[-1])
            places = [self.place(value) for value in values]
        if name.endswith("_") and places[0] in self._given:
            name = f"{name} on a weight or an argument"  # no operation of NumPy's
        place = self._record(name, places)
        if isinstance(result, Tensor):
            self._placed(result, place)
        elif isinstance(result, tuple | list):
            for index, each in enumerate(result):
                self._placed(each, self._record("getitem", [place, self._constant(index)]))
        return result

    def place(self, value: Any) -> int:
        """The place of an operation's argument."""
        if isinstance(value, Tensor):
            if (place := self._places.get(id(value))) is None:
                place = self._placed(value)
                self.constants[place] = value.detach().float().numpy() if value.is_floating_point() else value.numpy()
                self._given.add(place)
            return place
        if isinstance(value, list | tuple) and any(isinstance(each, Tensor) for each in value):
            return self._record("list", [self.place(each) for each in value])
        return self._constant(_plain(value))

    def _record(self, name: str, places: Sequence[int]) -> int:
        operation = Operation(name, tuple(places), self._new())
        late = self._live or not self._late.isdisjoint(places)
        (self.operations if late else self.preparation).append(operation)
        (self._late if late else self._given).add(operation.output)
        return operation.output

    def _count(self, products: int) -> None:
        self.products += products
        self.largest = max(self.largest, products)

    def _constant(self, value: Any) -> int:
        place = self._new()
        self.constants[place] = value
        return place

    def _placed(self, tensor: Tensor, place: int | None = None) -> int:
        self._alive.append(tensor)
        self._places[id(tensor)] = place = self._new() if place is None else place
        return place

    def _new(self) -> int:
        self.size += 1
        return self.size - 1


class Recording(Recorder, TorchDispatchMode):
    """Context manager: PyTorch's operations are recorded.

    A mode that defines `__torch_dispatch__` itself loads PyTorch's compiler, for a second.
    """


def own_network(config: Config, spec: EnvSpec, sizes: Sizes, weights: PublishedWeights) -> OwnNetwork:
    """What agents need to run the network themselves, with the weights that are published from now on."""
    batches = [groups * sizes.group_size for groups in range(1, sizes.groups_per_agent + 1)]
    programs = record(config.model, spec.observation, spec.action, heads_of(config), batches)
    return OwnNetwork(weights.share(), programs)


def record(
    section: Model, observation: ObservationSpec, action: ActionSpec, heads: frozenset[str], batches: Sequence[int]
) -> dict[int, Program] | None:
    """The programs of a network for batches of these sizes; None if PyTorch is faster, or has operations of its own.

    They compute in float32, whatever the network's precision.
    """
    section = section.model_copy(update={"precision": "fp32"})
    with torch.random.fork_rng(devices=[]), one_thread(), torch.no_grad():
        network = make_network(section, observation, action, heads).eval()
        try:
            programs = {batch: _program(network, observation, batch) for batch in batches}
            small = max(program.products for program in programs.values()) <= MOST_PRODUCTS
            agree = small and all(_agrees(network, observation, *each) for each in programs.items())
        except Exception:  # a network of the user's own may do anything
            return None
        return programs if agree else None


def _program(network: ActorCritic, observation: ObservationSpec, batch: int, *, any_kind: bool = False) -> Program:
    """The program of a network's `act` for batches of this size.

    Args:
        any_kind: also if it has operations that are not in `OPERATORS`, and so cannot be run.
    """
    arguments, weights = _arguments(network, observation, batch), published_by_name(network)
    with Recording(arguments, [*weights.values()]) as recorder:
        decision, state = _act(network, arguments)
    # also those that no result depends on: by their numbers, the network's code may have chosen what it does
    for operation in (*recorder.preparation, *recorder.operations):
        if operation.name not in OPERATORS and not any_kind:
            raise NotImplementedError(operation.name)
    results = recorder.place(decision), recorder.place(state)
    named = zip(recorder.weights, weights.items(), strict=True)
    return Program(
        recorder.size,
        recorder.constants,
        tuple((place, tuple(tensor.shape), name) for place, (name, tensor) in named),
        tuple(recorder.preparation),
        used(recorder.operations, results),
        tuple(recorder.arguments),
        results,
        network.distribution.noises,
        recorder.products,
        network.state_size,
    )


def used(operations: Sequence[Operation], results: Sequence[int]) -> tuple[Operation, ...]:
    """Those of which the results depend."""
    needed, chosen = set(results), list[Operation]()
    for operation in reversed(operations):
        if operation.output in needed or operation.name.endswith("_"):
            needed.update(operation.inputs)
            chosen.append(operation)
    return tuple(reversed(chosen))


def _arguments(network: ActorCritic, observation: ObservationSpec, batch: int) -> list[Tensor]:
    """Random arguments of `act`, but `greedy`."""
    if observation.dtype == "uint8":
        seen = torch.randint(0, 256, (batch, *observation.shape), dtype=torch.uint8)
        if observation.is_packed:
            seen[..., observation.image_bytes :] = 0  # vectors
    else:
        seen = torch.randn(batch, *observation.shape)
    first, state = torch.rand(batch) < 0.5, torch.randn(batch, network.state_size)
    noise = draw(np.random.default_rng(0), batch, network.distribution.noises)
    arguments = [seen, first, state, torch.from_numpy(noise)]
    return [*arguments, torch.zeros(batch, network.parameter_size)] if network.masked else arguments


def _act(network: ActorCritic, arguments: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    observation, first, state, noise, *restriction = arguments
    return network.act(observation, first, state, noise, False, *restriction)


def _agrees(network: ActorCritic, observation: ObservationSpec, batch: int, program: Program) -> bool:
    """Whether the program gives what the network gives for other arguments, but for rounding."""
    arguments, runner = _arguments(network, observation, batch), Runner(program)
    expected = _act(network, arguments)
    runner.load(torch.cat([tensor.flatten() for tensor in published(network)]).numpy())
    columns = network.distribution.action_columns + 1  # the action may be another, where two are as likely
    found = runner(*(tensor.numpy() for tensor in arguments))
    return all(
        one.shape == other.shape and np.allclose(one, other, TOLERANCE, TOLERANCE)
        for one, other in zip(
            (found[0][:, columns:], found[1]), (expected[0][:, columns:].numpy(), expected[1].numpy()), strict=True
        )
    )


def graph_of(network: ActorCritic, observation: ObservationSpec) -> list[Node]:
    """See `Program.graph`; of any network."""
    with torch.no_grad():
        return _program(network, observation, 1, any_kind=True).graph()


def _is_plain(*convolution: Any) -> bool:
    """Whether these are the arguments of a convolution that `operators.convolution` can do."""
    _, weight, bias, _, _, dilation, transposed, _, groups = convolution
    return weight.dim() == 4 and bias is not None and not transposed and groups == 1 and set(dilation) == {1}


def _positional(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """All arguments of an operation, in its order."""
    schema = function._schema.arguments[len(args) :]
    return [*args, *(kwargs.get(each.name, each.default_value) for each in schema)]


def _plain(value: Any) -> Any:
    """An argument without PyTorch's types."""
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    if isinstance(value, list | tuple):
        return tuple(value)
    return value if isinstance(value, int | float | bool | str | None) else None
