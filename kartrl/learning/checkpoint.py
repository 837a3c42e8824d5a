"""Checkpoints: written atomically, and read without running code or trusting their sizes; see `checkpoint_file`."""

import math
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import safetensors.torch
import torch
from torch import Tensor

from kartrl.algorithms import heads_of, state_of
from kartrl.config import Config, dump, read
from kartrl.envs.named_modules import trust, untrusted_modules
from kartrl.envs.observation_spec import ObservationSpec
from kartrl.envs.spec import ActionSpec
from kartrl.errors import UserError
from kartrl.learning import checkpoint_file
from kartrl.learning.checkpoint_file import FORMAT, NETWORK, CheckpointFile, newest_first
from kartrl.learning.checkpoint_file import newest as newest
from kartrl.learning.counters import Counters
from kartrl.learning.optimizers import state_shapes
from kartrl.models import ActorCritic, make_network

LARGEST_RANDOM = 65_536  # bytes of a random generator's state
GROUPS = (NETWORK, "optimizer", "random", "algorithm")  # of tensors; prefixes of their names
DTYPES = {
    "F32": torch.float32,
    "F16": torch.float16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}  # by safetensors' names


class NotFinite(ValueError):
    """Weights that are not finite; these are not saved."""


class Checkpoint(NamedTuple):
    """Everything needed to resume a run, and to drive."""

    config: Config
    network: dict[str, Tensor]  # float32 (in a file, parameters may be float16), by the names of the network's state
    optimizer: dict[str, Tensor]  # float32, by "<number of the parameter>/<name>"; empty before the first update
    counters: Counters
    observation: ObservationSpec
    action: ActionSpec
    score: float | None = None  # of best.pt, finite; see `BestCheckpoint`
    random: Mapping[str, Tensor] = MappingProxyType(
        {}
    )  # states of the random generators, uint8 [any], by the name of their user
    algorithm: Mapping[str, Tensor] = MappingProxyType({})  # see `Algorithm.state_dict`; empty before the first update
    contents: Mapping[str, str] | None = None  # see `World.contents`; None: unknown
    provenance: Mapping[str, str] = MappingProxyType({})  # see `kartrl.run.provenance`; empty: unknown
    most_envs: int = 1  # see `EnvSpec`; 1 if unknown


def save(path: Path, checkpoint: Checkpoint) -> None:
    """Write to a temporary file, flush to the disk, then rename: readers of `path` see the old file or the new one.

    Raises:
        NotFinite: the weights are not finite.
        OSError: the folder cannot be written to or the disk is full. In both cases `path` is unchanged.
    """
    if not all(bool(tensor.isfinite().all()) for tensor in checkpoint.network.values()):
        raise NotFinite("the weights are not finite")
    content_of(checkpoint).write(path)


def content_of(checkpoint: Checkpoint) -> CheckpointFile:
    """What is saved of a checkpoint."""
    about = {
        "format": FORMAT,
        "config": dump(checkpoint.config, comments=False),
        "counters": checkpoint.counters,
        "observation": checkpoint.observation.as_json(),
        "action": checkpoint.action.as_json(),
        "score": checkpoint.score,
        "contents": None if checkpoint.contents is None else dict(checkpoint.contents),
        "provenance": dict(checkpoint.provenance),
        "most_envs": checkpoint.most_envs,
    }
    return CheckpointFile(about, _arrays(_tensors(checkpoint)))


def load(path: Path) -> Checkpoint:
    """Read a checkpoint: such a file contains no code, and the shapes that it declares are checked against its size.

    Raises:
        UserError: the file is missing, truncated, damaged, not one of ours, or of another network than it declares.
    """
    return checkpoint_file.opened(path, _read)


def check_imports(config: Config) -> None:
    """Refuse a checkpoint's configuration if its environment or network imports a module that is not trusted.

    Raises:
        UserError: it imports a module that is not named in `KARTRL_IMPORT`.
    """
    if text := _untrusted(config):
        raise UserError(f"refused: {text}")


