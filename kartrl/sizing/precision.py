"""Chooses the precision for `model.precision = auto` on this machine, and refuses bf16 where its values are wrong."""

import time
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from kartrl.acting.sizes import Sizes
from kartrl.config import Config, Model
from kartrl.config.algorithms import A3C
from kartrl.config.chosen import chosen, is_auto
from kartrl.envs.observation_spec import ObservationSpec
from kartrl.envs.spec import EnvSpec
from kartrl.hardware.devices import choose_device, learner_device, one_thread, predictor_device
from kartrl.learning.learner import PART_STEPS
from kartrl.models import make_network
from kartrl.models.encoders import make_part_encoder

OBSERVATIONS = 128  # twice as many frames are about a minibatch; with fewer, overhead hides what bf16 saves
FEWEST_TRIALS, MOST_TRIALS, SECONDS = 3, 8, 0.4  # trials of each precision; no more begin after this long
FASTER = 1.05  # by this factor, for bf16 to be worth its rounding
TOLERANCE = 0.03  # of the largest value; rounding to bf16 is a tenth of it, what a wrong kernel leaves out far more
MOST_NUMBERS = 4_000_000  # in a layer's output when precisions are compared: larger batches would take seconds


def resolve_precision(config: Config, spec: EnvSpec) -> Config:
    """The configuration with `model.precision` chosen, if it is auto; takes a fraction of a second.

    bf16 if the hardware can multiply it, and a forward and a backward pass were measured to be faster with it; fp32
    for vectors, which are never bf16, and in reproducible runs, which must not depend on a measurement.
    """
    if config.model.precision != "auto":
        return config
    precision = "fp32"
    if spec.observation.has_images and not config.run.reproducible:
        device = learner_device(config.system)
        if multiplies_bf16(device):
            seconds = pass_seconds(config, spec, device)
            precision = "bf16" if seconds["bf16"] * FASTER < seconds["fp32"] else "fp32"
    return _with_precision(config, precision)


