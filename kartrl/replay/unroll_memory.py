"""The newest unrolls of a run, bounded in steps, in memory that is known before."""

import hashlib
from typing import NamedTuple

import numpy as np

from kartrl.replay.frame_ring import FrameRing
from kartrl.trajectory import Trajectory

SPARE = 0.01  # part of the frames that are kept beside one for each step: beginnings of episodes take more
ENVIRONMENTS = 4  # whose first stack is kept beside, however few steps are


class MemoryShape(NamedTuple):
    """How much a memory holds."""

    capacity: int  # steps
    unroll_length: int  # T
    observation_shape: tuple[int, ...]
    observation_dtype: str  # uint8 or float32
    stack: int  # frames that an observation consists of
    decision_size: int  # K
    state_size: int  # S

    @property
    def unrolls(self) -> int:
        """How many unrolls it holds at most."""
        return self.capacity // self.unroll_length

    @property
    def frames(self) -> int:
        """How many frames it holds: one for each step, and what beginnings of unrolls and episodes take."""
        beginnings = ENVIRONMENTS * (self.unroll_length + self.stack)
        return self.unrolls * self.unroll_length + max(int(SPARE * self.capacity), beginnings)

    def fields(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """All but the frames, by unroll: shape and dtype."""
        steps = (self.unrolls, self.unroll_length)
        return {
            "first": ((self.unrolls, self.unroll_length + 1), "bool"),
            "initial_state": ((self.unrolls, self.state_size), "float32"),
            "decision": ((*steps, self.decision_size), "float32"),
            "reward": (steps, "float32"),
            "terminated": (steps, "bool"),
            "valid": (steps, "bool"),
            "version": (steps, "int64"),
            "frames": ((self.unrolls, self.unroll_length + 1, self.stack), "int64"),  # numbers of each observation's
        }

    def size(self) -> int:
        """Bytes that it takes when it is full."""
        frame = int(np.prod(self.observation_shape)) // self.stack * np.dtype(self.observation_dtype).itemsize
        others = sum(int(np.prod(shape)) * np.dtype(dtype).itemsize for shape, dtype in self.fields().values())
        return self.frames * frame + others


class UnrollMemory:
    """A ring of unrolls. Where an unroll begins with the last observation of another one, their frames are shared."""

    def __init__(self, shape: MemoryShape) -> None:
        self.shape = shape
        self._ring = FrameRing(shape.frames, shape.stack, shape.observation_shape, shape.observation_dtype)
        self._fields = {name: np.zeros(size, dtype) for name, (size, dtype) in shape.fields().items()}
        self._oldest = np.full(shape.unrolls, -1, np.int64)  # frame of each unroll; -1 where there is none
        self._next = 0  # place of the next unroll
        self._ends: dict[bytes, np.ndarray] = {}  # frames of observations that an unroll ended with, by their digest

    def insert(self, trajectory: Trajectory[np.ndarray]) -> None:
        """Keep these unrolls, in place of the oldest ones; those without a valid step are left out."""
        for b in np.flatnonzero(trajectory.valid.any(0)):
            observations = trajectory.observation[:, b]
            numbers = self._ring.store(observations, self._ends.pop(_digest(observations[0]), None))
            self._ends[_digest(observations[-1])] = numbers[-1]
            place = self._next
            self._fields["frames"][place] = numbers
            self._fields["initial_state"][place] = trajectory.initial_state[b]
            for name in ("first", "decision", "reward", "terminated", "valid", "version"):
                self._fields[name][place] = getattr(trajectory, name)[:, b]
            self._oldest[place] = numbers.min()
            self._next = (place + 1) % self.shape.unrolls
        self._ends = {digest: end for digest, end in self._ends.items() if end.min() >= self._ring.oldest}

    def places(self) -> np.ndarray:
        """Places of the unrolls that are whole, int64 [n]: a ring of frames may be overwritten a little sooner."""
        return np.flatnonzero((self._oldest >= self._ring.oldest) & (self._oldest >= 0))

    def read(self, places: np.ndarray) -> Trajectory[np.ndarray]:
        """The unrolls at these places, int64 [n], as they were inserted, but not `online`."""
        fields = {name: field[places] for name, field in self._fields.items()}
        observation = self._ring.read(fields.pop("frames").swapaxes(0, 1))
        state = fields.pop("initial_state")
        steps = {name: np.ascontiguousarray(field.swapaxes(0, 1)) for name, field in fields.items()}
        online = np.zeros(len(places), bool)
        return Trajectory(observation=observation, initial_state=state, online=online, **steps)


def _digest(observation: np.ndarray) -> bytes:
    """What tells one observation from all others."""
    return hashlib.blake2b(np.ascontiguousarray(observation).data, digest_size=16).digest()