def _untrusted(config: Config) -> str:
    """What is not trusted, and what to do, in one line; "" if all is."""
    for section, what in ((config.environment, f"environment, {config.environment.id},"), (config.model, "network")):
        if unknown := untrusted_modules(section):
            advice = f"export {trust(config.environment, config.model).strip()}"
            return (
                f"this checkpoint's {what} imports the module {unknown[0]}; if it is yours or you trust it, say so "
                f"once, and try again: {advice}"
            )
    return ""


def for_driving(checkpoint: Checkpoint, half: bool) -> Checkpoint:
    """Drop what only a resumed run needs: states of optimizer, algorithm and random generators, digests of levels.

    Its command line and machine, which are the user's own, are dropped too.

    Args:
        half: parameters as float16, which halves the file; running statistics are not converted.

    Raises:
        NotFinite: a parameter is too large for float16.
    """
    weights = dict(checkpoint.network)
    if half:
        weights |= {name: weights[name].half() for name, _ in _outline(checkpoint).named_parameters()}
        if not all(bool(tensor.isfinite().all()) for tensor in weights.values()):
            raise NotFinite("a weight is too large for half precision")
    public = {name: text for name, text in checkpoint.provenance.items() if name in ("version", "packages")}
    return checkpoint._replace(network=weights, optimizer={}, random={}, algorithm={}, contents=None, provenance=public)


def load_network(checkpoint: Checkpoint, device: torch.device) -> ActorCritic:
    """The network of a checkpoint, on `device`, in evaluation mode and fp32: it decides alike on every machine.

    Raises:
        UserError: the weights do not fit the network that the checkpoint's own configuration describes.
    """
    config = checkpoint.config
    section = config.model.model_copy(update={"precision": "fp32"})
    network = make_network(section, checkpoint.observation, checkpoint.action, heads_of(config))
    fit(network, checkpoint.network)
    return network.to(device).eval()


def fit(network: ActorCritic, weights: dict[str, Tensor]) -> None:
    """Load `weights` into `network`.

    Raises:
        UserError: names or shapes differ.
    """
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        raise UserError(f"the checkpoint's weights do not fit this network ({_line(error)})") from error


def newest_readable(run_folder: Path) -> tuple[Path, Checkpoint] | None:
    """The run's newest checkpoint that can be read, and its content; None if there is none."""
    return checkpoint_file.newest_readable(run_folder, load)


def remove_oldest(run_folder: Path, keep: int) -> None:
    """Remove all but the `keep` newest checkpoints of the run; the newest is safe only after `save` has returned."""
    for old in newest_first(run_folder)[keep:]:
        old.unlink(missing_ok=True)


def _read(file: BinaryIO) -> Checkpoint:
    """See `load`. The header is checked before anything else is read."""
    header = checkpoint_file.read_header(file)
    claimed = _describe(header.about, {key: _claimed(entry) for key, entry in header.tensors.items()})
    if header.length + sum(tensor.nbytes for tensor in _tensors(claimed).values()) != header.size:
        raise UserError("damaged: its length does not match its header")
    file.seek(0)
    tensors = safetensors.torch.load(file.read(header.size))  # refuses overlaps, and offsets that do not match
    checkpoint_file.check_digest(header, _arrays(tensors))
    groups = _groups(tensors)
    _, optimizer, random, algorithm = (groups[name] for name in GROUPS)
    network = {name: _widened(tensor) for name, tensor in groups["network"].items()}
    return claimed._replace(network=network, optimizer=optimizer, random=random, algorithm=algorithm)


def _claimed(entry: dict[str, Any]) -> Tensor:
    """A tensor as declared in the header, on the meta device: shape and dtype without memory."""
    return torch.empty(entry["shape"], dtype=DTYPES[entry["dtype"]], device="meta")


