"""The only place that calls torch.jit.

A scripted module releases the GIL for a whole forward pass, so that predictor and trainer threads overlap. PyTorch 2.13
deprecates torch.jit without a replacement that does so; only that warning is silenced here. If torch.jit is missing or
not supported (Python 3.14), everything runs eagerly.
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
    """`module`, compiled by TorchScript if available, else `module` itself."""
    if not AVAILABLE:
        return module
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r".*torch\.jit\.", category=DeprecationWarning)
        return torch.jit.script(module)


def scripted(function: Function) -> Function:
    """Decorator: compiles a pure tensor function by TorchScript, if available."""
    if not AVAILABLE:
        return function
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r".*torch\.jit\.", category=DeprecationWarning)
        return torch.jit.script(function)


def unoptimised() -> contextlib.AbstractContextManager[None]:
    """Context manager: compiled code runs as written, without being re-optimised for the sizes it encounters."""
    return torch.jit.optimized_execution(False) if AVAILABLE else contextlib.nullcontext()


def export(method: Function) -> Function:
    """Decorator for methods called from outside a scripted module; methods called by these do not need it."""
    return torch.jit.export(method) if AVAILABLE else method  # type: ignore[return-value]
