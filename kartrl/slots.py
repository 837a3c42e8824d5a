"""The shared slab: where agents, predictors and trainers meet.

Each agent owns one slot, and each slot a ring of unrolls in one shared block of memory, made once at the start.
Only slot and unroll numbers travel, through `IndexQueue`s. The slab alone holds the truth: every field has a single
writer at any time, queues and semaphores merely wake, and so a process that is killed at any instant leaves neither
a lock held nor a number lost (`Slots.recover`).
"""

import multiprocessing
import struct
import threading
import time
from multiprocessing.context import BaseContext
from typing import Any

import numpy as np

from kartrl.types import Requests, Unrolls

WAKE_SECONDS = 1.0  # no wait is longer: then it is checked that the others are still there
FREE, FINISHED = 0, 1
_NUMBER = struct.Struct("<i")


class Stopped(Exception):
    """The run is stopping, or its main process is gone."""


class IndexQueue:
    """Small numbers from many processes to the threads of the one that made it.

    A message is one write of 8 bytes to a pipe, which is atomic: no writer holds a lock, so none can die holding one.
    Only the reading threads, which live and die together, take turns.
    """

    def __init__(self, context: BaseContext) -> None:
        self._reader, self._writer = context.Pipe(duplex=False)
        self._reading = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"_writer": self._writer}  # another process only writes

    def put(self, index: int) -> None:
        """Append; blocks only when thousands wait."""
        self._writer.send_bytes(_NUMBER.pack(index))

    def get_many(self, limit: int, timeout: float) -> list[int]:
        """Up to `limit` numbers, as soon as there is one; none after `timeout` seconds."""
        numbers: list[int] = []
        with self._reading:
            while len(numbers) < limit and self._reader.poll(0.0 if numbers else timeout):
                numbers.append(_NUMBER.unpack(self._reader.recv_bytes(_NUMBER.size))[0])
        return numbers


