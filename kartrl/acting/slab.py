"""The shared slab, through which agents, predictors and trainers exchange data.

Each environment has a slot. The G slots of a group are stepped together by one agent, request their actions in one
message, and fill the blocks of the group's ring one after another; a block holds G unrolls of T steps. All blocks are
in one piece of shared memory, allocated once at the start, where each field of a group is contiguous: what an agent
writes is what the network reads.

Only the numbers of groups, requests and fillings of blocks pass through pipes, which also act as memory barriers. All
state is in the slab, and every field has a single writer at any time, so a process killed at any instant leaves no lock
held and loses no number (`Slab.recover`). The slab is independent of algorithms: it knows only the size of a decision.
"""

import contextlib
import os
import struct
import threading
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from typing import Any, NamedTuple

import numpy as np

from kartrl.acting.messages import Requests
from kartrl.metrics.stopwatch import AGENT_STAGES
from kartrl.processes.pipes import IndexQueue
from kartrl.processes.shared_memory import SharedMemory
from kartrl.trajectory import WITHOUT_TIME, Trajectory

WAKE_SECONDS = 1.0  # longest wait before checking whether the run is stopping
FREE, FINISHED = 0, 1
LOCAL = ("context", "_wakes", "_gathered", "_gathering", "_taken", "deaths")  # only where the slab was created


ANSWER = struct.Struct("<iq")  # a group and the number of its answered request; (-1, 0) if a flag has changed


Layout = dict[str, tuple[tuple[int, ...], str]]  # field -> shape and dtype


class SlabShape(NamedTuple):
    """The size of a slab: N slots in groups of G, each group with a ring of blocks."""

    num_agents: int  # processes
    groups_per_agent: int  # stepped in turn by each agent
    group_size: int  # G
    ring: int  # blocks per group; with 2, an agent can continue while its last block waits
    unroll_length: int  # T
    observation_shape: tuple[int, ...]
    observation_dtype: str  # uint8 or float32
    decision_size: int  # K, numbers in a decision (see `kartrl.trajectory`)
    state_size: int  # S, size of the network's recurrent state
    restriction_size: int = 0  # P if environments say which actions are legal

    def layout(self) -> Layout:
        """The slab's fields."""
        groups = self.num_agents * self.groups_per_agent
        blocks = groups * self.ring
        steps = (blocks, self.unroll_length, self.group_size)
        steps_and_one = (blocks, self.unroll_length + 1, self.group_size)
        return {
            "observation": ((*steps_and_one, *self.observation_shape), self.observation_dtype),
            "version": (steps, "int64"),
            "decision": ((*steps, self.decision_size), "float32"),
            "initial_state": ((blocks, self.group_size, self.state_size), "float32"),
            "stage_seconds": ((self.num_agents, len(AGENT_STAGES)), "float64"),  # where an agent's time goes
            "requested": ((groups,), "int64"),  # number of the group's newest request; written by its agent
            "answered": ((groups,), "int64"),  # number of the newest answered one; written by what answers it
            "restriction": ((groups, self.group_size, self.restriction_size), "float32"),  # of the open request
            "current": ((groups,), "int64"),  # block being filled
            "step": ((groups,), "int64"),  # step of that block
            "reward": (steps, "float32"),
            "first": (steps_and_one, "bool"),
            "terminated": (steps, "bool"),
            "valid": (steps, "bool"),
            "state": ((blocks,), "uint8"),  # FREE or FINISHED
            "filling": ((blocks,), "int64"),  # how often it has been filled
            "retired": (
                (self.num_agents,),
                "bool",
            ),  # agents that died and have not been restarted; written by the server
            "unrolls": (
                (self.num_agents,),
                "int64",
            ),  # finished by the agent across restarts, without quarantined ones
            "quarantined": ((self.num_agents,), "int64"),  # unrolls with non-finite numbers
            "calls": ((self.num_agents,), "int64"),  # environments made by the agent, and their resets and steps
            "passes": ((self.num_agents,), "int64"),  # forward passes of agents that make them themselves
            "stopping": ((1,), "bool"),
        }

    def size(self) -> int:
        """Size of the slab in bytes."""
        return sum(_nbytes(shape, dtype) for shape, dtype in self.layout().values())


