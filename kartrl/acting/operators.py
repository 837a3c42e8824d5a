"""PyTorch's operations on NumPy arrays: those that kartrl's networks and distributions consist of, by their names.

Each takes what PyTorch's takes, in the same order, with shapes of NCHW for images; their memory is channels-last.
"""

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray
Sizes = Sequence[int]


def kernel_matrix(weight: Array) -> Array:
    """The weights of a convolution [O, C, H, W] as a matrix [H * W * C, O]."""
    return np.ascontiguousarray(weight.transpose(2, 3, 1, 0)).reshape(-1, len(weight))


def convolution(
    x: Array, matrix: Array, bias: Array, kernel: Sizes, stride: Sizes, padding: Sizes, each: bool = False
) -> Array:
    """A convolution, as one product with the `kernel_matrix`, or as one for each image."""
    x = np.ascontiguousarray(_padded(x, padding, 0.0).transpose(0, 2, 3, 1))
    batch, height, width, channels = x.shape
    rows, columns = (height - kernel[0]) // stride[0] + 1, (width - kernel[1]) // stride[1] + 1
    image, row, pixel, number = x.strides
    # each window as a row: its lines are contiguous
    windows = np.ndarray(
        (batch, rows, columns, kernel[0], kernel[1] * channels),
        x.dtype,
        x,
        0,
        (image, row * stride[0], pixel * stride[1], row, number),
    )
    result = windows.reshape(*(batch,) * each, -1, len(matrix)) @ matrix
    result += bias
    return result.reshape(batch, rows, columns, -1).transpose(0, 3, 1, 2)


def max_pool(x: Array, kernel: Sizes, stride: Sizes, padding: Sizes = (0, 0), *_: Any) -> tuple[Array]:
    x = _padded(x, padding, -np.inf)
    stride = stride or kernel
    rows, columns = ((x.shape[2 + i] - kernel[i]) // stride[i] + 1 for i in range(2))
    result = None
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            each = x[:, :, i : i + rows * stride[0] : stride[0], j : j + columns * stride[1] : stride[1]]
            each = each[:, :, :rows, :columns]
            result = each if result is None else np.maximum(result, each)
    assert result is not None
    return (result,)


def _padded(x: Array, padding: Sizes, value: float) -> Array:
    high, wide = (*padding, *padding)[:2]
    if not high and not wide:
        return x
    batch, channels, height, width = x.shape
    result = np.full((batch, height + 2 * high, width + 2 * wide, channels), value, x.dtype).transpose(0, 3, 1, 2)
    result[:, :, high : high + height, wide : wide + width] = x
    return result


def addmm(bias: Array, x: Array, weight: Array, *_: Any) -> Array:
    result = x @ weight
    result += bias
    return result


def each_addmm(bias: Array, x: Array, weight: Array, *_: Any) -> Array:
    result = each_mm(x, weight)
    result += bias
    return result


def each_mm(x: Array, weight: Array) -> Array:
    return (x[:, None] @ weight)[:, 0]


def layer_norm(x: Array, shape: Sizes, weight: Array, bias: Array, epsilon: float) -> tuple[Array]:
    """Along the last axis."""
    x = x - x.mean(-1, keepdims=True)
    return (x / np.sqrt(np.square(x).mean(-1, keepdims=True) + epsilon) * weight + bias,)


def log_softmax(x: Array, axis: int, *_: Any) -> Array:
    x = x - x.max(axis, keepdims=True)
    x -= np.log(np.exp(x).sum(axis, keepdims=True))
    return x


def sigmoid(x: Array) -> Array:
    return 0.5 + 0.5 * np.tanh(0.5 * x)


def log_sigmoid(x: Array) -> tuple[Array, Array]:
    return np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x))), x


def softplus(x: Array, *_: Any) -> Array:
    return np.logaddexp(x, np.float32(0))


def log_softmax_gradient(gradient: Array, result: Array, axis: int, *_: Any) -> Array:
    return gradient - np.exp(result) * gradient.sum(axis, keepdims=True)


