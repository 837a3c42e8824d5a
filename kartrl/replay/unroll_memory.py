"""The unrolls that replays hold, each stored once, in memory whose size is known in advance."""

import hashlib
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from kartrl.envs.observation_spec import ObservationSpec
from kartrl.replay.frame_store import CompressedFrames, FrameStore
from kartrl.replay.observation_frames import ObservationFrames
from kartrl.trajectory import Trajectory

SPARE = 0.008  # extra frames as a fraction of the steps, as beginnings of episodes take more than one per step
NO_LIMIT = 2**63  # bytes
FRAME_PLACE, REFERENCE = 8, 8  # bytes per frame: of its place, and of Python's reference to a compressed one
UNROLL_PLACE = 36  # bytes of an unroll's place, an int in a list
STEPS = ("decision", "reward", "terminated", "valid", "version")  # fields of T steps


class MemoryShape(NamedTuple):
    """Size and layout of a memory."""

    unrolls: int
    unroll_length: int  # T
    observation: ObservationSpec
    stack: int  # frames per observation, S
    decision_size: int  # K
    state_size: int  # of the recurrent state
    scattered: int = 0  # number of unrolls whose predecessor may not be in the memory
    features: int = 0  # float32 numbers that replays store with the unrolls
    compression: str = "none"  # of frames; or lz4
    limit: int = NO_LIMIT  # maximum size in bytes

    @property
    def frames(self) -> int:
        """Number of frames: one per step, plus those for the beginnings of unrolls and episodes."""
        steps = self.unrolls * self.unroll_length
        return (
            steps
            + max(int(SPARE * steps), 4 * (self.unroll_length + self.stack))
            + self.scattered * self.stack
            + self.longest
        )

    @property
    def longest(self) -> int:
        """Frames of an unroll in which no observation continues the one before."""
        return (self.unroll_length + 1) * self.stack

    @property
    def of_frames(self) -> ObservationFrames:
        """How observations are divided into frames."""
        return ObservationFrames(self.observation, self.stack)

    def fields(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Shapes and dtypes of everything but the frames, by unroll."""
        steps, rest = (self.unrolls, self.unroll_length), self.of_frames.rest
        fields = {"rest": ((self.unrolls, self.unroll_length + 1, rest), "uint8")} if rest else {}
        return fields | {
            "first": ((self.unrolls, self.unroll_length + 1), "bool"),
            "initial_state": ((self.unrolls, self.state_size), "float32"),
            "decision": ((*steps, self.decision_size), "float32"),
            "reward": (steps, "float32"),
            "terminated": (steps, "bool"),
            "valid": (steps, "bool"),
            "version": (steps, "int64"),
            "frames": ((self.unrolls, self.unroll_length + 1, self.stack), "int32"),  # places of the frames
        }

    @property
    def frame_bytes(self) -> int:
        return int(np.prod(self.of_frames.shape)) * np.dtype(self.observation.dtype).itemsize

    @property
    def field_bytes(self) -> int:
        """Bytes of `fields`."""
        return sum(int(np.prod(shape)) * np.dtype(dtype).itemsize for shape, dtype in self.fields().values())

    @property
    def fixed_bytes(self) -> int:
        """Bytes that are taken however few unrolls are held: of places, and of `features`, whose slots take turns."""
        places = self.frames * (FRAME_PLACE + (REFERENCE if self.compression != "none" else 0))
        return 4 * self.features + places + self.unrolls * UNROLL_PLACE

    @property
    def unroll_bytes(self) -> int:
        """The most bytes that one more unroll takes."""
        return self.longest * self.frame_bytes + self.field_bytes // self.unrolls

    def size(self) -> int:
        """Bytes when full; with compression an upper bound."""
        return min(self.frames * self.frame_bytes + self.field_bytes + self.fixed_bytes, self.limit)


class UnrollMemory:
    """Numbers unrolls, and keeps each as long as any replay holds it.

    Observations are stacks of S frames along the last axis, the oldest first. Whether one continues the one before is
    determined by comparing their contents, so that observations are restored exactly, however an environment stacks. If
    an unroll begins with the last observation of another one, these share their frames.
    """

    def __init__(self, shape: MemoryShape) -> None:
        self.shape = shape
        self._field_bytes = shape.field_bytes
        self._fixed_bytes, self._unroll_bytes = shape.fixed_bytes, shape.unroll_bytes
        kind = CompressedFrames if shape.compression == "lz4" else FrameStore
        self._of_frames = shape.of_frames
        self.frames = kind(shape.frames, self._of_frames.shape, shape.observation.dtype)
        self.uses = np.zeros(shape.frames, np.int32)  # number of unrolls that use each frame
        self._fields = {name: np.zeros(size, dtype) for name, (size, dtype) in shape.fields().items()}
        self._free = list(range(shape.unrolls))[::-1]  # places
        self._places: dict[int, int] = {}  # of unrolls, by their serial numbers
        self._holders: dict[int, int] = {}  # how many replays hold each unroll
        self.ends: dict[bytes, int] = {}  # digest of an observation -> the newest unroll that ended with it
        self.inserted = 0  # number of unrolls so far, and the next one's serial number

    def __len__(self) -> int:
        """Number of unrolls held."""
        return len(self._places)

    @property
    def size(self) -> int:
        """Bytes of the unrolls held, and what is taken without any."""
        return self.frames.size + len(self) * self._field_bytes // self.shape.unrolls + self._fixed_bytes

    def has_room(self) -> bool:
        """Whether one more unroll fits, whatever its frames are."""
        fits = self.size + self._unroll_bytes <= self.shape.limit
        return bool(self._free) and self.frames.free >= self.shape.longest and fits

    def insert(self, trajectory: Trajectory[np.ndarray], make_room: Callable[[], None]) -> np.ndarray:
        """Store these unrolls, until `release`.

        Args:
            make_room: releases others until there is room, if possible.

        Returns:
            Their serial numbers, int64 [B], which always increase; -1 for unrolls that were not stored, because they
            have no valid step or there is no room.
        """
        serials = np.full(len(trajectory.online), -1)
        for b in np.flatnonzero(trajectory.valid.any(0)):
            make_room()
            if self.has_room():
                serials[b] = self.inserted
                self._holders[self.inserted] = 0
                self._insert(trajectory, int(b), self.inserted)
                self.inserted += 1
        return serials

    def _insert(self, trajectory: Trajectory[np.ndarray], b: int, serial: int) -> None:
        place = self._free.pop()
        observations = trajectory.observation[:, b]
        before = self._places.get(self.ends.pop(_digest(observations[0]), -1))
        known = None if before is None else self._fields["frames"][before, -1].copy()
        numbers = self._store(observations, known)
        self.uses[np.unique(numbers)] += 1
        self.ends[_digest(observations[-1])] = serial
        self._fields["frames"][place] = numbers
        if rest := self._of_frames.rest:
            self._fields["rest"][place] = observations[:, -rest:]
        self._fields["initial_state"][place] = trajectory.initial_state[b]
        for name in ("first", *STEPS):
            self._fields[name][place] = getattr(trajectory, name)[:, b]
        self._places[serial] = place

    def serials(self) -> np.ndarray:
        """Serial numbers of the unrolls held, int64 [len(self)], ascending."""
        return np.array(sorted(self._places), np.int64)

    def export(self, serials: np.ndarray) -> dict[str, np.ndarray]:
        """A copy of these unrolls, int64 [n]: their fields [n, ...], where `frames` are indices into their frames."""
        places = self._places_of(serials)
        arrays = {name: field[places] for name, field in self._fields.items()}
        different, numbers = np.unique(arrays["frames"], return_inverse=True)
        arrays["frames"] = numbers.reshape(arrays["frames"].shape).astype(np.int32)
        return {"serial": serials, **arrays, **self.frames.packed(different)}

    def restore(self, arrays: dict[str, np.ndarray], make_room: Callable[[], None]) -> None:
        """Restore exported unrolls, as far as replays hold them.

        Raises:
            ValueError: they do not have this memory's shape.
            KeyError: something is missing.
        """
        serials, fields = arrays["serial"], self.shape.fields()
        frames = self.frames.unpacked(arrays)
        for name, (shape, dtype) in fields.items():
            if arrays[name].shape != (len(serials), *shape[1:]) or arrays[name].dtype != np.dtype(dtype):
                raise ValueError(f"unrolls of another shape ({name})")
        numbers = arrays["frames"]
        if serials.dtype != np.int64 or (numbers < 0).any() or (numbers >= len(frames)).any():
            raise ValueError("unrolls without their frames")
        trajectory = Trajectory(
            observation=self._joined(frames, numbers, arrays.get("rest")),
            initial_state=arrays["initial_state"],
            online=np.zeros(len(serials), bool),
            importance=np.ones(len(serials), np.float32),
            serial=serials,
            **{name: arrays[name].swapaxes(0, 1) for name in ("first", *STEPS)},
        )
        for b, serial in enumerate(serials.tolist()):
            if serial in self._holders and serial not in self._places:
                make_room()
                if serial in self._holders:  # else it was itself the oldest, and dropped
                    self._insert(trajectory, b, serial)

    def hold(self, serials: Iterable[int]) -> None:
        """Count one more replay that holds each of these unrolls, which are stored or yet to be restored."""
        for serial in serials:
            self._holders[serial] = self._holders.get(serial, 0) + 1

    def missing(self) -> int:
        """Number of unrolls that replays hold but that are not stored."""
        return len(self._holders) - len(self._places)

    def release(self, serials: Iterable[int]) -> None:
        """Count one replay fewer that holds each of these unrolls; unrolls that no replay holds are deleted."""
        for serial in serials:
            self._holders[serial] -= 1
            if self._holders[serial] == 0:
                self._forget(serial)

    def _forget(self, serial: int) -> None:
        del self._holders[serial]
        if serial not in self._places:  # it was yet to be restored
            return
        place = self._places.pop(serial)
        self._free.append(place)
        frames = np.unique(self._fields["frames"][place])
        self.uses[frames] -= 1
        self.frames.forget(frames[self.uses[frames] == 0])
        if len(self.ends) > 2 * len(self._places) + 16:  # unrolls that no other continued
            self.ends = {digest: end for digest, end in self.ends.items() if end in self._places}

    def read(self, serials: np.ndarray) -> Trajectory[np.ndarray]:
        """The unrolls with these serial numbers, int64 [n], as inserted, except that `online` is False."""
        places = self._places_of(serials)
        steps = {name: np.ascontiguousarray(self._fields[name][places].swapaxes(0, 1)) for name in ("first", *STEPS)}
        return Trajectory(
            observation=self.observations(serials),
            initial_state=self._fields["initial_state"][places],
            online=np.zeros(len(places), bool),
            importance=np.ones(len(places), np.float32),
            serial=np.array(serials, np.int64),
            **steps,
        )

    def observations(self, serials: np.ndarray) -> np.ndarray:
        """Only the observations, [T + 1, n, ...]."""
        places = self._places_of(serials)
        rest = self._fields["rest"][places] if "rest" in self._fields else None
        return self._joined(*self.frames.find(self._fields["frames"][places]), rest)

    def _joined(self, frames: np.ndarray, numbers: np.ndarray, rest: np.ndarray | None) -> np.ndarray:
        """Observations [T + 1, n, ...] from frames, their numbers [n, T + 1, S], and the rest [n, T + 1, R]."""
        return self._of_frames.join(frames, numbers.swapaxes(0, 1), None if rest is None else rest.swapaxes(0, 1))

    def _places_of(self, serials: np.ndarray) -> np.ndarray:
        return np.array([self._places[serial] for serial in serials.tolist()], np.int64)

    def _store(self, observations: np.ndarray, known: np.ndarray | None) -> np.ndarray:
        """Store the new frames of these successive observations [n, ...].

        Args:
            known: places of the first one's frames, int32 [S], if it is stored already.

        Returns:
            Places of their frames, int32 [n, S].
        """
        frames = self._of_frames.split(observations)
        length, stack = frames.shape[:2]
        follows = (frames[1:, :-1] == frames[:-1, 1:]).reshape(length - 1, -1).all(1)
        numbers = np.empty((length, stack), np.int32)
        new: list[np.ndarray] = []

        def number_of(frame: np.ndarray) -> int:
            new.append(frame)
            return -len(new)  # negative until it has a place

        for index in range(length):
            if index == 0 and known is not None:
                numbers[0] = known
            elif index > 0 and follows[index - 1]:
                numbers[index, :-1] = numbers[index - 1, 1:]
                numbers[index, -1] = number_of(frames[index, -1])
            else:  # an episode begins: its first stack may repeat one frame, or hold some of the episode before
                near = [*zip(frames[index - 1], numbers[index - 1], strict=True)] if index > 0 else []
                for place in range(stack):
                    frame = frames[index, place]
                    same = next((number for other, number in near if np.array_equal(frame, other)), None)
                    numbers[index, place] = number_of(frame) if same is None else same
                    near.append((frame, numbers[index, place]))
        places = self.frames.store(new)
        without = numbers < 0
        numbers[without] = places[-1 - numbers[without]]
        return numbers


def _digest(observation: np.ndarray) -> bytes:
    """A digest that identifies an observation."""
    return hashlib.blake2b(np.ascontiguousarray(observation).data, digest_size=16).digest()
