"""A simulated device: what mixes its tensors with the CPU's fails as on a GPU, on a machine without one."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map

NAME = "meta"  # a device that PyTorch always has, and whose own tensors have no data
aten = torch.ops.aten
MIXES = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default, aten._index_put_impl_.default}
"""Operations that accept indices of the CPU on a GPU; so do all with tensors without dimensions."""
COPIES = {aten._to_copy.default, aten.copy_.default}


class There(torch.Tensor):
    """A tensor on the simulated device; its data is in `here`, a tensor of the CPU."""

    here: torch.Tensor

    @staticmethod
    def __new__(cls, here: torch.Tensor) -> "There":
        there = torch.Tensor._make_wrapper_subclass(
            cls, here.shape, strides=here.stride(), storage_offset=here.storage_offset(), dtype=here.dtype, device=NAME
        )
        there.here = here
        return there

    def tolist(self) -> list:  # PyTorch has none for subclasses
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        with OtherDevice():
            return func(*args, **(kwargs or {}))


class OtherDevice(TorchDispatchMode):
    """While it is active, tensors may be created on, and copied to and from, the device `NAME`."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        there = any(isinstance(tensor, There) for tensor in tensors)
        device = kwargs.get("device")
        if device is not None:
            there = torch.device(device).type == NAME
            kwargs["device"] = torch.device("cpu")
        if there and func not in MIXES | COPIES:
            strangers = [tensor for tensor in tensors if not isinstance(tensor, There) and tensor.dim() > 0]
            if strangers:
                raise RuntimeError(f"{func}: expected all tensors to be on the same device")
        here_args, here_kwargs = tree_map(_here, (args, kwargs))
        result = func(*here_args, **here_kwargs)
        if func is aten.copy_.default:
            return args[0]
        if not there:
            return result
        return return_and_correct_aliasing(func, args, kwargs, tree_map(_there, result))


def _here(value):
    return value.here if isinstance(value, There) else value


def _there(value):
    return There(value) if isinstance(value, torch.Tensor) else value