def right_precision(config: Config, spec: EnvSpec, sizes: Sizes, say: Callable[[str], None]) -> Config:
    """The configuration with fp32 instead of bf16 if bf16 gives wrong values or gradients on a device of the run.

    Args:
        config: with `model.precision` resolved.
        sizes: batches of these sizes are compared, for acting and learning.
        say: gets a line if precision changes.
    """
    system, learners = config.system, range(config.system.learners)
    devices = [of(system, rank) for rank in learners for of in (learner_device, predictor_device)]
    if isinstance(config.own, A3C) and config.own.hogwild:
        devices = [choose_device(system.device if name == "auto" else name) for name in config.own.devices]
    unrolls = min(sizes.training_blocks * sizes.group_size + sizes.replayed, max(1, PART_STEPS // sizes.unroll_length))
    steps = getattr(config.own, "minibatch_size", PART_STEPS)
    learning = [unrolls, unrolls * sizes.unroll_length, min(steps, PART_STEPS)]  # last steps, all others, single steps
    for device in {device.type: device for device in devices}.values():
        for batches, threads in (
            (acting_batches(sizes), sizes.torch_threads if sizes.predictors else 1),
            (learning, sizes.torch_threads),
        ):
            if (layer := wrong_in_bf16(config.model, spec.observation, batches, device, threads)) is not None:
                say(wrong(layer, device))
                return _with_precision(config, "fp32")
    return config


def acting_batches(sizes: Sizes) -> list[int]:
    """Numbers of observations that go through the network at once for acting: of one group, and of all together."""
    return [sizes.group_size, sizes.prediction_groups * sizes.group_size]


def wrong(layer: str, device: torch.device) -> str:
    """The line that says why a network is not in bf16."""
    return (
        f"PyTorch {torch.__version__} gives wrong values for {layer} in bf16 on this machine ({device.type}): the "
        "model is in fp32 instead"
    )


def wrong_in_bf16(
    section: Model, observation: ObservationSpec, batches: Iterable[int], device: torch.device, threads: int = 1
) -> str | None:
    """A layer of the encoder whose values or gradients are wrong in bf16 on this device, in words, or None.

    On CPUs with AMX, PyTorch 2.13 leaves out parts of some convolutions' sums, without an error.

    Args:
        section: the network; unless it has layers in bf16, nothing is computed.
        observation: whose images are compared, each by itself.
        batches: numbers of observations; of layers with large outputs, at most `MOST_NUMBERS` are compared.
        threads: of PyTorch's operations.
    """
    if section.precision != "bf16" or section.encoder == "mlp" or ":" in section.encoder:
        return None
    batches, section = [*batches], section.model_copy(update={"precision": "fp32"})
    with one_thread():
        torch.set_num_threads(threads)
        for image in observation.images:
            encoder = make_part_encoder(section, image.shape).to(device)
            if (layer := wrong_layer(encoder, image.shape, batches)) is not None:
                return layer
    return None


def wrong_layer(encoder: nn.Module, shape: tuple[int, ...], batches: Iterable[int]) -> str | None:
    """The first layer whose outputs or gradients in bf16 are not those in fp32 but for rounding, in words, or None.

    Args:
        encoder: called with random frames, uint8 [N, *shape]; compared are its innermost modules with parameters.
        batches: values of N.
    """
    largest = max((output for *_, output in _calls(encoder, shape, 1)), default=1)
    right = set()
    for batch in sorted({min(batch, max(1, MOST_NUMBERS // largest)) for batch in batches}):
        for layer, x, _ in _calls(encoder, shape, batch):
            kind = str(layer), x.shape
            if kind not in right and not _agrees(layer, x):
                return f"{layer} on inputs {[*x.shape]}"
            right.add(kind)
    return None


def _calls(encoder: nn.Module, shape: tuple[int, ...], batch: int) -> list[tuple[nn.Module, Tensor, int]]:
    """Each call of a layer in a forward pass: the layer, its input, and how many numbers its output has."""
    calls: list[tuple[nn.Module, Tensor, int]] = []

    def note(layer: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
        (x,) = inputs
        calls.append((layer, x.detach().clone().requires_grad_(x.requires_grad), output.numel()))

    layers = [layer for layer in encoder.modules() if not [*layer.children()] and [*layer.parameters()]]
    hooks = [layer.register_forward_hook(note) for layer in layers]
    encoder(_frames((batch, *shape)).to(next(encoder.parameters()).device))
    for hook in hooks:
        hook.remove()
    return calls


def _agrees(layer: nn.Module, x: Tensor) -> bool:
    """Whether outputs and gradients in both precisions differ only by rounding; an image's gradient is not needed."""
    ahead: Tensor | None = None  # a random gradient with respect to the output
    results: list[list[Tensor]] = []
    for dtype in (torch.float32, torch.bfloat16):
        own = x.detach().to(dtype).requires_grad_(x.requires_grad)
        output = layer(own)
        ahead = torch.rand(output.shape, generator=_generator()).to(x.device) - 0.5 if ahead is None else ahead
        of = [tensor for tensor in (own, *layer.parameters()) if tensor.requires_grad]
        # of a number: for the gradient of others PyTorch loads its symbolic shapes, 40 MB and a third of a second
        results.append([output.detach(), *torch.autograd.grad((output * ahead.to(dtype)).sum(), of)])
    return all(
        bool((one.float() - other.float()).abs().max() <= TOLERANCE * one.abs().max())  # False for NaN
        for one, other in zip(*results, strict=True)
    )


def _frames(shape: tuple[int, ...]) -> Tensor:
    """Random frames, uint8."""
    return torch.randint(0, 256, shape, generator=_generator(), dtype=torch.uint8)


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def _with_precision(config: Config, precision: str) -> Config:
    value = chosen(precision) if is_auto(config.model.precision) else precision
    return config.model_copy(update={"model": config.model.model_copy(update={"precision": value})})


def multiplies_bf16(device: torch.device) -> bool:
    """Whether the device has instructions for products of bfloat16; without them, bf16 is slower than fp32."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    able = torch.cpu.get_capabilities()
    return device.type == "mps" or any(able.get(kind) for kind in ("amx_bf16", "avx512_bf16", "bf16"))


def pass_seconds(config: Config, spec: EnvSpec, device: torch.device) -> dict[str, float]:
    """Seconds for a forward and a backward pass on a minibatch, by precision: the minimum of a few trials each.

    In turn and on one thread: the fork server, which is loading PyTorch meanwhile, slows down whatever runs on all of a
    machine's cores.
    """
    times: dict[str, list[float]] = {"fp32": [], "bf16": []}
    with one_thread():
        passes = {name: make_pass(config, spec, name, device) for name in times}
        began = time.perf_counter()
        for trial in range(MOST_TRIALS):
            if trial >= FEWEST_TRIALS and time.perf_counter() - began > SECONDS:
                break
            for name, pass_ in passes.items():
                start = time.perf_counter()
                pass_()
                times[name].append(time.perf_counter() - start)
    return {name: min(seconds) for name, seconds in times.items()}


def make_pass(config: Config, spec: EnvSpec, precision: str, device: torch.device) -> Callable[[], None]:
    """A forward and a backward pass of a new network, on random frames."""
    section = config.model.model_copy(update={"precision": precision})
    network = make_network(section, spec.observation, spec.action).to(device)
    # two steps: a recurrent core costs the same in either precision
    observation = _frames((2, OBSERVATIONS, *spec.observation.shape)).to(device)
    if spec.observation.is_packed:
        observation[..., spec.observation.image_bytes :] = 0  # vectors
    first = torch.zeros(2, OBSERVATIONS, dtype=torch.bool, device=device)

    def forward_backward() -> None:
        output, _ = network(observation, first, network.initial_state(OBSERVATIONS))
        (output.policy.sum() + output.value.sum()).backward()
        if device.type == "cuda":
            torch.cuda.synchronize()

    return forward_backward
