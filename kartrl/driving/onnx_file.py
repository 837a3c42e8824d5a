"""A policy as an ONNX file for other programs, checked against its source, and the card that describes it."""

import importlib.util
import itertools
import logging
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from kartrl import faults
from kartrl.algorithms import heads_of
from kartrl.driving.driver import Driver
from kartrl.driving.episodes import Step, reset_options, steps
from kartrl.driving.onnx_card import Part, describe_file, parts_of
from kartrl.envs import masks
from kartrl.envs.observation_spec import ObservationSpec
from kartrl.envs.spec import ActionSpec, Binary, Discrete
from kartrl.errors import UserError, brief
from kartrl.learning.checkpoint import Checkpoint, fit
from kartrl.models import ActorCritic, Distribution, make_distribution
from kartrl.models.portable import Portable

NEEDED = ("onnx", "onnxscript", "onnxruntime")
OBSERVATIONS = 1000  # on which the file must equal its source
CLOSE = 1e-3  # of the largest number: rounding makes a hundredth of it


def check_installed() -> None:
    """Refuse to begin if a library is missing.

    Raises:
        UserError: says which.
    """
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        raise UserError(f"--onnx needs {' and '.join(missing)}: pip install 'kartrl[onnx]'")


def make_file(driver: Driver, loaded: Checkpoint) -> tuple[bytes, dict[str, Any]]:
    """The ONNX file of a policy, and its card.

    Args:
        driver: of the checkpoint `loaded`, on whose levels the two are compared.

    Raises:
        UserError: it cannot be exported, or differs from its source.
    """
    action, spec = ActionSpec.of(driver.env.action_space), loaded.observation
    samples = [*itertools.islice(_samples(driver), OBSERVATIONS)]
    masked = any(step.info.get(masks.KEY) is not None for step, _ in samples)
    parts = parts_of(driver.env, spec)
    network = _eager(loaded)
    model = Portable(network, spec, action, masked).eval()
    names = [part.name for part in parts] + ["state"] * bool(network.state_size) + ["mask"] * masked
    outputs = ["action", "policy", "value"] + ["next_state"] * bool(network.state_size)
    inputs = _inputs(driver, samples, parts, spec, masked)
    data = _exported(model, [names, outputs], inputs)
    card = describe_file(driver, network, parts, masked)
    return data, card | {"equality": _equality(data, driver, samples, inputs, action)}


def _eager(loaded: Checkpoint) -> ActorCritic:
    section = loaded.config.model.model_copy(update={"precision": "fp32"})
    network = ActorCritic(section, loaded.observation, loaded.action, heads_of(loaded.config))
    fit(cast(Any, network), loaded.network)
    return network


def _exported(model: Portable, names: Sequence[Sequence[str]], inputs: dict[str, np.ndarray]) -> bytes:
    """The file's content: the weights are inside."""
    # of an example of one, a recurrent network's batch would always be one
    example = tuple(torch.from_numpy(array[:2]) for array in inputs.values())
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)  # on torchvision, which it does not need
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # PyTorch 2.13 warns of itself
            program = torch.onnx.export(
                model,
                example,
                input_names=names[0],
                output_names=names[1],
                dynamic_shapes=(tuple({0: "batch"} for _ in example),),
                dynamo=True,
                verbose=False,
            )
        assert program is not None
        file = program.model_proto
        for named in (*file.graph.input, *file.graph.output):
            named.type.tensor_type.shape.dim[0].dim_param = "batch"  # else expressions that are equal to it
        return file.SerializeToString()
    except Exception as error:  # of a layer of the user's own, for instance
        raise UserError(f"--onnx: PyTorch cannot export this network: {brief(error, 300)}") from error
    finally:
        logging.disable(before)


# Real observations