def gather(x: Array, _axis: int, index: Array, *_: Any) -> Array:
    """Along the last axis."""
    rows, columns = np.arange(index.size // index.shape[-1])[:, None], index.reshape(-1, index.shape[-1])
    return x.reshape(-1, x.shape[-1])[rows, columns].reshape(index.shape)


def scatter_add(x: Array, _axis: int, index: Array, other: Array) -> Array:
    """Along the last axis."""
    rows, columns = np.arange(index.size // index.shape[-1])[:, None], index.reshape(-1, index.shape[-1])
    result = x.reshape(-1, x.shape[-1]).copy()
    np.add.at(result, (rows, columns), other.reshape(columns.shape))
    return result.reshape(x.shape)


def split(x: Array, size: int, axis: int = 0) -> list[Array]:
    return split_by(x, [size] * (x.shape[axis] // size), axis)


def split_by(x: Array, sizes: Sizes, axis: int = 0) -> list[Array]:
    parts, begin, all_before = [], 0, (slice(None),) * (axis % x.ndim)
    for size in sizes:
        parts.append(x[(*all_before, slice(begin, begin + size))])
        begin += size
    return parts


def part(x: Array, axis: int, begin: int, end: int, step: int = 1) -> Array:
    return x[(*(slice(None),) * (axis % x.ndim), slice(begin, end, step))]


def part_gradient(gradient: Array, shape: Sizes, axis: int, begin: int, end: int, step: int) -> Array:
    x = np.zeros(shape, gradient.dtype)
    part(x, axis, begin, end, step)[...] = gradient
    return x


def selected(x: Array, axis: int, index: Any) -> Any:
    return x[(*(slice(None),) * (axis % x.ndim), index)]


def selected_gradient(gradient: Array, shape: Sizes, axis: int, index: int) -> Array:
    x = np.zeros(shape, gradient.dtype)
    selected(x, axis, index)[...] = gradient
    return x


def fill_where(x: Array, mask: Array, value: Any) -> Array:
    np.copyto(x, value, where=mask)
    return x


def copy_into(x: Array, other: Array, *_: Any) -> Array:
    np.copyto(x, other)
    return x


def unsqueeze(x: Array, axis: int) -> Array:
    axis %= x.ndim + 1
    return x.reshape(*x.shape[:axis], 1, *x.shape[axis:])


def in_place(function: Callable[..., Array]) -> Callable[..., Array]:
    """The operation, with its result in its first argument."""

    def call(x: Array, *others: Any) -> Array:
        x[...] = function(x, *others)
        return x

    return call


OPERATORS: dict[str, Callable[..., Any]] = {
    "kernel_matrix": kernel_matrix,
    "list": lambda *parts: parts,
    "getitem": operator.getitem,
    "convolution": convolution,
    "max_pool2d_with_indices": max_pool,
    "addmm": addmm,
    "mm": np.matmul,
    "native_layer_norm": layer_norm,
    # activations
    "relu": lambda x: np.maximum(x, 0),
    "relu_": lambda x: np.maximum(x, 0, out=x),
    "tanh": np.tanh,
    "tanh_": lambda x: np.tanh(x, out=x),
    "sigmoid": sigmoid,
    "sigmoid_": in_place(sigmoid),
    "softplus": softplus,
    "log_sigmoid_forward": log_sigmoid,
    "_log_softmax": log_softmax,
    "_log_softmax_backward_data": log_softmax_gradient,
    "threshold_backward": lambda gradient, x, threshold: np.where(x > threshold, gradient, np.float32(0)),
    "sigmoid_backward": lambda gradient, result: gradient * (result - result * result),
    "log_sigmoid_backward": lambda gradient, x, _: gradient * sigmoid(-x),
    "tanh_backward": lambda gradient, result: gradient * (1 - result * result),
    # numbers
    "add": lambda x, y, *_: x + y,
    "add_": lambda x, y, *_: np.add(x, y, out=x),
    "sub": lambda x, y, *_: x - y,
    "sub_": lambda x, y, *_: np.subtract(x, y, out=x),
    "rsub": lambda x, y, *_: y - x,
    "mul": operator.mul,
    "mul_": lambda x, y: np.multiply(x, y, out=x),
    "div": operator.truediv,
    "neg": operator.neg,
    "pow": operator.pow,
    "abs": np.abs,
    "exp": np.exp,
    "log": np.log,
    "atanh": np.arctanh,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "round": np.rint,
    "clamp": lambda x, low=None, high=None: x.clip(low, high),
    "clamp_": lambda x, low=None, high=None: x.clip(low, high, out=x),
    # comparisons
    "bitwise_not": np.invert,
    "bitwise_and": operator.and_,
    "logical_and_": lambda x, y: np.logical_and(x, y, out=x),
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "where": np.where,
    "masked_fill_": fill_where,
    # along axes
    "sum": lambda x, axes, keep=False, *_: x.sum(tuple(axes) if axes else None, keepdims=keep),
    "mean": lambda x, axes, keep=False, *_: x.mean(tuple(axes), keepdims=keep),
    "argmax": lambda x, axis=None, keep=False: x.argmax(axis, keepdims=keep),
    "gather": gather,
    "scatter_add": scatter_add,
    # shapes and types
    "zeros": lambda shape, dtype=None, *_: np.zeros(shape, dtype or np.float32),
    "zeros_like": lambda x, *_: np.zeros_like(x),
    "ones_like": lambda x, *_: np.ones_like(x),
    "empty_like": lambda x, *_: np.empty_like(x),
    "new_zeros": lambda x, shape, *_: np.zeros(shape, x.dtype),
    "copy_": copy_into,
    "lift_fresh": lambda x: x,
    "_to_copy": lambda x, dtype, *_: x.astype(dtype),
    "clone": lambda x, *_: x.copy(),
    "view": lambda x, to: x.view(to) if isinstance(to, str) else x.reshape(to),
    "_unsafe_view": lambda x, shape: x.reshape(shape),
    "t": np.transpose,
    "permute": np.transpose,
    "expand": lambda x, shape, *_: np.broadcast_to(x, shape),
    "squeeze": lambda x, axis: x.squeeze(axis),
    "unsqueeze": unsqueeze,
    "split": split,
    "unsafe_split": split,
    "split_with_sizes": split_by,
    "slice": part,
    "slice_backward": part_gradient,
    "select_backward": selected_gradient,
    "flip": lambda x, axes: np.flip(x, tuple(axes)),
    "unbind": lambda x, axis=0: [*np.moveaxis(x, axis, 0)],
    "select": selected,
    "cat": lambda parts, axis=0: np.concatenate(parts, axis),
    "stack": lambda parts, axis=0: np.stack(parts, axis) if axis else np.array(parts),
}

EACH: dict[str, Callable[..., Any]] = OPERATORS | {
    "convolution": functools.partial(convolution, each=True),
    "addmm": each_addmm,
    "mm": each_mm,
}
"""With a matrix product for each row of a batch: to the bit, its results do not depend on the others."""