class Slots:
    """N slots with a ring of unrolls each; handed to every agent process when it starts.

    Args:
        context: of multiprocessing.
        num_slots: N.
        ring: unrolls for each slot; 2 lets an agent go on while its last unroll waits.
        unroll_length: T.
        observation_shape: of one observation.
        observation_dtype: uint8 or float32.
    """

    def __init__(
        self,
        context: BaseContext,
        num_slots: int,
        ring: int,
        unroll_length: int,
        observation_shape: tuple[int, ...],
        observation_dtype: str,
    ) -> None:
        self.num_slots, self.ring, self.unroll_length = num_slots, ring, unroll_length
        unrolls = num_slots * ring
        self._layout: dict[str, tuple[tuple[int, ...], str]] = {
            "observation": ((unrolls, unroll_length + 1, *observation_shape), observation_dtype),
            "version": ((unrolls, unroll_length), "int64"),
            "action": ((unrolls, unroll_length), "int64"),
            "requested": ((num_slots,), "int64"),  # number of the slot's newest request; written by its agent
            "answered": ((num_slots,), "int64"),  # number of the newest answered one; written by a predictor
            "current": ((num_slots,), "int64"),  # unroll being filled
            "step": ((num_slots,), "int64"),  # step of that unroll
            "behaviour_log_prob": ((unrolls, unroll_length), "float32"),
            "reward": ((unrolls, unroll_length), "float32"),
            "reset": ((unrolls, unroll_length + 1), "bool"),
            "terminated": ((unrolls, unroll_length), "bool"),
            "valid": ((unrolls, unroll_length), "bool"),
            "state": ((unrolls,), "uint8"),  # FREE or FINISHED
            "stopping": ((1,), "bool"),
        }
        size = sum(_nbytes(shape, dtype) for shape, dtype in self._layout.values())
        self._memory = context.RawArray("B", size)  # anonymous: a file descriptor, no name that could be left behind
        self.waiting = IndexQueue(context)
        self.finished = IndexQueue(context)
        self.answer = [context.Semaphore(0) for _ in range(num_slots)]
        self.freed = [context.Semaphore(0) for _ in range(num_slots)]
        self._map()
        self.current[:] = np.arange(num_slots) * ring

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in self._layout}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._map()

    def _map(self) -> None:
        """Views of the slab, one array for each field of the layout."""
        offset = 0
        for name, (shape, dtype) in self._layout.items():
            array = np.frombuffer(self._memory, dtype, int(np.prod(shape)), offset).reshape(shape)
            setattr(self, name, array)
            offset += _nbytes(shape, dtype)

    observation: np.ndarray
    version: np.ndarray
    action: np.ndarray
    requested: np.ndarray
    answered: np.ndarray
    current: np.ndarray
    step: np.ndarray
    behaviour_log_prob: np.ndarray
    reward: np.ndarray
    reset: np.ndarray
    terminated: np.ndarray
    valid: np.ndarray
    state: np.ndarray
    stopping: np.ndarray

    def stop(self) -> None:
        """Wake all agents and make them raise `Stopped`."""
        self.stopping[0] = True
        for semaphore in (*self.answer, *self.freed):
            semaphore.release()

    # Predictor

    def gather_requests(self, limit: int, timeout: float, patience: float) -> Requests | None:
        """The requests that wait, `limit` at most; None when there are none within `timeout` seconds.

        While fewer than half of the slots wait, it waits once more, for up to `patience` seconds.
        """
        waiting = self.waiting.get_many(limit, timeout)
        enough = min(limit, (self.num_slots + 1) // 2)
        if not waiting:
            return None
        deadline = time.monotonic() + patience
        while len(waiting) < enough and (left := deadline - time.monotonic()) > 0:
            waiting += self.waiting.get_many(limit - len(waiting), left)
        # A slot whose agent was replaced may have asked twice, or have been answered already.
        slot = np.array(sorted(set(waiting)), np.int64)
        number = self.requested[slot]
        fresh = number != self.answered[slot]
        slot, number = slot[fresh], number[fresh]
        if not len(slot):
            return None
        unroll, step = self.current[slot], self.step[slot]
        return Requests(slot, unroll, step, number, self.observation[unroll, step], self.reset[unroll, step])

    def answer_requests(self, requests: Requests, action: np.ndarray, log_prob: np.ndarray, version: int) -> None:
        """Write actions (int64 [n]), their log-probabilities (float32 [n]) and the weights' version; wake the agents."""
        where = (requests.unroll, requests.step)
        self.action[where] = action
        self.behaviour_log_prob[where] = log_prob
        self.version[where] = version
        self.answered[requests.slot] = requests.number
        for slot in requests.slot:
            self.answer[slot].release()

    # Trainer

    def gather_unrolls(self, unrolls: list[int]) -> Unrolls[np.ndarray]:
        """Copy these finished unrolls into a batch [T, B, ...] and give their memory back to the agents."""
        batch = Unrolls(*(np.stack([getattr(self, name)[unroll] for unroll in unrolls], 1) for name in Unrolls._fields))
        for unroll in unrolls:
            self.state[unroll] = FREE
            self.freed[unroll // self.ring].release()
        return batch

    def is_finished(self, unroll: int) -> bool:
        """Whether this unroll is complete; a number may come twice after `recover`."""
        return bool(self.state[unroll] == FINISHED)

    # Server

    def recover(self, slot: int) -> None:
        """After the death of the slot's agent: announce again what it finished but may not have announced."""
        for unroll in range(slot * self.ring, (slot + 1) * self.ring):
            if self.is_finished(unroll):
                self.finished.put(unroll)


class AgentSlot:
    """An agent's side of its slot: asks for actions, and fills one unroll after the other."""

    def __init__(self, slots: Slots, slot: int) -> None:
        self._slots, self._slot = slots, slot
        self._parent = multiprocessing.parent_process()
        self._length = slots.unroll_length
        self._begin(int(slots.current[slot]))

    def act(self, observation: np.ndarray, reset: bool) -> int:
        """Hand over the observation, wait for the action.

        Args:
            observation: as the slab's layout says.
            reset: whether an episode begins here.

        Raises:
            Stopped: the run is stopping.
        """
        slots, slot = self._slots, self._slot
        if self._step == self._length:
            self._finish(observation, reset)
        unroll, step = self._unroll, self._step
        slots.observation[unroll, step] = observation
        slots.reset[unroll, step] = reset
        slots.step[slot] = step
        number = int(slots.requested[slot]) + 1
        slots.requested[slot] = number
        slots.waiting.put(slot)
        self._wait(slots.answer[slot], lambda: slots.answered[slot] == number)
        return int(slots.action[unroll, step])

    def record(self, reward: float, terminated: bool) -> None:
        """What came of the action."""
        self._write(reward, terminated, valid=True)

    def bootstrap(self, observation: np.ndarray) -> None:
        """The last observation of a truncated episode, from whose value its last step bootstraps."""
        if self._step == self._length:  # it takes the place of the observation after the unroll
            self._finish(observation, reset=False)
            return
        slots, unroll, step = self._slots, self._unroll, self._step
        slots.observation[unroll, step] = observation
        slots.reset[unroll, step] = False
        slots.action[unroll, step] = 0
        slots.behaviour_log_prob[unroll, step] = 0.0
        slots.version[unroll, step] = slots.version[unroll, step - 1]
        self._write(0.0, terminated=True, valid=False)

    def _write(self, reward: float, terminated: bool, valid: bool) -> None:
        slots, unroll, step = self._slots, self._unroll, self._step
        slots.reward[unroll, step] = reward
        slots.terminated[unroll, step] = terminated
        slots.valid[unroll, step] = valid
        self._step += 1

    def _finish(self, observation: np.ndarray, reset: bool) -> None:
        slots, unroll = self._slots, self._unroll
        slots.observation[unroll, self._length] = observation
        slots.reset[unroll, self._length] = reset
        slots.state[unroll] = FINISHED
        slots.finished.put(unroll)
        first = self._slot * slots.ring
        self._begin(first + (unroll - first + 1) % slots.ring)

    def _begin(self, unroll: int) -> None:
        slots, slot = self._slots, self._slot
        self._unroll, self._step = unroll, 0
        slots.current[slot], slots.step[slot] = unroll, 0
        self._wait(slots.freed[slot], lambda: slots.state[unroll] == FREE)

    def _wait(self, semaphore: Any, ready: Any) -> None:
        while not ready():
            if not semaphore.acquire(timeout=WAKE_SECONDS) and self._parent is not None and not self._parent.is_alive():
                raise Stopped
            if self._slots.stopping[0]:
                raise Stopped


def _nbytes(shape: tuple[int, ...], dtype: str) -> int:
    """Bytes of an array, rounded up to a cache line."""
    return -(-int(np.prod(shape)) * np.dtype(dtype).itemsize // 64) * 64
