"""What an environment's observations are, as data: one image or vector, or several of them in one row of bytes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from kartrl.errors import UserError

LARGEST = 1 << 26  # bytes of an observation; thousands are kept in memory
MOST_PARTS = 64  # each has an encoder of its own
ALIGNED = 4  # bytes, of the places of vectors in a row, so that they can be read there as float32


class ObservationPart(NamedTuple):
    """An image or a vector."""

    name: str  # its path in the environment's space, such as `camera.left`; "" if there is no other part
    shape: tuple[int, ...]  # [H, W, C] of an image, uint8; [D] of a vector, float32

    @property
    def is_image(self) -> bool:
        return len(self.shape) == 3

    @property
    def dtype(self) -> str:
        return "uint8" if self.is_image else "float32"

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    @property
    def size(self) -> str:
        """For display, such as `84x84x4` or `3 numbers`."""
        if len(self.shape) > 1:
            return "x".join(map(str, self.shape))
        return f"{self.shape[0]:,} number{'s' * (self.shape[0] > 1)}"


@dataclass(frozen=True)
class ObservationSpec:
    """An environment's observations: one part as it is, or several, packed into a row of bytes, uint8 [N].

    In a row images are first, then vectors, from a multiple of 4 bytes on; what is between them is 0. Everything but
    the environment's wrapper, the network's encoder and the replays' frames handles rows as it does any other array.
    """

    parts: tuple[ObservationPart, ...]  # images first

    @classmethod
    def packed(cls, parts: Sequence[ObservationPart]) -> "ObservationSpec":
        """That of several parts, in any order.

        Raises:
            UserError: they are too many, too large, or have the same name.
        """
        spec = cls(tuple(sorted(parts, key=lambda part: not part.is_image)))
        if len(parts) > MOST_PARTS:
            raise UserError(
                f"its observations have {len(parts)} parts, and kartrl takes {MOST_PARTS} if there are images among "
                "them: choose some in environment.observation_parts"
            )
        if spec.nbytes > LARGEST:
            raise UserError(
                f"its observations are rows of {spec.nbytes:,} bytes; kartrl takes {LARGEST:,}: images can be made "
                "smaller by environment.height and width"
            )
        return spec

    @classmethod
    def of(cls, space: gymnasium.Space[Any]) -> "ObservationSpec":
        """That of the space of an environment that is prepared for agents."""
        return space.spec if isinstance(space, Rows) else plain(*(space.shape or ()))

    @property
    def is_packed(self) -> bool:
        return len(self.parts) > 1

    @property
    def has_images(self) -> bool:
        return self.parts[0].is_image

    @property
    def images(self) -> tuple[ObservationPart, ...]:
        return tuple(part for part in self.parts if part.is_image)

    @property
    def image_bytes(self) -> int:
        """Bytes of the images, the first of an observation."""
        return sum(part.nbytes for part in self.images)

    @property
    def begins(self) -> tuple[int, ...]:
        """Where each part begins in a row, in bytes."""
        places, end = [], 0
        for part in self.parts:
            places.append(end if part.is_image else -(-end // ALIGNED) * ALIGNED)
            end = places[-1] + part.nbytes
        return tuple(places)

    @property
    def nbytes(self) -> int:
        """Bytes of an observation."""
        return self.begins[-1] + self.parts[-1].nbytes

    @property
    def shape(self) -> tuple[int, ...]:
        """Of an observation as an array."""
        return (self.nbytes,) if self.is_packed else self.parts[0].shape

    @property
    def dtype(self) -> str:
        """Of an observation as an array: uint8 or float32."""
        return "uint8" if self.is_packed else self.parts[0].dtype

    def each(self, observation: np.ndarray) -> list[np.ndarray]:
        """The parts of an observation as they are in it, each one-dimensional."""
        if not self.is_packed:
            return [observation.ravel()]
        ends = [begin + part.nbytes for part, begin in zip(self.parts, self.begins, strict=True)]
        places = zip(self.parts, self.begins, ends, strict=True)
        return [observation[begin:end].view(part.dtype) for part, begin, end in places]

    @property
    def title(self) -> str:
        """For display, such as `84x84x4` or `camera 84x84x4, speed 1 number`."""
        return ", ".join(f"{part.name} {part.size}".lstrip() for part in self.parts)

    def differences(self, here: "ObservationSpec") -> list[str]:
        """Phrases on how this spec, from elsewhere, differs from the one here; by part, if either has several."""
        if not (self.is_packed or here.is_packed):
            sizes = self.title, here.title
            return [] if self == here else ["observations are {} there, {} here".format(*sizes)]
        mine, theirs = ({part.name: part.size for part in spec.parts} for spec in (self, here))
        names = dict.fromkeys((*mine, *theirs))
        each = [(_called(name), mine.get(name, "missing"), theirs.get(name, "missing")) for name in names]
        return [f"{name} is {there} there, {own} here" for name, there, own in each if there != own]

    def as_json(self) -> list[list[Any]]:
        """For `from_json`: the name and the shape of each part."""
        return [[part.name, list(part.shape)] for part in self.parts]

    @classmethod
    def from_json(cls, description: Sequence[Sequence[Any]]) -> "ObservationSpec":
        """The inverse of `as_json`.

        Raises:
            UserError: names or shapes are invalid.
            Exception: any, if it is malformed.
        """
        parts = tuple(ObservationPart(name, tuple(shape)) for name, shape in description)
        names = [part.name for part in parts]
        sides = [side for part in parts for side in part.shape]
        if not (
            1 <= len(parts) <= MOST_PARTS
            and all(isinstance(name, str) and name.isprintable() for name in names)
            and len(set(names)) == len(names)
            and all(1 <= len(part.shape) <= 4 for part in parts)
            and all(type(side) is int and 1 <= side <= LARGEST for side in sides)
            and (names == [""] if len(parts) == 1 else all(len(part.shape) in (1, 3) for part in parts))
            and (spec := cls(parts)).nbytes <= LARGEST
            and spec.parts == tuple(sorted(parts, key=lambda part: not part.is_image))
        ):
            raise UserError("its observations are invalid")
        return spec


def plain(*shape: int) -> ObservationSpec:
    """The spec of one image, [H, W, C], or vector, [D], that is not packed."""
    return ObservationSpec((ObservationPart("", shape),))


class Rows(spaces.Box):
    """The space of packed observations, uint8 [N]."""

    def __init__(self, spec: ObservationSpec) -> None:
        super().__init__(0, 255, spec.shape, np.uint8)
        self.spec = spec


def _called(name: str) -> str:
    return f"the part {name} of observations" if name else "the only part of observations"