def _samples(driver: Driver) -> Iterator[tuple[Step, bool]]:
    """Steps of sampled episodes on all levels in turn; and whether an episode begins with it."""
    levels = driver.levels or ("",)
    most = max(1, OBSERVATIONS // (2 * len(levels)))  # of an episode, so that several levels are seen
    for seed in itertools.count():
        options = reset_options(driver.world, levels[seed % len(levels)])
        driven = steps(driver.env, driver.network, options, greedy=False, seed=seed)
        for number, step in enumerate(itertools.islice(driven, most)):
            if not step.ended:
                yield step, number == 0
            elif number == 0:
                raise UserError(f"{driver.world.config.environment.id}: its episodes end before their first step")


def _inputs(
    driver: Driver, samples: Sequence[tuple[Step, bool]], parts: Sequence[Part], spec: ObservationSpec, masked: bool
) -> dict[str, np.ndarray]:
    """The inputs for all samples, with the states of the source network."""
    rows = np.stack([step.observation for step, _ in samples])
    begins = spec.begins if spec.is_packed else [*itertools.accumulate([part.shape[0] for part in parts], initial=0)]
    inputs = {}
    for part, begin in zip(parts, begins, strict=False):
        if spec.is_packed:
            size = int(np.prod(part.shape)) * np.dtype(part.dtype).itemsize
            own = np.ascontiguousarray(rows[:, begin : begin + size]).view(part.dtype)
            inputs[part.name] = own.reshape(len(rows), *part.shape)
        else:
            inputs[part.name] = rows if len(parts) == 1 else rows[:, begin : begin + part.shape[0]]
    if states := _states(driver, samples):
        inputs["state"] = np.stack(states)
    if masked:
        legal = np.stack([_restriction(driver, step) for step, _ in samples])
        inputs["mask"] = _mask(ActionSpec.of(driver.env.action_space), legal)
    return inputs


def _states(driver: Driver, samples: Sequence[tuple[Step, bool]]) -> list[np.ndarray]:
    """The state of the source network before each step, [S] each; none if it has none."""
    states: list[np.ndarray] = []
    state = driver.network.initial_state(1)
    for step, first in samples if driver.network.state_size else ():
        state = state * (not first)
        states.append(state[0].numpy())
        state = _source(driver, step.observation[None], state, None)[2]
    return states


@torch.inference_mode()
def _source(
    driver: Driver, observation: np.ndarray, state: Tensor, restriction: np.ndarray | None
) -> tuple[Tensor, Tensor, Tensor]:
    first = torch.zeros(len(observation), dtype=torch.bool)
    legal = None if restriction is None else torch.from_numpy(restriction)
    policy, value, after = driver.network.step(torch.from_numpy(observation), first, state, legal)
    return policy, value * driver.network.return_deviation(), after


def _restriction(driver: Driver, step: Step) -> np.ndarray:
    return masks.restriction(driver.env, step.info.get(masks.KEY))


def _mask(action: ActionSpec, restriction: np.ndarray) -> np.ndarray:
    """The masks, int8 [N, M], that `Portable` takes, of restrictions [N, P]."""
    columns, begin = [], 0
    for part in action.parts:
        own = restriction[:, begin : begin + part.parameter_size]
        begin += part.parameter_size
        if isinstance(part, Binary):
            columns.append(np.where(own == 0, 2, own > 0))
        elif isinstance(part, Discrete):
            columns.append(own == 0)
    return np.concatenate(columns, 1).astype(np.int8)


# Equality


def _equality(
    data: bytes,
    driver: Driver,
    samples: Sequence[tuple[Step, bool]],
    inputs: dict[str, np.ndarray],
    action: ActionSpec,
) -> dict[str, Any]:
    """How far the file is from its source: all samples at once, and one by one with the file's own states.

    Raises:
        UserError: further than by rounding.
    """
    import onnxruntime  # optional: see `check_installed`

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    observation = np.stack([step.observation for step, _ in samples])
    legal = np.stack([_restriction(driver, step) for step, _ in samples])
    size = driver.network.state_size
    state = torch.from_numpy(inputs["state"] if size else np.zeros((len(samples), 0), np.float32))
    policy, value, after = _source(driver, observation, state, legal if "mask" in inputs else None)
    distribution = make_distribution(action, squash=driver.world.config.model.squash_actions)
    source = [
        action.taken(_decided(distribution, policy)),
        policy.numpy(),
        value.numpy(),
        *[after.numpy()] * bool(size),
    ]

    together = session.run(None, inputs)
    singly: list[list[np.ndarray]] = []
    for index, (_, first) in enumerate(samples):
        one = {name: array[index : index + 1] for name, array in inputs.items()}
        if size and not first:
            one["state"] = singly[-1][3]
        singly.append(session.run(None, one))
    both = [together, [np.concatenate(arrays) for arrays in zip(*singly, strict=True)]]
    if any(
        mine.shape != own.shape or mine.dtype != own.dtype
        for got in both
        for mine, own in zip(got, source, strict=True)
    ):
        raise UserError("--onnx: onnxruntime's outputs have other shapes than the network's: nothing is written")
    legal_alone = [slice(None), legal == 0, slice(None), slice(None)]
    differences, largest = [0.0] * 4, [1.0] * 4
    for got in both:
        for place, (mine, own) in enumerate(zip(got, source, strict=True)):
            where = legal_alone[place]
            gap = np.abs(mine[where].astype(np.float64) - own[where])
            differences[place] = max(differences[place], float(gap.max(initial=0.0)))
            largest[place] = max(largest[place], float(np.abs(own[where]).max(initial=0.0)))
    close = faults.value("onnx", CLOSE)
    rounding = close * largest[0] if action.continuous else 0.0
    same = np.mean([_rows(np.abs(got[0].astype(np.float64) - source[0]) <= rounding) for got in both])
    consistent = all(
        np.abs(got[0] - action.taken(_decided(distribution, torch.from_numpy(got[1])))).max() <= rounding
        for got in both
    )
    wrong = [place for place in (1, 2, 3) if not differences[place] <= close * largest[place]]
    if wrong or not consistent:
        raise UserError(
            f"--onnx: onnxruntime computes other numbers than the network, by up to {max(differences[1:]):.3g}: "
            f"nothing is written (onnxruntime {onnxruntime.__version__}, PyTorch {torch.__version__})"
        )
    return {
        "observations": len(samples),
        "policy_max_difference": differences[1],
        "value_max_difference": differences[2],
        **({"state_max_difference": differences[3]} if size else {}),
        "equal_greedy_actions": float(same),
        "onnxruntime": onnxruntime.__version__,
        "torch": torch.__version__,
    }


def _decided(distribution: Distribution, policy: Tensor) -> np.ndarray:
    """The greedy actions of a policy, and a column that `ActionSpec.taken` ignores."""
    return torch.cat([distribution.mode(policy), policy[:, :1]], 1).numpy()


def _rows(equal: np.ndarray) -> np.ndarray:
    """Whether all of each row is, bool [N]."""
    return np.all(equal.reshape(len(equal), -1), axis=1)