def _groups(tensors: dict[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    groups: dict[str, dict[str, Tensor]] = {name: {} for name in GROUPS}
    for key, tensor in tensors.items():
        group, _, name = key.partition("/")
        groups[group][name] = tensor
    return groups


def _tensors(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """All tensors of a checkpoint, by their names in a file."""
    return {f"{group}/{name}": tensor for group in GROUPS for name, tensor in getattr(checkpoint, group).items()}


def _describe(text: str, tensors: dict[str, Tensor]) -> Checkpoint:
    """Make a checkpoint from a description and tensors, whose values are not read."""
    about = checkpoint_file.parse_about(text)
    groups = _groups(tensors)
    checkpoint = Checkpoint(
        config=read(base=about["config"]),
        counters=_counters(*about["counters"]),
        observation=ObservationSpec.from_json(about["observation"]),
        action=ActionSpec.from_json(about["action"]),
        score=None if about["score"] is None else _score(about["score"]),
        contents=None if about.get("contents") is None else dict(about["contents"]),
        provenance=_lines(about.get("provenance", {})),
        most_envs=max(0, int(about.get("most_envs", 1))),
        **groups,
    )
    if untrusted_modules(checkpoint.config.model):  # before the module makes the network
        raise UserError(_untrusted(checkpoint.config))
    _check_tensors(checkpoint)
    return checkpoint


def _counters(agent_steps: int, updates: int, episodes: int, seconds: float, progress: float) -> Counters:
    counters = Counters(int(agent_steps), int(updates), int(episodes), float(seconds), float(progress))
    if not (math.isfinite(counters.seconds) and 0 <= min(counters) <= max(counters) < 2**63 and counters.progress <= 1):
        raise UserError("its counters are invalid")
    return counters


def _lines(texts: dict[str, str]) -> dict[str, str]:
    if not all(text.isprintable() for item in texts.items() for text in item):
        raise UserError("where it comes from is not in lines of text")
    return dict(texts)


def _score(score: float) -> float:
    if not math.isfinite(score):
        raise UserError("its score is not finite")
    return float(score)


def _check_tensors(checkpoint: Checkpoint) -> None:
    """Compare the tensors with the network that the configuration describes, before allocating memory for it."""
    network = _outline(checkpoint)
    halves = {name for name, tensor in checkpoint.network.items() if tensor.dtype == torch.float16}
    widened = {name: _widened(tensor) for name, tensor in checkpoint.network.items()}
    if _types(widened) != _types(network.state_dict()) or not halves <= dict(network.named_parameters()).keys():
        raise UserError("its weights do not fit the network that its configuration describes")
    if checkpoint.optimizer:
        shapes = state_shapes(checkpoint.config.optimizer, network.parameters())
        # parameters that the loss does not depend on, or that are frozen, have none
        moved = {name.partition("/")[0] for name in checkpoint.optimizer}
        shapes = {name: shape for name, shape in shapes.items() if name.partition("/")[0] in moved}
        if _types(checkpoint.optimizer) != {name: (torch.float32, shape) for name, shape in shapes.items()}:
            raise UserError("its optimizer's state does not fit its network")
    if checkpoint.algorithm:
        state = state_of(checkpoint.config, network.state_dict())
        if _types(checkpoint.algorithm) != _types(state):
            raise UserError("its algorithm's state does not fit its network")
    if any(tensor.dtype != torch.uint8 or tensor.nbytes > LARGEST_RANDOM for tensor in checkpoint.random.values()):
        raise UserError("its random states are not bytes, or too many")


def _outline(checkpoint: Checkpoint) -> ActorCritic:
    """The network that the configuration describes, on the meta device: without memory for its weights."""
    with torch.device("meta"):
        config = checkpoint.config
        return ActorCritic(config.model, checkpoint.observation, checkpoint.action, heads_of(config))


def _widened(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype == torch.float16 else tensor


def _types(tensors: Mapping[str, Tensor]) -> dict[str, tuple[torch.dtype, torch.Size]]:
    return {name: (tensor.dtype, tensor.shape) for name, tensor in tensors.items()}


def _arrays(tensors: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    return {name: tensor.detach().cpu().contiguous().numpy() for name, tensor in tensors.items()}


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:160]
