"""What an agent's forward pass costs, by engine: CPU time per pass, by itself and between the steps of emulators.

    python benchmarks/acting.py kart cartpole          # or pong, pong_small

Between emulators is what counts: these evict an engine's code and data from a core's cache. Weights change several
times a second, so every engine takes them as inputs. One process, one thread, engines in turn; "ONNX Runtime" needs
kartrl[onnx].
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import io
import logging
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from gymnasium.spaces import Discrete

from kartrl.acting import recording
from kartrl.acting.program import Runner, draw
from kartrl.acting.published_weights import published
from kartrl.config import Model, read
from kartrl.envs import make_group
from kartrl.envs.observation_spec import plain
from kartrl.envs.spec import ActionSpec
from kartrl.envs.worlds import load_world
from kartrl.hardware.machine import keep_freed_memory
from kartrl.metrics.tables import make_console
from kartrl.models import VALUE, ActorCritic, for_inference

ROUNDS = 40
KINDS = {
    "kart": (Model(), (54, 52, 1), 9),
    "pong": (Model(encoder="nature", hidden_size=512), (84, 84, 4), 6),
    "pong_small": (Model(), (84, 84, 4), 6),
    "cartpole": (Model(), (4,), 2),
}
Pass = Callable[..., object]  # of observation, first, state and noise


def in_pytorch(network: ActorCritic) -> Pass:
    network = for_inference(network)

    @torch.inference_mode()
    def run(*arguments: np.ndarray) -> object:
        return network.act(*map(torch.from_numpy, arguments), False)[0].numpy()  # type: ignore[call-arg, arg-type]

    return run


def recorded(network: ActorCritic, section: Model, shape: tuple[int, ...], action: ActionSpec, batch: int) -> Pass:
    (program,) = (recording.record(section, plain(*shape), action, VALUE, [batch]) or {}).values()
    runner = Runner(program)
    runner.load(torch.cat([tensor.detach().flatten() for tensor in published(network)]).numpy())
    return runner


class Whole(torch.nn.Module):
    def __init__(self, network: ActorCritic) -> None:
        super().__init__()
        self.network = network

    def forward(self, *arguments: torch.Tensor) -> torch.Tensor:
        return self.network.act(*arguments, False)[0]  # type: ignore[call-arg, arg-type]


def exported(network: ActorCritic, arguments: tuple[np.ndarray, ...]) -> Pass:
    """The graph of `torch.export`, as a module."""
    with torch.no_grad():
        program = torch.export.export(Whole(network), tuple(map(torch.from_numpy, arguments))).module()

    @torch.inference_mode()
    def run(*arguments: np.ndarray) -> object:
        return program(*map(torch.from_numpy, arguments)).numpy()

    return run


def in_onnx(network: ActorCritic, arguments: tuple[np.ndarray, ...]) -> Pass:
    """ONNX Runtime: weights are inputs, bound once to the memory in which they lie."""
    names = ["observation", "first", "state", "noise"]
    file = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            Whole(network), tuple(map(torch.from_numpy, arguments)), input_names=names, verbose=False
        )
        assert program is not None
        program.save(file)
    model = onnx.load_from_string(file.getvalue())
    weights: dict[str, Any] = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    given = {name: array for name, array in weights.items() if array.dtype == np.float32 and array.ndim}
    for name, array in given.items():
        model.graph.input.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, array.shape))
    kept = [each for each in model.graph.initializer if each.name not in given]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding, used = session.io_binding(), [each.name for each in session.get_inputs()]
    for name, array in given.items():
        binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(array.copy()))
    (output,) = (each.name for each in session.get_outputs())

    def run(*arguments: np.ndarray) -> object:
        for name, argument in zip(names, arguments, strict=True):
            if name in used:
                binding.bind_cpu_input(name, argument)
        binding.bind_output(output)
        session.run_with_iobinding(binding)
        return binding.copy_outputs_to_cpu()[0]

    return run


def main(names: list[str]) -> None:
    logging.disable(logging.WARNING)  # of the export
    torch.set_num_threads(1)
    keep_freed_memory()
    recording.MOST_PRODUCTS = 1 << 40
    config = load_world(read()).prepare(make_console())
    group, random = make_group(config, 4), np.random.default_rng(0)
    group.reset(1)
    print("network, observations: us by itself, between emulators")
    for name in names or KINDS:
        section, shape, number = KINDS[name]
        action = ActionSpec.of(Discrete(number))
        fp32, bf16 = (
            ActorCritic(section.model_copy(update={"precision": precision}), plain(*shape), action).eval()
            for precision in ("fp32", "bf16")
        )
        for batch in (1, 2, 4, 8):
            image = len(shape) == 3
            seen = random.integers(0, 256, (batch, *shape), np.uint8) if image else random.standard_normal((batch, 4))
            arguments = (
                seen if image else seen.astype(np.float32),
                np.zeros(batch, bool),
                np.zeros((batch, 0), np.float32),
                draw(random, batch, fp32.distribution.noises),
            )
            engines = {
                "PyTorch": in_pytorch(fp32),
                "PyTorch, bf16": in_pytorch(bf16),
                "torch.export": exported(fp32, arguments),
                "ONNX Runtime": in_onnx(fp32, arguments),
                "NumPy": recorded(fp32, section, shape, action, batch),
            }
            words = []
            times: dict[tuple[str, bool], list[float]] = {}
            for between in (False, True):
                for _ in range(ROUNDS):
                    for engine, run in engines.items():
                        if between:
                            group.step(random.integers(0, 9, 4))
                        start = time.thread_time_ns()
                        run(*arguments)
                        times.setdefault((engine, between), []).append((time.thread_time_ns() - start) / 1e3)
            for engine in engines:
                alone, other = (statistics.median(times[engine, between]) for between in (False, True))
                words.append(f"{engine} {alone:.0f} {other:.0f}")
            print(f"{name}, {batch}: {'; '.join(words)}", flush=True)
    group.close()


if __name__ == "__main__":
    main(sys.argv[1:])
