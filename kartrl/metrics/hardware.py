"""Hardware usage of a run: CPU, memory, GPUs."""

import contextlib
import os
import time
from collections import defaultdict

import psutil
import pynvml

GIGABYTE = 1e9
ROLES = ("agents", "workers", "evaluator", "logger")


class Hardware:
    """Measures the process tree below `root` and the machine's NVIDIA GPUs."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._gpus: list[object] = []
        with contextlib.suppress(pynvml.NVMLError):  # no driver, no GPU
            pynvml.nvmlInit()
            self._gpus = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        self._used: dict[int, float] = {}
        self._time = time.monotonic()
        psutil.cpu_percent()  # the first call starts the measurement
        self.sample()

    def sample(self) -> dict[str, float]:
        """Tags and values since the last call.

        `system/cpu_percent` is of the whole machine. `system/cores_<role>` is the number of CPU cores used by all
        processes of a role, `system/memory_gb_<role>` their memory as proportional set size (PSS) where available.
        """
        now = time.monotonic()
        elapsed = max(now - self._time, 1e-6)
        used: dict[int, float] = {}
        cores: defaultdict[str, float] = defaultdict(float)
        memory: defaultdict[str, float] = defaultdict(float)
        for process in self._processes():
            with contextlib.suppress(psutil.Error):  # ended, or not accessible
                role, times = self._role(process), process.cpu_times()
                used[process.pid] = times.user + times.system
                cores[role] += (used[process.pid] - self._used.get(process.pid, 0.0)) / elapsed
                memory[role] += _memory(process) / GIGABYTE
        self._used, self._time = used, now
        values = {
            "system/cpu_percent": psutil.cpu_percent(),
            "system/memory_gb": sum(memory.values()),
            **{f"system/cores_{role}": value for role, value in cores.items()},
            **{f"system/memory_gb_{role}": value for role, value in memory.items()},
        }
        for index, handle in enumerate(self._gpus):
            with contextlib.suppress(pynvml.NVMLError):
                values[f"system/gpu{index}_percent"] = float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)
                values[f"system/gpu{index}_memory_gb"] = pynvml.nvmlDeviceGetMemoryInfo(handle).used / GIGABYTE
        return values

    def _role(self, process: psutil.Process) -> str:
        """agents, workers, evaluator, logger, server or other, by the process title (`processes.spawn`)."""
        if process.pid == self._root:
            return "server"
        name = process.name()
        return next((role for role in ROLES if f"kartrl {role.removesuffix('s')}" in name), "other")

    def _processes(self) -> list[psutil.Process]:
        try:
            root = psutil.Process(self._root)
            return [root, *root.children(recursive=True)]
        except psutil.Error:
            return []


def _memory(process: psutil.Process) -> float:
    """Memory of a process in bytes: PSS where available, else RSS."""
    if os.name == "posix":
        with contextlib.suppress(psutil.AccessDenied, AttributeError):
            return float(process.memory_full_info().pss)
    return float(process.memory_info().rss)
