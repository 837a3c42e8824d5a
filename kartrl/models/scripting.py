"""The only place that calls torch.jit, so that it can be replaced in one move.

A scripted module is used because its forward pass releases the GIL: predictor and trainer threads overlap.
PyTorch 2.13 deprecates torch.jit without a replacement that does so; exactly that warning is silenced here.
"""

import warnings
from typing import Any

import torch
from torch import Tensor, nn

Script = Any  # a scripted ActorCritic; torch.jit.ScriptModule hides its methods from type checkers


def script(module: nn.Module) -> Script:
    """`module`, compiled by TorchScript."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r".*torch\.jit\.", category=DeprecationWarning)
        return torch.jit.script(module)


def scripted(function: Any) -> Any:
    """Decorator: a pure tensor function, compiled by TorchScript."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r".*torch\.jit\.", category=DeprecationWarning)
        return torch.jit.script(function)


# What TorchScript calls from inside a module needs no decorator; `export` marks further entry points.
export = torch.jit.export

__all__ = ["Script", "Tensor", "export", "script", "scripted"]
