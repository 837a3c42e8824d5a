"""An agent's side of the slab: what it asks, what it is answered, what came of it."""

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection

import numpy as np

from kartrl.metrics.stopwatch import Stopwatch
from kartrl.runtime.index_queue import readable
from kartrl.runtime.slab import ANSWER, FINISHED, FREE, WAKE_SECONDS, Slab


class Stopped(Exception):
    """The run is stopping, or its main process is gone."""


class OutOfOrder(RuntimeError):
    """A group was not asked, answered and recorded in turn."""


class Mailbox:
    """What an agent waits on: the server's answers, and its word that a flag has changed.

    Args:
        waker: `Slab.waker` of the agent.
        serve: called before each look at the waker, by a process that has to do itself what its agent waits for.
    """

    def __init__(self, slab: Slab, waker: Connection, serve: Callable[[], None] = lambda: None) -> None:
        self._slab, self._waker, self._serve = slab, waker, serve
        self.answered: dict[int, int] = {}
        """Number of the newest answered request, by group, as far as it was received: an answer is read only then."""
        self.deferred: list[AgentGroup] = []
        """Groups whose next request waits for a free block; the others go on meanwhile."""

    def wait(self, ready: Callable[[], bool]) -> None:
        """Wait until `ready`.

        Raises:
            Stopped: the run is stopping, or the server has gone.
        """
        self._post()
        while not ready():
            self._serve()
            file = self._waker.fileno()
            if readable(file, WAKE_SECONDS):
                messages = os.read(file, 64 * ANSWER.size)
                if not messages:
                    raise Stopped  # the other end is closed
                self.answered.update(ANSWER.iter_unpack(messages))
            self._post()
            if self._slab.stopping[0]:
                raise Stopped

    def _post(self) -> None:
        self.deferred = [group for group in self.deferred if not group.post()]


class AgentGroup:
    """An agent's side of one of its groups: asks for decisions, and fills one block after the other.

    The order is `ask`, `answer`, `record`, `ask`, ...

    Args:
        slab: the shared memory.
        group: number of the group.
        mailbox: of the agent.
        stopwatch: counts how long it writes and waits.
    """

    def __init__(self, slab: Slab, group: int, mailbox: Mailbox, stopwatch: Stopwatch) -> None:
        self._slab, self._group, self._mailbox, self._stopwatch = slab, group, mailbox, stopwatch
        self._agent, self._length = group // slab.groups_per_agent, slab.unroll_length
        block = int(slab.current[group])
        # What an earlier life of the agent finished may be needed with the next block, so that is not waited for.
        self._block, self._step = (slab.next_block(block) if slab.is_finished(block) else block), 0
        self._faulty = np.zeros(slab.group_size, bool)  # whose unroll in this block is not to be learned from
        self._number = int(slab.requested[group])
        self._next = "ask"
        self.blocks = 0
        """Blocks that were finished in this life of the agent."""
        self._question: tuple[np.ndarray, np.ndarray]

    def ask(self, observation: np.ndarray, first: np.ndarray) -> None:
        """Hand over observations [G, ...], and with `first`, bool [G], where an episode begins.

        The request is sent once there is a free block for it.

        Raises:
            OutOfOrder: the last request was not answered and recorded.
        """
        self._turn("ask", "answer")
        if self._step == self._length:
            self._finish(observation, first)
        self._question = (observation, first)
        if not self.post():
            self._mailbox.deferred.append(self)
        self._stopwatch.lap("write")

    def post(self) -> bool:
        """Send what was asked, if the block that it goes to is free."""
        slab, group, block, step = self._slab, self._group, self._block, self._step
        if slab.state[block] != FREE:
            return False
        slab.observation[block, step], slab.first[block, step] = self._question
        slab.current[group], slab.step[group] = block, step
        self._number += 1
        slab.requested[group] = self._number
        slab.waiting.put(group)
        return True

    def answer(self) -> np.ndarray:
        """Wait for the decisions, float32 [G, K].

        Raises:
            Stopped: the run is stopping.
            OutOfOrder: nothing was asked.
        """
        self._turn("answer", "record")
        mailbox, paused = self._mailbox, self._slab.paused
        mailbox.wait(lambda: not self.waits)
        self._stopwatch.lap("wait_block")
        mailbox.wait(lambda: mailbox.answered.get(self._group) == self._number and not paused[self._agent])
        self._stopwatch.lap("wait_action")
        return self._slab.decision[self._block, self._step]

    @property
    def waits(self) -> bool:
        """Whether its next request waits for a free block."""
        return self in self._mailbox.deferred

    def record(self, reward: np.ndarray, terminated: np.ndarray, valid: np.ndarray, faulty: np.ndarray) -> None:
        """What came of the actions.

        Args:
            reward: float32 [G].
            terminated: bool [G].
            valid: bool [G], False where the environment ignored its action.
            faulty: bool [G], True where it gave numbers that are not finite: the whole unroll is then quarantined.

        Raises:
            OutOfOrder: no answer was taken.
        """
        self._turn("record", "ask")
        self._faulty |= faulty
        slab, where = self._slab, (self._block, self._step)
        slab.reward[where] = reward
        slab.terminated[where] = terminated
        slab.valid[where] = valid
        self._step += 1

    def _turn(self, now: str, then: str) -> None:
        if self._next != now:
            raise OutOfOrder(f"group {self._group}: {now} was called where {self._next} is due")
        self._next = then

    def _finish(self, observation: np.ndarray, first: np.ndarray) -> None:
        slab, block = self._slab, self._block
        slab.observation[block, self._length] = observation
        slab.first[block, self._length] = first
        if self._faulty.any():
            slab.valid[block][:, self._faulty] = False
            slab.quarantined[self._agent] += self._faulty.sum()
        slab.unrolls[self._agent] += (~self._faulty).sum()
        self._faulty[:] = False
        self.blocks += 1
        slab.state[block] = FINISHED
        slab.finished.put(block)
        self._block, self._step = slab.next_block(block), 0


def take_turns(groups: Sequence[AgentGroup], mailbox: Mailbox) -> Iterator[int]:
    """Which group is to be stepped next, for ever: each in turn, but none that waits for a free block.

    The update that frees a block may need the others' blocks: an agent that was replaced may have a finished block of
    one group, and have to begin that of another anew. Where all groups wait, the first that no longer does is next.

    Raises:
        Stopped: the run is stopping.
    """
    for index in itertools.cycle(range(len(groups))):
        mailbox.wait(lambda: not all(group.waits for group in groups))
        if not groups[index].waits:
            yield index