class Slab:
    """The shared memory, and the queues of group and block numbers.

    Args:
        context: the multiprocessing context.
        shape: the slab's size.
    """

    def __init__(self, context: BaseContext, shape: SlabShape) -> None:
        self.context = context
        self.num_agents, self.groups_per_agent, self.group_size = shape[:3]
        self.ring, self.unroll_length = shape.ring, shape.unroll_length
        self.num_groups = self.num_agents * self.groups_per_agent
        self.num_blocks = self.num_groups * self.ring
        self._layout = shape.layout()
        self.memory = SharedMemory(shape.size())
        self.waiting = IndexQueue(context)
        self.finished = IndexQueue(context)
        self.wakes = [context.Pipe(duplex=False) for _ in range(self.num_agents)]
        for _, writer in self.wakes:
            os.set_blocking(writer.fileno(), False)
        self._gathered = np.zeros(self.num_groups, np.int64)  # number of the newest request that a predictor has taken
        self._gathering = threading.Lock()
        self._taken = np.zeros(self.num_blocks, np.int64)  # number of the newest filling that was taken for a batch
        self.deaths = 0  # of agents
        self._map()
        self.current[:] = np.arange(self.num_groups) * self.ring

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in (*self._layout, *LOCAL)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._map()

    def _map(self) -> None:
        """Create an array view of the slab for each field of the layout."""
        offset = 0
        for name, (shape, dtype) in self._layout.items():
            array = np.frombuffer(self.memory.view, dtype, int(np.prod(shape)), offset).reshape(shape)
            setattr(self, name, array)
            offset += _nbytes(shape, dtype)

    observation: np.ndarray
    version: np.ndarray
    decision: np.ndarray
    initial_state: np.ndarray
    stage_seconds: np.ndarray
    requested: np.ndarray
    answered: np.ndarray
    restriction: np.ndarray
    current: np.ndarray
    step: np.ndarray
    reward: np.ndarray
    first: np.ndarray
    terminated: np.ndarray
    valid: np.ndarray
    state: np.ndarray
    filling: np.ndarray
    retired: np.ndarray
    unrolls: np.ndarray
    quarantined: np.ndarray
    calls: np.ndarray
    passes: np.ndarray
    stopping: np.ndarray

    def waker(self, agent: int) -> Connection:
        """The pipe on which an agent waits for answers and free blocks; for a `Mailbox` in the agent's process."""
        return self.wakes[agent][0]

    def stop(self) -> None:
        """Wake all agents and make them raise `agent_group.Stopped`."""
        self.stopping[0] = True
        for agent in range(self.num_agents):
            self.wake(agent)

    def wake(self, agent: int, group: int = -1, number: int = 0) -> None:
        with contextlib.suppress(BlockingIOError):  # the pipe is full only if the agent stopped reading long ago
            os.write(self.wakes[agent][1].fileno(), ANSWER.pack(group, number))

    def next_block(self, block: int) -> int:
        """The block that its group fills after this one."""
        begin = block - block % self.ring
        return begin + (block - begin + 1) % self.ring

    # Agent, beside `kartrl.acting.agent_group`

    def finish(self, block: int) -> None:
        """Mark a block as complete, and announce it."""
        self.filling[block] += 1
        self.state[block] = FINISHED
        self.announce(block)

    def announce(self, block: int) -> None:
        """Put this filling of a finished block into the queue."""
        self.finished.put(int(self.filling[block]) * self.num_blocks + block)

    # Predictor, of all agents or of one

    def await_requests(self, limit: int, timeout: float, enough: int = 1, patience: float = 0.0) -> list[int]:
        """Up to `limit` waiting groups, as soon as there is one; empty after `timeout` seconds.

        While fewer than `enough` groups are waiting, it waits for more, up to `patience` seconds.
        """
        waiting = self.waiting.get_many(limit, timeout)
        deadline = time.monotonic() + patience
        while 0 < len(waiting) < enough and (left := deadline - time.monotonic()) > 0:
            waiting += self.waiting.get_many(limit - len(waiting), left)
        return waiting

    def gather_requests(self, waiting: Sequence[int]) -> Requests | None:
        """The open requests of these groups, each once; None if there are none."""
        group = np.array(sorted(set(waiting)), np.int64)
        with self._gathering:
            # A group whose agent was replaced may be in the queue twice, or have been gathered already.
            number = self.requested[group]
            fresh = number != self._gathered[group]
            if not fresh.all():
                group, number = group[fresh], number[fresh]
            self._gathered[group] = number
        return self.read_requests(group, number) if len(group) else None

    def read_requests(self, group: np.ndarray, number: np.ndarray) -> Requests:
        """The open requests of these groups, int64 [n], with these numbers, int64 [n]."""
        block, step = self.current[group], self.step[group]
        restriction = self.restriction[group] if self.restriction.size else None
        return Requests(group, block, step, number, self.observation[block, step], self.first[block, step], restriction)

    def answer_requests(
        self, requests: Requests, decision: np.ndarray, initial_state: np.ndarray, version: int
    ) -> None:
        """Write the decisions, see `write_decisions`, and wake the agents."""
        self.write_decisions(requests, decision, initial_state, version)
        self.answered[requests.group] = requests.number
        for group, number in zip(requests.group.tolist(), requests.number.tolist(), strict=True):
            self.wake(group // self.groups_per_agent, group, number)

    def write_decisions(
        self, requests: Requests, decision: np.ndarray, initial_state: np.ndarray, version: int
    ) -> None:
        """Write the decisions next to the observations.

        Args:
            decision: float32 [n, G, K].
            initial_state: float32 [m, G, S], the recurrent states before the step, of the m requests at step 0.
            version: version of the weights that made the decisions.
        """
        where = (requests.block, requests.step)
        self.decision[where] = decision
        self.version[where] = version
        self.initial_state[requests.block[requests.step == 0]] = initial_state

    # Batch source

    def take_finished(self, limit: int, timeout: float) -> list[int]:
        """Up to `limit` finished blocks, in the order in which they were finished, each filling of a block once.

        Waits up to `timeout` seconds for the first. `recover` announces again what may have arrived already, so that
        what it announced of one filling may arrive when the block has been filled again. If that block were then taken
        before older ones, its agent would wait for these with that one free, and their batch might never be complete.
        """
        blocks = []
        for number in self.finished.get_many(limit, timeout):
            filling, block = divmod(number, self.num_blocks)
            if filling > self._taken[block]:
                self._taken[block] = filling
                blocks.append(block)
        return blocks

    def gather(self, blocks: Sequence[int]) -> Trajectory[np.ndarray]:
        """Copy these finished blocks into a batch of unrolls; each block adds G to B."""
        fields = {
            name: np.concatenate([getattr(self, name)[block] for block in blocks], int(name not in WITHOUT_TIME))
            for name in Trajectory._fields
            if name in self._layout
        }
        size = len(blocks) * self.group_size
        return Trajectory(
            online=np.ones(size, bool), importance=np.ones(size, np.float32), serial=np.full(size, -1), **fields
        )

    def release(self, blocks: Sequence[int]) -> None:
        """Return the memory of these blocks to their agents."""
        self.state[list(blocks)] = FREE
        for agent in sorted({self.agent_of(block) for block in blocks}):
            self.wake(agent)

    def is_finished(self, block: int) -> bool:
        """Whether this block is complete and has not been released."""
        return bool(self.state[block] == FINISHED)

    def agent_of(self, block: int) -> int:
        """The agent that fills this block."""
        return block // self.ring // self.groups_per_agent

    def order_of(self, block: int) -> int:
        """Rank of a finished block by age: 0 for the oldest its group may have, higher for newer ones."""
        return int(block - self.current[block // self.ring] - 1) % self.ring

    # Server

    def signs(self, agent: int) -> int:
        """Number of its environments' calls and of its requests, across restarts."""
        return int(self.requested[self._groups(agent)].sum() + self.calls[agent])

    def may_move(self, agent: int) -> bool:
        """Whether the agent could make a request: it has all answers and a free block."""
        groups = self._groups(agent)
        answered = (self.answered[groups] == self.requested[groups]).all()
        room = any(FREE in self.state[[block, self.next_block(block)]] for block in self.current[groups])
        return bool(answered and room)

    def _groups(self, agent: int) -> slice:
        return slice(agent * self.groups_per_agent, (agent + 1) * self.groups_per_agent)

    def retire(self, agent: int) -> None:
        """Retire a dead agent's open requests: wherever they are in the queue, they will not be gathered.

        Request numbers are never reused, so they distinguish an agent from its replacement.
        """
        groups = self._groups(agent)
        self.retired[agent] = True
        self.deaths += 1
        with self._gathering:
            self._gathered[groups] = self.requested[groups]
        self.answered[groups] = self.requested[groups]

    def admit(self, agent: int) -> None:
        """Mark an agent as alive again, before it is restarted."""
        self.retired[agent] = False

    def recover(self, agent: int) -> None:
        """Put an agent's finished blocks into the queue again, as it may have died before doing so.

        Call it after `retire`, once no predictor is processing the agent's requests.
        """
        blocks = self.groups_per_agent * self.ring
        for block in range(agent * blocks, (agent + 1) * blocks):
            if self.is_finished(block):
                self.announce(block)


def _nbytes(shape: tuple[int, ...], dtype: str) -> int:
    """Bytes of an array, rounded up to a cache line."""
    return -(-int(np.prod(shape)) * np.dtype(dtype).itemsize // 64) * 64
