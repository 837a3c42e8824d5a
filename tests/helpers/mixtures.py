"""Small mixtures of every replay, and trajectories that fill them, for tests of what is kept of them."""

from fractions import Fraction

import numpy as np
import torch
from trajectories import DISCRETE, random_trajectory

from kartrl.envs.observation_spec import plain
from kartrl.replay import MemoryShape, Mixture, UnrollMemory
from kartrl.replay.attentive import AttentiveReplay
from kartrl.replay.candidates import Choice
from kartrl.replay.distances import make_distance
from kartrl.replay.elite import EliteReplay
from kartrl.replay.mixture import Part
from kartrl.replay.prioritised import PrioritisedReplay
from kartrl.replay.uniform import UniformReplay
from kartrl.trajectory import Trajectory

T, SIDE, STACK, B = 7, 5, 2, 3
CAPACITY = 20


def features(observation: np.ndarray) -> np.ndarray:
    """A network that never learns."""
    return observation.reshape(len(observation), -1)[:, :4].astype(np.float32)


class Playing:
    """Batches of B unrolls of random frames, each of which begins where the one before ended."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._last = self._frames(1, B)[0]
        self.number = 0

    def batch(self) -> Trajectory[np.ndarray]:
        """The next one."""
        self.number += 1
        tensors = random_trajectory(DISCRETE, self.number, length=T, size=B, state_size=2, dtype=torch.float32)
        frames = self._frames(T, B)
        stacks = [self._last]
        for frame in frames:
            stacks.append(np.concatenate([stacks[-1][..., 1:], frame[..., :1]], 3))
        self._last = stacks[-1]
        batch = Trajectory(*(tensor.numpy() for tensor in tensors))
        return batch._replace(observation=np.stack(stacks), version=np.full((T, B), self.number))

    def _frames(self, length: int, size: int) -> np.ndarray:
        return self._random.integers(0, 256, (length, size, SIDE, SIDE, STACK), dtype=np.uint8)


def make(seed: int = 0, compression: str = "none", insertion: str = "elite", capacity: int = CAPACITY) -> Mixture:
    """Uniform, prioritised, attentive and elite, a quarter each."""
    shape = MemoryShape(
        3 * capacity + 2 * B, T, plain(SIDE, SIDE, STACK), STACK, 7, 2, 2 * capacity, 4 * T, compression
    )
    memory, generator = UnrollMemory(shape), torch.Generator().manual_seed(seed)
    challengers = 5 if insertion == "elite" else 0
    choice = Choice(features, make_distance("norm", 2.0), 3, lambda: 3.0, challengers)
    replays = {
        "uniform": UniformReplay(memory, capacity, generator),
        "prioritised": PrioritisedReplay(memory, capacity // 2, generator, 0.6, lambda: 0.4),
        "attentive": AttentiveReplay(memory, capacity, generator, choice),
        "elite": EliteReplay(memory, capacity, generator, choice),
    }
    return Mixture(memory, [Part(name, replay, Fraction(1, 4)) for name, replay in replays.items()])


def fill(mixture: Mixture, playing: Playing, batches: int) -> None:
    """Insert, draw and learn, as training does."""
    for _ in range(batches):
        inserted = mixture.insert(playing.batch())
        mixture.sample(8)
        mixture.learn(inserted.serial, 1.0 + np.arange(B, dtype=np.float32) * playing.number)


def everything(mixture: Mixture) -> dict[str, np.ndarray]:
    """All that it holds."""
    unrolls = mixture.export(mixture.serials())
    read = mixture.memory.read(mixture.serials())
    kept = {name: array for name, array in unrolls.items() if name not in ("frames", "content", "lengths")}
    return mixture.state() | kept | {"observation": read.observation}


def assert_same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    """Bit for bit."""
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert array.dtype == other[name].dtype, name
        np.testing.assert_array_equal(array, other[name], name)
