"""An agent's side of the slab: its requests, their answers, and the results of its actions."""

import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection

import numpy as np

from kartrl.acting.slab import ANSWER, FREE, WAKE_SECONDS, Slab
from kartrl.metrics.stopwatch import Stopwatch
from kartrl.processes.pipes import readable


class Stopped(Exception):
    """The run is stopping, or its server is gone."""


class Mailbox:
    """Where an agent gets its answers: from a predictor by a pipe, or from `serve`, in its own process.

    Args:
        waker: `Slab.waker` of the agent.
        serve: called before each poll of the waker, in a process that itself does what its agent waits for; returns
            the numbers of the requests that it has answered, by group, as far as these do not arrive by the waker.
        request: announces a group's open request; None: to the predictors.
    """

    def __init__(
        self,
        slab: Slab,
        waker: Connection,
        serve: Callable[[], Mapping[int, int]] = lambda: {},
        request: Callable[[int], None] | None = None,
    ) -> None:
        self._slab, self._waker, self._serve = slab, waker, serve
        self.request = slab.waiting.put if request is None else request
        self.answered: dict[int, int] = {}
        """Number of the newest answered request received, by group: an answer is read only after that."""
        self.deferred: list[AgentGroup] = []
        """Groups whose next request waits for a free block; the others continue meanwhile."""

    def serve_until(self, ready: Callable[[], bool]) -> None:
        """Call `serve` (an agent's own forward pass, a Hogwild worker's update) and receive answers until `ready()`.

        Raises:
            Stopped: the run is stopping, or the server is gone.
        """
        self._post()
        while not ready():
            served = self._serve()
            self.answered.update(served)
            file = self._waker.fileno()
            if readable(file, 0.0 if served else WAKE_SECONDS):
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
    """An agent's side of one of its groups: asks for decisions, and fills one block after another.

    The order is `ask`, `answer`, `record`, `ask`, ...
    """

    def __init__(self, slab: Slab, group: int, mailbox: Mailbox, stopwatch: Stopwatch) -> None:
        self._slab, self._group, self._mailbox, self._stopwatch = slab, group, mailbox, stopwatch
        self._agent, self._length = group // slab.groups_per_agent, slab.unroll_length
        block = int(slab.current[group])
        # A block finished before a restart may be trained on only together with the next one, so do not wait for it.
        self._block, self._step = (slab.next_block(block) if slab.is_finished(block) else block), 0
        self._faulty = np.zeros(slab.group_size, bool)  # environments whose unroll in this block must not be trained on
        self._number = int(slab.requested[group])
        self.blocks = 0
        """Blocks finished since the agent's last start."""
        self._question: tuple[np.ndarray, np.ndarray]
        self._restriction: np.ndarray | None = None

    def ask(self, observation: np.ndarray, first: np.ndarray, restriction: np.ndarray | None = None) -> None:
        """Request decisions for observations [G, ...]; the request is sent once its block is free.

        Args:
            first: bool [G], True where an episode begins.
            restriction: float32 [G, P], which actions are legal, see `kartrl.envs.masks`; None: all.
        """
        if self._step == self._length:
            self._finish(observation, first)
        self._question, self._restriction = (observation, first), restriction
        if not self.post():
            self._mailbox.deferred.append(self)
        self._stopwatch.lap("write")

    def post(self) -> bool:
        """Send the pending request if its block is free; return whether it was sent."""
        slab, group, block, step = self._slab, self._group, self._block, self._step
        if slab.state[block] != FREE:
            return False
        slab.observation[block, step], slab.first[block, step] = self._question
        if self._restriction is not None:
            slab.restriction[group] = self._restriction
        slab.current[group], slab.step[group] = block, step
        self._number += 1
        slab.requested[group] = self._number
        self._mailbox.request(group)
        return True

    def answer(self) -> np.ndarray:
        """Wait for the decisions, float32 [G, K].

        Raises:
            Stopped: the run is stopping.
        """
        mailbox = self._mailbox
        mailbox.serve_until(lambda: not self.waits)
        self._stopwatch.lap("wait_block")
        mailbox.serve_until(lambda: mailbox.answered.get(self._group) == self._number)
        self._stopwatch.lap("wait_action")
        return self._slab.decision[self._block, self._step]

    @property
    def waits(self) -> bool:
        """Whether its next request waits for a free block."""
        return self in self._mailbox.deferred

    def record(self, reward: np.ndarray, terminated: np.ndarray, valid: np.ndarray, faulty: np.ndarray) -> None:
        """Store the results of the actions.

        Args:
            reward: float32 [G].
            terminated: bool [G].
            valid: bool [G], False where the environment ignored its action.
            faulty: bool [G], True where it returned non-finite numbers; its whole unroll is then quarantined.
        """
        self._faulty |= faulty
        slab, where = self._slab, (self._block, self._step)
        slab.reward[where] = reward
        slab.terminated[where] = terminated
        slab.valid[where] = valid
        self._step += 1

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
        slab.finish(block)
        self._block, self._step = slab.next_block(block), 0


def take_turns(groups: Sequence[AgentGroup], mailbox: Mailbox) -> Iterator[int]:
    """Yield the index of the group to step next, forever: each in turn, skipping those that wait for a free block.

    The update that frees a block may need other groups' blocks: a restarted agent may have a finished block of one
    group, and have to refill that of another. If all groups wait, the first that no longer does is next.

    Raises:
        Stopped: the run is stopping.
    """
    for index in itertools.cycle(range(len(groups))):
        mailbox.serve_until(lambda: not all(group.waits for group in groups))
        if not groups[index].waits:
            yield index
