"""Weights that other processes may copy at any time, without a lock."""

from collections.abc import Callable

import numpy as np

from kartrl.processes.shared_memory import SharedMemory

LINE = 64  # bytes of a cache line


class SharedWeights:
    """The newest weights and their version, in two buffers of shared memory, of which each write takes the other.

    A copy is of one version unless two writes begin while it is made, and is then made again. No process waits for
    another, so one that is killed at any instant holds up no other.

    Args:
        flat: the weights, float32 [n].
        version: their version.
    """

    def __init__(self, flat: np.ndarray, version: int) -> None:
        self._memory = SharedMemory(LINE + 2 * flat.nbytes)
        self._map()
        self._weights[:], self._versions[:] = flat, version

    def __setstate__(self, state: dict[str, SharedMemory]) -> None:
        self._memory = state["_memory"]
        self._map()

    def __getstate__(self) -> dict[str, SharedMemory]:
        return {"_memory": self._memory}

    def _map(self) -> None:
        numbers = np.frombuffer(self._memory.view, np.int64, 4)
        self._begun, self._finished, self._versions = numbers[:1], numbers[1:2], numbers[2:]  # writes; of each buffer
        self._weights = np.frombuffer(self._memory.view, np.float32, offset=LINE).reshape(2, -1)

    def write(self, flat: np.ndarray, version: int) -> None:
        """Store newer weights, float32 [n]; by one thread at a time."""
        number = int(self._begun[0]) + 1
        self._begun[0] = number
        self._weights[number % 2] = flat
        self._versions[number % 2] = version
        self._finished[0] = number

    def fetch(self, copy: Callable[[np.ndarray], None], version: int | None) -> int:
        """Have the newest weights copied, float32 [n], if they are newer than `version`; return their version.

        Args:
            copy: copies them; it may be called again, if they have changed meanwhile.
            version: None if they have never been copied.
        """
        while True:
            number = int(self._finished[0])
            newest = int(self._versions[number % 2])
            if newest == version:
                return version
            copy(self._weights[number % 2])
            if int(self._begun[0]) < number + 2:  # otherwise this buffer was being written again
                return newest
