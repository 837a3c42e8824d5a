"""The only place that calls torch.jit.

A scripted module releases the GIL for a whole forward pass, so that predictor and trainer threads overlap. PyTorch 2.13
deprecates torch.jit without a replacement that does so; exactly that warning is silenced here. Where torch.jit is
missing, or is not supported (Python 3.14), everything runs eagerly.
"""

import contextlib
import sys
import warnings
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import nn

AVAILABLE = sys.version_info < (3, 14) and hasattr(torch, "jit")
Function = TypeVar("Function", bound=Callable[..., object])


def script(module: nn.Module) -> nn.Module:
    """`module`, compiled by TorchScript where that works, else `module` itself."""
    if not AVAILABLE:
        return module
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r".*torch\.jit\.", category=DeprecationWarning)
        return torch.jit.script(module)


def scripted(function: Function) -> Function:
    """Decorator: a pure tensor function, compiled by TorchScript where that works."""
    if not AVAILABLE:
        return function
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r".*torch\.jit\.", category=DeprecationWarning)
        return torch.jit.script(function)


def unoptimised() -> contextlib.AbstractContextManager[None]:
    """Within it, compiled code runs as written: not made anew for the sizes that it meets, at a call of its choice."""
    return torch.jit.optimized_execution(False) if AVAILABLE else contextlib.nullcontext()


def export(method: Function) -> Function:
    """Decorator: a method that is called from outside a scripted module; those it calls need none."""
    return torch.jit.export(method) if AVAILABLE else method  # type: ignore[return-value]
