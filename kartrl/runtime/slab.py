"""The shared slab: where agents, predictors and trainers meet.

Each environment has a slot. The G slots of a group are stepped together by one agent, ask for their actions in one
message, and fill one block after the other of the group's ring: a block holds G unrolls of T steps. All blocks lie in
one shared piece of memory, made once at the start, where each field of a group is contiguous: what an agent writes is
what the network reads.

Only the numbers of groups and blocks travel. The slab alone holds the truth: every field has a single writer at any
time, pipes merely wake, and so a process that is killed at any instant leaves neither a lock held nor a number lost
(`Slots.recover`).
"""

import contextlib
import os
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from typing import Any

import numpy as np

from kartrl.learning.trajectory import Unrolls
from kartrl.metrics.stopwatch import AGENT_STAGES, Stopwatch
from kartrl.runtime.index_queue import IndexQueue, readable
from kartrl.runtime.messages import Requests

WAKE_SECONDS = 1.0  # no wait is longer: then it is checked whether the run is stopping
FREE, FINISHED = 0, 1


class Stopped(Exception):
    """The run is stopping, or its main process is gone."""


class Slots:
    """N slots in groups of G with a ring of blocks each.

    Args:
        context: of multiprocessing.
        num_agents: agent processes.
        groups_per_agent: groups that each of them steps in turn.
        group_size: G.
        ring: blocks for each group; 2 lets an agent go on while its last block waits.
        unroll_length: T.
        observation_shape: of one observation.
        observation_dtype: uint8 or float32.
    """

    def __init__(
        self,
        context: BaseContext,
        num_agents: int,
        groups_per_agent: int,
        group_size: int,
        ring: int,
        unroll_length: int,
        observation_shape: tuple[int, ...],
        observation_dtype: str,
    ) -> None:
        self.context = context
        self.num_agents, self.groups_per_agent, self.group_size = num_agents, groups_per_agent, group_size
        self.num_groups = num_agents * groups_per_agent
        self.ring, self.unroll_length = ring, unroll_length
        blocks = self.num_blocks = self.num_groups * ring
        steps, steps_and_one = (blocks, unroll_length, group_size), (blocks, unroll_length + 1, group_size)
        self._layout: dict[str, tuple[tuple[int, ...], str]] = {
            "observation": ((*steps_and_one, *observation_shape), observation_dtype),
            "version": (steps, "int64"),
            "action": (steps, "int64"),
            "stage_seconds": ((num_agents, len(AGENT_STAGES)), "float64"),  # where an agent's time goes
            "requested": ((self.num_groups,), "int64"),  # number of the group's newest request; written by its agent
            "answered": ((self.num_groups,), "int64"),  # number of the newest answered one; written by a predictor
            "current": ((self.num_groups,), "int64"),  # block being filled
            "step": ((self.num_groups,), "int64"),  # step of that block
            "behaviour_log_prob": (steps, "float32"),
            "reward": (steps, "float32"),
            "reset": (steps_and_one, "bool"),
            "terminated": (steps, "bool"),
            "valid": (steps, "bool"),
            "state": ((blocks,), "uint8"),  # FREE or FINISHED
            "paused": ((num_agents,), "bool"),  # agents that are to take no further step
            "unrolls": ((num_agents,), "int64"),  # finished by the agent, in all its lives, quarantined ones left out
            "quarantined": ((num_agents,), "int64"),  # unrolls with non-finite numbers
            "stopping": ((1,), "bool"),
        }
        size = sum(_nbytes(shape, dtype) for shape, dtype in self._layout.values())
        self._memory = context.RawArray("B", size)  # anonymous: a file descriptor, no name that could be left behind
        self.waiting = IndexQueue(context)
        self.finished = IndexQueue(context)
        self._wakes = [context.Pipe(duplex=False) for _ in range(num_agents)]
        for _, writer in self._wakes:
            os.set_blocking(writer.fileno(), False)
        self._map()
        self.current[:] = np.arange(self.num_groups) * ring

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value for name, value in self.__dict__.items() if name not in (*self._layout, "context", "_wakes")
        }

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
    stage_seconds: np.ndarray
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
    paused: np.ndarray
    unrolls: np.ndarray
    quarantined: np.ndarray
    stopping: np.ndarray

    def waker(self, agent: int) -> Connection:
        """What an agent waits on for answers and free blocks; hand it to `AgentGroup` in the agent's process."""
        return self._wakes[agent][0]

    def stop(self) -> None:
        """Wake all agents and make them raise `Stopped`."""
        self.stopping[0] = True
        for agent in range(self.num_agents):
            self._wake(agent)

    def run_agents(self, number: int) -> None:
        """Let only the first `number` agents go on; the others wait where they are."""
        self.paused[:] = np.arange(self.num_agents) >= number
        for agent in range(self.num_agents):
            self._wake(agent)

    def _wake(self, agent: int) -> None:
        with contextlib.suppress(BlockingIOError):  # a full pipe wakes as well
            os.write(self._wakes[agent][1].fileno(), b"!")

    # Predictor

    def await_requests(self, limit: int, timeout: float, enough: int = 1, patience: float = 0.0) -> list[int]:
        """The groups that wait, `limit` at most, as soon as there is one; none after `timeout` seconds.

        While fewer than `enough` groups wait, it waits for more, up to `patience` seconds.
        """
        waiting = self.waiting.get_many(limit, timeout)
        deadline = time.monotonic() + patience
        while 0 < len(waiting) < enough and (left := deadline - time.monotonic()) > 0:
            waiting += self.waiting.get_many(limit - len(waiting), left)
        return waiting

    def gather_requests(self, waiting: list[int]) -> Requests | None:
        """What these groups ask; None if nothing."""
        # A group whose agent was replaced may have asked twice, or have been answered already.
        group = np.array(sorted(set(waiting)), np.int64)
        number = self.requested[group]
        fresh = number != self.answered[group]
        if not fresh.all():
            group, number = group[fresh], number[fresh]
        if not len(group):
            return None
        block, step = self.current[group], self.step[group]
        return Requests(group, block, step, number, self.observation[block, step], self.reset[block, step])

    def answer_requests(self, requests: Requests, action: np.ndarray, log_prob: np.ndarray, version: int) -> None:
        """Write actions (int64 [n, G]), their log-probabilities (float32 [n, G]) and the weights' version; wake the agents."""
        where = (requests.block, requests.step)
        self.action[where] = action
        self.behaviour_log_prob[where] = log_prob
        self.version[where] = version
        self.answered[requests.group] = requests.number
        for group in requests.group.tolist():
            self._wake(group // self.groups_per_agent)

    # Trainer

    def gather_unrolls(self, blocks: list[int]) -> Unrolls[np.ndarray]:
        """Copy these finished blocks into a batch [T, B, ...], B = G a block, and give their memory back to the agents."""
        fields = (getattr(self, name) for name in Unrolls._fields)
        batch = Unrolls(*(np.concatenate([field[block] for block in blocks], 1) for field in fields))
        self.state[blocks] = FREE
        for agent in sorted({block // self.ring // self.groups_per_agent for block in blocks}):
            self._wake(agent)
        return batch

    def is_finished(self, block: int) -> bool:
        """Whether this block is complete; a number may come twice after `recover`."""
        return bool(self.state[block] == FINISHED)

    # Server

    def requests(self, agent: int) -> int:
        """How many requests the agent has made, in all its lives."""
        return int(self.requested[self._groups(agent)].sum())

    def may_move(self, agent: int) -> bool:
        """Whether the agent has all that it needs for its next request: answers to the last ones, and free blocks."""
        groups = self._groups(agent)
        answered = (self.answered[groups] == self.requested[groups]).all()
        return bool(answered and (self.state[self.current[groups]] == FREE).all() and not self.paused[agent])

    def _groups(self, agent: int) -> slice:
        return slice(agent * self.groups_per_agent, (agent + 1) * self.groups_per_agent)

    def retire(self, agent: int) -> None:
        """After the death of an agent: its open requests will not be gathered any more, whenever they are found in the queue.

        Request numbers never repeat, so they also tell one life of an agent from the next.
        """
        groups = self._groups(agent)
        self.answered[groups] = self.requested[groups]

    def recover(self, agent: int) -> None:
        """After `retire`, when no predictor works on the agent's requests: announce again what it finished but may not have announced."""
        blocks = self.groups_per_agent * self.ring
        for block in range(agent * blocks, (agent + 1) * blocks):
            if self.is_finished(block):
                self.finished.put(block)


class AgentGroup:
    """An agent's side of one of its groups: asks for actions, and fills one block after the other.

    Args:
        slots: the slab.
        group: number of the group.
        waker: `Slots.waker` of the agent.
        stopwatch: counts how long it writes and waits.
    """

    def __init__(self, slots: Slots, group: int, waker: Connection, stopwatch: Stopwatch) -> None:
        self._slots, self._group, self._waker, self._stopwatch = slots, group, waker, stopwatch
        self._agent, self._length = group // slots.groups_per_agent, slots.unroll_length
        self._block, self._step = int(slots.current[group]), 0
        self._faulty = np.zeros(
            slots.group_size, bool
        )  # whose unroll, in the block being filled, is not to be learnt from
        self._number = int(slots.requested[group])
        self._wait(lambda: slots.state[self._block] == FREE)  # an agent that died may have just finished it

    def ask(self, observation: np.ndarray, reset: np.ndarray) -> None:
        """Hand over observations [G, ...], and with `reset`, bool [G], where an episode begins.

        Raises:
            Stopped: the run is stopping.
        """
        slots, group = self._slots, self._group
        if self._step == self._length:
            self._finish(observation, reset)
            self._stopwatch.lap("write")
            self._wait(lambda: slots.state[self._block] == FREE)
            self._stopwatch.lap("wait_block")
        block, step = self._block, self._step
        slots.observation[block, step] = observation
        slots.reset[block, step] = reset
        slots.current[group], slots.step[group] = block, step
        self._number += 1
        slots.requested[group] = self._number
        slots.waiting.put(group)
        self._stopwatch.lap("write")

    def answer(self) -> np.ndarray:
        """Wait for the actions, int64 [G].

        Raises:
            Stopped: the run is stopping.
        """
        slots = self._slots
        self._wait(lambda: slots.answered[self._group] == self._number and not slots.paused[self._agent])
        self._stopwatch.lap("wait_action")
        return slots.action[self._block, self._step]

    def record(self, reward: np.ndarray, terminated: np.ndarray, valid: np.ndarray, faulty: np.ndarray) -> None:
        """What came of the actions.

        Args:
            reward: float32 [G].
            terminated: bool [G].
            valid: bool [G], False where the environment ignored its action.
            faulty: bool [G], True where it gave numbers that are not finite: the whole unroll is then quarantined.
        """
        self._faulty |= faulty
        slots, where = self._slots, (self._block, self._step)
        slots.reward[where] = reward
        slots.terminated[where] = terminated
        slots.valid[where] = valid
        self._step += 1

    def _finish(self, observation: np.ndarray, reset: np.ndarray) -> None:
        slots, block = self._slots, self._block
        slots.observation[block, self._length] = observation
        slots.reset[block, self._length] = reset
        if self._faulty.any():
            slots.valid[block][:, self._faulty] = False
            slots.quarantined[self._agent] += self._faulty.sum()
        slots.unrolls[self._agent] += (~self._faulty).sum()
        self._faulty[:] = False
        slots.state[block] = FINISHED
        slots.finished.put(block)
        first = self._group * slots.ring
        self._block, self._step = first + (block - first + 1) % slots.ring, 0

    def _wait(self, ready: Callable[[], bool]) -> None:
        while not ready():
            file = self._waker.fileno()
            if readable(file, WAKE_SECONDS) and not os.read(file, 64):
                raise Stopped  # the other end is closed: the server has gone
            if self._slots.stopping[0]:
                raise Stopped


def _nbytes(shape: tuple[int, ...], dtype: str) -> int:
    """Bytes of an array, rounded up to a cache line."""
    return -(-int(np.prod(shape)) * np.dtype(dtype).itemsize // 64) * 64
