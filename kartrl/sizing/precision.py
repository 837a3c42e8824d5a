"""Chooses the precision for `model.precision = auto` on this machine."""

import time
from collections.abc import Callable

import torch

from kartrl.config import Config
from kartrl.envs.spec import EnvSpec
from kartrl.hardware.devices import learner_device, one_thread
from kartrl.models import make_network

OBSERVATIONS = 128  # twice as many frames are about a minibatch; with fewer, overhead hides what bf16 saves
FEWEST_TRIALS, MOST_TRIALS, SECONDS = 3, 8, 0.4  # trials of each precision; no more begin after this long
FASTER = 1.05  # by this factor, for bf16 to be worth its rounding


def resolve_precision(config: Config, spec: EnvSpec) -> Config:
    """The configuration with `model.precision` chosen, if it is auto; takes a fraction of a second.

    bf16 if the hardware can multiply it, and a forward and a backward pass were measured to be faster with it; fp32
    for vectors, which are never bf16, and in reproducible runs, which must not depend on a measurement.
    """
    if config.model.precision != "auto":
        return config
    precision = "fp32"
    if len(spec.observation_shape) == 3 and not config.run.reproducible:
        device = learner_device(config.system)
        if multiplies_bf16(device):
            seconds = _pass_seconds(config, spec, device)
            precision = "bf16" if seconds["bf16"] * FASTER < seconds["fp32"] else "fp32"
    return config.model_copy(update={"model": config.model.model_copy(update={"precision": precision})})


def multiplies_bf16(device: torch.device) -> bool:
    """Whether the device has instructions for products of bfloat16; without them, bf16 is slower than fp32."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    able = torch.cpu.get_capabilities()
    return device.type == "mps" or any(able.get(kind) for kind in ("amx_bf16", "avx512_bf16", "bf16"))


def _pass_seconds(config: Config, spec: EnvSpec, device: torch.device) -> dict[str, float]:
    """Seconds for a forward and a backward pass on a minibatch, by precision: the minimum of a few trials each.

    In turn and on one thread: the fork server, which is loading PyTorch meanwhile, slows down whatever runs on all of a
    machine's cores.
    """
    times: dict[str, list[float]] = {"fp32": [], "bf16": []}
    with one_thread():
        passes = {name: _make_pass(config, spec, name, device) for name in times}
        began = time.perf_counter()
        for trial in range(MOST_TRIALS):
            if trial >= FEWEST_TRIALS and time.perf_counter() - began > SECONDS:
                break
            for name, pass_ in passes.items():
                start = time.perf_counter()
                pass_()
                times[name].append(time.perf_counter() - start)
    return {name: min(seconds) for name, seconds in times.items()}


def _make_pass(config: Config, spec: EnvSpec, precision: str, device: torch.device) -> Callable[[], None]:
    """A forward and a backward pass of a new network."""
    section = config.model.model_copy(update={"precision": precision, "torchscript": False})
    network = make_network(section, spec.observation_shape, spec.action).to(device)
    shape = (2, OBSERVATIONS, *spec.observation_shape)  # two steps: a recurrent core costs the same in either precision
    observation = torch.zeros(shape, dtype=getattr(torch, spec.observation_dtype), device=device)
    first = torch.zeros(shape[:2], dtype=torch.bool, device=device)

    def forward_backward() -> None:
        output, _ = network(observation, first, network.initial_state(OBSERVATIONS))
        (output.policy.sum() + output.value.sum()).backward()
        if device.type == "cuda":
            torch.cuda.synchronize()

    return forward_backward
