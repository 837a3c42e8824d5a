"""What a node and the learner tell each other: calls, unrolls, and reports."""

from typing import NamedTuple

import numpy as np

from kartrl.acting.messages import EpisodeEnd
from kartrl.envs.spec import EnvSpec
from kartrl.metrics.stopwatch import AGENT_STAGES, PREDICTOR_STAGES
from kartrl.trajectory import Trajectory


class Greeting(NamedTuple):
    """Sent by a node once it can act."""

    host: str
    spec: EnvSpec
    envs: int  # that it steps
    agents: int
    known: bytes  # what it has found out about its place, for its replacement there


class Call(NamedTuple):
    """A call of `Node.next_unrolls`, as passed on to the node's process."""

    weights: np.ndarray | None  # float32 [n]; None if they are not newer than the previous ones
    version: int  # of the weights
    enough: int  # unrolls to wait for


class NodeState(NamedTuple):
    """The state of a node, with counts since it started."""

    agents: int = 0  # living
    deaths: int = 0  # of agents
    predictions: int = 0
    batches: int = 0  # of predictors
    quarantined: int = 0  # unrolls with non-finite numbers
    agent_seconds: tuple[float, ...] = (0.0,) * len(AGENT_STAGES)  # of all agents together, by stage
    predictor_seconds: tuple[float, ...] = (0.0,) * len(PREDICTOR_STAGES)


class Delivery(NamedTuple):
    """The answer to a call of `Node.next_unrolls`."""

    unrolls: Trajectory[np.ndarray]  # of whole blocks; without observations if these are packed
    packed: bytes | None  # observations [B, T + 1, ...], compressed with LZ4
    episodes: list[EpisodeEnd]  # ended since the previous call
    messages: list[str]  # for the user
    state: NodeState


def pack(unrolls: Trajectory[np.ndarray]) -> tuple[Trajectory[np.ndarray], bytes]:
    """The unrolls without observations, and these compressed unroll by unroll, as consecutive frames are alike."""
    import lz4.block

    shape = unrolls.observation.shape
    packed = lz4.block.compress(np.ascontiguousarray(unrolls.observation.swapaxes(0, 1)))
    return unrolls._replace(observation=np.empty((*shape[:2], 0, *shape[2:]), np.uint8)), packed


def unpack(delivery: Delivery) -> Trajectory[np.ndarray]:
    """The delivery's unrolls, with their observations."""
    if delivery.packed is None:
        return delivery.unrolls
    import lz4.block

    length, number, _, *shape = delivery.unrolls.observation.shape
    flat = np.frombuffer(lz4.block.decompress(delivery.packed), np.uint8)
    return delivery.unrolls._replace(observation=flat.reshape(number, length, *shape).swapaxes(0, 1))
