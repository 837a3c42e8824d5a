"""Converts observations of any kind to what the network reads, which `ObservationSpec` describes.

docs/reference/spaces.md states the rules.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces, wrappers

from kartrl.config import Crop, Environment, View
from kartrl.envs.frames import concatenated
from kartrl.envs.named_modules import apply_wrapper
from kartrl.envs.observation_spec import ObservationPart, ObservationSpec, Rows
from kartrl.envs.spec import describe
from kartrl.envs.wrappers.finite import NonFinite, is_finite, observation_fault
from kartrl.envs.wrappers.images import Convert, image_converter, is_image, is_prepared, own_view
from kartrl.envs.wrappers.parts import KEY, ChosenParts, Part, choose_parts, left_out, parts_of
from kartrl.envs.wrappers.vectors import ToVector, vector_converter, vector_size
from kartrl.errors import UserError

Env = gymnasium.Env[Any, Any]

LARGEST_VECTOR = 65_536  # numbers; thousands of observations are kept in memory
MOST_NAMED = 12  # parts in a remedy
KINDS = spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary


def prepare_observations(env: Env, section: Environment, usual: View | None = None) -> Env:
    """`env` with observations as in an `ObservationSpec`: an image, a vector, or packed ones of several parts.

    Args:
        usual: for keys of `section` that are auto; None: colours, the image's own size within bounds, and no stack.

    Raises:
        UserError: its observations cannot be converted to these.
    """
    env = choose_parts(env, section.observation_parts)
    space = env.observation_space
    parts = parts_of(space)
    _check(space, parts)
    if not any(is_image(part.space) for part in parts):
        return ToVector(env)
    parts = [part for part in parts if is_image(part.space) or vector_size(part.space)]
    if len(parts) > 1:
        return Packed(env, parts, section, usual)
    if parts[0].keys:
        env = ChosenParts(env, parts, left_out(env))
    space = parts[0].space
    assert isinstance(space, spaces.Box)
    view = section.view(usual or own_view(space, section.seen))
    convert, shape = image_converter(space, view)
    image = wrappers.TransformObservation(env, convert, spaces.Box(0, 255, shape, np.uint8))
    return stack_frames(image, view.frame_stack)


def wrap_images(env: Env, section: Environment, usual: View) -> Env:
    """`env`, which shows images as `section` says, in `section.wrapper`; observations as from `prepare_observations`.

    Where the wrapper leaves uint8 images [H, W, C], they stay as they are.

    Raises:
        UserError: it cannot be applied, or its observations cannot be converted.
    """
    wrapped, shown = apply_wrapper(env, section), env.observation_space
    if wrapped.observation_space == shown or is_prepared(wrapped.observation_space):
        return wrapped
    done = {"crop": Crop(), "frame_stack": 1, "grayscale": False}  # by `env`
    try:
        return prepare_observations(wrapped, section.model_copy(update=done), usual)
    except UserError as error:
        raise UserError(f"environment.wrapper: {error}") from error


class FrameStack(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The newest images as one, uint8 [H, W, C * number], the newest last.

    It copies each image, as some environments return the same array in each step.

    Args:
        env: with observations uint8 [H, W, C].
        number: of images.
        zeros: whether an episode begins with black images before its first one, instead of copies of that.
    """

    def __init__(self, env: Env, number: int, zeros: bool) -> None:
        super().__init__(env)
        height, width, channels = env.observation_space.shape or ()
        self.observation_space = spaces.Box(0, 255, (height, width, channels * number), np.uint8)
        self._zeros, self._images = zeros, deque[np.ndarray](maxlen=number)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin with the first image."""
        first, info = self.env.reset(seed=seed, options=options)
        first = np.array(first)
        self._images.extend([first * 0 if self._zeros else first] * self._images.maxlen)  # type: ignore[operator]
        self._images.append(first)
        return concatenated(self._images), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        image, reward, terminated, truncated, info = self.env.step(action)
        self._images.append(np.array(image))
        return concatenated(self._images), reward, terminated, truncated, info


def stack_frames(env: Env, number: int, zeros: bool = False) -> Env:
    """`FrameStack`, if there is more than one image."""
    return env if number == 1 else FrameStack(env, number, zeros)


class _Image(NamedTuple):
    part: Part
    convert: Convert
    place: slice  # in a row
    frames: deque[np.ndarray]  # the newest ones


class _Vector(NamedTuple):
    part: Part
    convert: Convert
    place: slice


class Packed(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Observations of several parts as rows of bytes, which `ObservationSpec` describes.

    Images are stacked as by `FrameStack`, an episode beginning with copies of its first ones; of vectors there is the
    newest.

    Args:
        parts: of the environment's observations, each of some numbers.
        section: how images are seen; the same for all.
        usual: see `prepare_observations`.
    """

    def __init__(self, env: Env, parts: Sequence[Part], section: Environment, usual: View | None) -> None:
        super().__init__(env)
        known = {part.name: part for part in parts}
        converters: dict[str, tuple[Convert, int]] = {}  # and frames in a stack
        shapes = []
        for name, part in known.items():
            if is_image(part.space):
                view = section.view(usual or own_view(part.space, section.seen, name))
                convert, (height, width, channels) = image_converter(part.space, view, name)
                converters[name] = convert, view.frame_stack
                shapes.append(ObservationPart(name, (height, width, channels * view.frame_stack)))
            else:
                converters[name] = vector_converter(part.space), 1
                shapes.append(ObservationPart(name, (vector_size(part.space),)))
        spec = ObservationSpec.packed(shapes)
        self.observation_space = Rows(spec)
        self.vector_spaces = {part.name: known[part.name].space for part in spec.parts if not part.is_image}
        self._size = spec.nbytes
        self._images: list[_Image] = []
        self._vectors: list[_Vector] = []
        for own, begin in zip(spec.parts, spec.begins, strict=True):
            place, (convert, number) = slice(begin, begin + own.nbytes), converters[own.name]
            if own.is_image:
                self._images.append(_Image(known[own.name], convert, place, deque(maxlen=number)))
            else:
                self._vectors.append(_Vector(known[own.name], convert, place))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin with the first images."""
        observation, info = self.env.reset(seed=seed, options=options)
        for image in self._images:
            image.frames.clear()
        return self._packed(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._packed(observation), reward, terminated, truncated, info

    def _packed(self, observation: Any) -> np.ndarray:
        """A new row, uint8 [N].

        Raises:
            NonFinite: a part is not finite.
        """
        row = np.zeros(self._size, np.uint8)
        for image in self._images:
            frame, frames = image.convert(image.part.of(observation)), image.frames
            frames.extend([frame] * (1 if frames else frames.maxlen or 1))
            row[image.place] = concatenated(frames).reshape(-1)
        for part, convert, place in self._vectors:
            value = part.of(observation)
            with np.errstate(over="ignore"):  # it is reported below
                vector = convert(value)
            if not is_finite(vector):
                raise NonFinite(f"{observation_fault(value)} (at {part.name})")
            row[place].view(np.float32)[:] = vector
        return row


def _check(space: gymnasium.Space[Any], parts: Sequence[Part]) -> None:
    """Refuse kinds and numbers of parts that are not supported."""
    fine = [part.name for part in parts if isinstance(part.space, KINDS)]
    for name, _, part in parts:
        if not isinstance(part, KINDS):
            remedy = "; make it one of these in environment.wrapper"
            remedy += f", or leave it out by {KEY} = {' '.join(fine)}" if fine and len(fine) <= MOST_NAMED else ""
            raise UserError(
                f"its observations are {describe(part, name)}; kartrl takes Box, Discrete, MultiDiscrete and "
                f"MultiBinary ones, and Dict and Tuple of these{remedy}"
            )
    numbers = [vector_size(part.space) for part in parts if not is_image(part.space)]
    if sum(numbers) > LARGEST_VECTOR or (len(numbers) == len(parts) and not sum(numbers)):
        raise UserError(
            f"its observations are {describe(space)}, a vector of {sum(numbers)} numbers; kartrl takes 1 to "
            f"{LARGEST_VECTOR}"
        )
