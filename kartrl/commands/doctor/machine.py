"""Checks of the machine: Python, PyTorch, cores, writable folders, videos."""

import importlib.metadata
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path

from kartrl import __version__
from kartrl.commands.doctor.configured import GIGABYTE, Examined, State, nearest
from kartrl.kart import cartridge

LITTLE_DISK, TOO_LITTLE_DISK = 1e9, 2e7  # bytes: a few hours of logs, checkpoints and videos; one checkpoint


def check_python(_: Examined) -> tuple[State, str]:
    """Check that this is a tested version of Python."""
    text = f"{platform.python_version()}, kartrl {__version__}, {platform.system()} on {platform.machine()}"
    if (3, 11) <= sys.version_info[:2] <= (3, 14):
        return "ok", text
    return "warning", f"{text}; kartrl is tested with Python 3.11 to 3.14: make run PYTHON=python3.12"


def check_torch(examined: Examined) -> tuple[State, str]:
    """Report PyTorch's version and device, and whether these fit the configuration."""
    import torch

    from kartrl.hardware.devices import learner_device
    from kartrl.hardware.machine import gpus
    from kartrl.sizing.precision import multiplies_bf16

    device = learner_device(examined.config.system)
    name, bf16 = torch.cuda.get_device_name(device) if device.type == "cuda" else "no GPU", multiplies_bf16(device)
    text = (
        f"{torch.__version__}, the network runs on {device.type} ({name}), where bf16 is {'fast' if bf16 else 'slow'}"
    )
    if examined.config.model.precision == "bf16" and not bf16:
        return "warning", f"{text}: use --set model.precision=fp32"
    if device.type == "cpu" and gpus():
        return "warning", f"{text}, but the machine has an NVIDIA GPU: install PyTorch's CUDA build"
    return "ok", text


def check_cores(_: Examined) -> tuple[State, str]:
    from kartrl.hardware.machine import cores

    here = os.cpu_count() or 1
    return "ok", f"{cores()} of {here} available" if cores() < here else f"{here}"


def check_logs(examined: Examined) -> tuple[State, str]:
    """Check that the folder for logs is writable and has free space."""
    logs = examined.config.run.logs_folder.absolute()
    there = nearest(logs)
    if reason := _unwritable(there):
        return "problem", f"{logs}: cannot write ({reason}); choose another folder with --set run.logs=FOLDER"
    free = shutil.disk_usage(there).free
    text = f"{logs} is writable; {free / GIGABYTE:.1f} GB free"
    if free > LITTLE_DISK:
        return "ok", text
    advice = "free some space, or choose another disk with --set run.logs=FOLDER"
    return "warning" if free > TOO_LITTLE_DISK else "problem", f"{text}: {advice}"


def check_data(_: Examined) -> tuple[State, str]:
    """Check that a cartridge could be imported."""
    folder = cartridge.folder().absolute()
    if reason := _unwritable(nearest(folder)):
        return (
            "warning",
            f"{folder}: cannot write ({reason}), so import-rom will fail; set KARTRL_DATA to another folder",
        )
    return "ok", f"{folder.parent} is writable, for import-rom"


def check_temporary(_: Examined) -> tuple[State, str]:
    """Check that there is a folder for sockets."""
    try:
        return "ok", f"{tempfile.gettempdir()} is writable"
    except FileNotFoundError:
        return (
            "problem",
            "none is writable, but processes need it for sockets: docker run --tmpfs /tmp, or set TMPDIR to a folder",
        )


def _unwritable(folder: Path) -> str:
    """Why no file can be created in the folder; "" if one can."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def check_video(_: Examined) -> tuple[State, str]:
    """Check that videos can be written."""
    import numpy as np

    from kartrl.metrics.video import Mp4Writer

    try:
        with tempfile.TemporaryDirectory() as folder, Mp4Writer(Path(folder) / "test.mp4", fps=30) as video:
            for shade in range(2):
                video.add(np.full((224, 256, 3), shade, np.uint8))
    except Exception as error:  # codecs raise various types
        return "warning", f"kartrl record cannot write videos ({error}): pip install --force-reinstall av"
    return "ok", f"H.264 by PyAV {importlib.metadata.version('av')}"
