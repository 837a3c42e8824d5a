"""The processes that act: started, watched, and replaced when they die or stall."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from kartrl.acting.agent import run as run_agent
from kartrl.acting.messages import Failure
from kartrl.acting.own_predictor import OwnNetwork
from kartrl.acting.own_predictor import run as run_own_network
from kartrl.acting.slab import Slab
from kartrl.config import Config
from kartrl.envs.spec import EnvSpec
from kartrl.errors import RunFailed, UserError, brief
from kartrl.processes.backoff import Restarts
from kartrl.processes.child import ChildProcess, kill_orphans, tell_exit
from kartrl.processes.pipes import Inbox
from kartrl.processes.spawn import spawn


class Board(Protocol):
    """Shows the progress of the processes.

    Attributes:
        num_agents: number of processes.
        unrolls: int64 [num_agents], finished by each process, across restarts.
    """

    num_agents: int
    unrolls: np.ndarray

    def signs(self, agent: int) -> int:
        """A number that grows while it makes, resets and steps its environments and asks for actions."""

    def may_move(self, agent: int) -> bool:
        """Whether it could make its next request."""


AnyBoard = TypeVar("AnyBoard", bound=Board)


class Agent:
    """An agent process and its messages."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.process: ChildProcess | None = None
        self.messages: Inbox | None = None
        self.restarts = Restarts()
        self.unrolls = 0  # finished before its last start
        self.moved = (
            0.0,
            0,
        )  # monotonic time and number of its newest request seen, or those at its last start
        self.ended = False  # whether `watch` has seen it dead
        self.cause = self.reason = ""  # of its last death, and in one line


def first_seed(run_seed: int, updates: int) -> int:
    """The seed for a `Supervisor`: different in each run and after each resume."""
    return run_seed * 1_000_003 + updates


class Supervisor(ABC, Generic[AnyBoard]):
    """Supervises all processes of a run that act.

    A death costs only partial unrolls: the process is restarted, as `Restarts` allows. The run fails if fewer than
    `min_agents` are healthy, or if one dies before the first update: then nothing has ever worked.

    Args:
        envs: environments per process.
        min_agents: number of healthy ones that training needs.
    """

    def __init__(
        self,
        config: Config,
        board: AnyBoard,
        role: str,
        envs: int,
        min_agents: int,
        seed: int,
        say: Callable[[str], None],
    ) -> None:
        self._config, self._board, self._role, self._envs = config, board, role, envs
        self._min_agents, self._seed = min_agents, seed
        self._say = say
        self.members = [Agent(number) for number in range(board.num_agents)]

    @abstractmethod
    def _spawn(self, number: int, seed: int) -> tuple[ChildProcess, Connection]:
        """Start one of them; return its process and the connection that receives its messages."""

    def _make_good(self, number: int) -> None:
        """Clean up after the death of one of them."""

    @property
    def alive(self) -> int:
        """Number of agents with a process."""
        return sum(agent.process is not None for agent in self.members)

    @property
    def deaths(self) -> int:
        """Number of deaths since the run began."""
        return sum(agent.restarts.total for agent in self.members)

    @property
    def signs(self) -> int:
        return sum(self._board.signs(agent.number) for agent in self.members)

    @property
    def where(self) -> str:
        return ""

    def start(self) -> None:
        """Start all of them."""
        for agent in self.members:
            self._start(agent)

    def _start(self, agent: Agent) -> None:
        board = self._board
        # A restarted agent gets other seeds, so as not to repeat what killed it, and no environment those of another.
        life = agent.restarts.total * len(self.members) + agent.number
        seed = self._seed + life * self._envs
        agent.unrolls, agent.ended = int(board.unrolls[agent.number]), False
        agent.cause = agent.reason = ""
        agent.moved = (time.monotonic(), board.signs(agent.number))
        agent.process, messages = self._spawn(agent.number, seed)
        agent.messages = Inbox(messages)

    def join(self, timeout: float) -> None:
        """Wait until all of them have ended, at most `timeout` seconds."""
        deadline = time.monotonic() + timeout
        for agent in self.members:
            if agent.process is not None:
                agent.process.join(max(0.0, deadline - time.monotonic()))

    def receive(self, timeout: float) -> Iterator[Any]:
        """Yield what they have sent, except `Failure`; wait at most `timeout` seconds for a message.

        Raises:
            UserError: an agent failed on bad user input.
        """
        readers = {agent.messages.reader: agent for agent in self.members if agent.messages is not None}
        for reader in wait(list(readers), timeout):
            assert isinstance(reader, Connection)
            agent = readers[reader]
            assert agent.messages is not None
            try:
                for message in agent.messages.receive():
                    if not isinstance(message, Failure):
                        yield message
                    elif message.user_error:
                        raise UserError(message.reason)
                    else:
                        agent.cause, agent.reason = message.trace, brief(message.reason)
            except EOFError:  # it is gone; `watch` handles it
                reader.close()
                agent.messages = None

    def watch(self, now: float, trained: bool) -> None:
        """Reap dead agents, kill stalled ones, and restart those whose backoff is over; call `receive` before.

        Args:
            trained: whether there has been an update.

        Raises:
            RunFailed: too few are healthy.
        """
        for agent in self.members:
            if agent.process is None:
                if agent.restarts.due(now):
                    self._restart(agent, now)
            elif not agent.process.is_alive():
                # Its messages have been received by now or, if a process that its environment started holds its pipe
                # open, after one more call of `receive`.
                if agent.messages is None or agent.ended:
                    self._reap(agent, now, trained)
                agent.ended = True
            elif agent.restarts.strikes and int(self._board.unrolls[agent.number]) > agent.unrolls:
                agent.restarts.recovered()
            elif self._is_stalled(agent, now):
                agent.cause = f"no step for {self._config.system.step_timeout:g} s (system.step_timeout)"
                agent.process.kill()

    def rest(self, now: float) -> None:
        for agent in self.members:
            agent.moved = (now, agent.moved[1])

    def _restart(self, agent: Agent, now: float) -> None:
        try:
            self._start(agent)
        except (OSError, RunFailed) as error:  # of the machine's limits
            self._died(agent, now, False, f"cannot be started: {error}")

    def _is_stalled(self, agent: Agent, now: float) -> bool:
        """Whether it has shown no sign of life for too long, though it could have."""
        signs = self._board.signs(agent.number)
        if signs != agent.moved[1] or not self._board.may_move(agent.number):
            agent.moved = (now, signs)
        return now - agent.moved[0] > self._config.system.step_timeout

    def _reap(self, agent: Agent, now: float, trained: bool) -> None:
        assert agent.process is not None
        code, agent.process = agent.process.exitcode, None
        kill_orphans()
        if agent.messages is not None:
            agent.messages.reader.close()
            agent.messages = None
        cause = agent.cause.strip() or tell_exit(code)
        if not trained:  # nothing has ever worked: restarts would loop
            raise RunFailed(f"{self._role} {agent.number} ended before the first update\n{cause}")
        self._died(agent, now, int(self._board.unrolls[agent.number]) > agent.unrolls, cause)

    def _died(self, agent: Agent, now: float, useful: bool, cause: str) -> None:
        """Record a death, and clean up after it."""
        agent.restarts.died(now, useful)
        healthy = sum(not other.restarts.failing for other in self.members)
        if healthy < self._min_agents:
            raise RunFailed(
                f"{healthy} of {len(self.members)} {self._role}s are healthy, "
                f"but system.min_agents is {self._min_agents}\n"
                f"{self._role} {agent.number}, which died {agent.restarts.strikes} times without finishing an unroll: "
                f"{cause}"
            )
        self._make_good(agent.number)
        if self._config.run.reproducible and self.deaths == 1:
            self._say("an agent died: from here on, this run is not reproducible")
        self._say(f"{self._role} {agent.number} is being restarted after: {agent.reason or brief(cause)}")


class Agents(Supervisor[Slab]):
    """The agents of a slab.

    Args:
        settle: returns once no predictor is processing requests gathered before the call.
        own: what the agents run themselves; None: they ask predictors.
    """

    def __init__(
        self,
        config: Config,
        spec: EnvSpec,
        slab: Slab,
        min_agents: int,
        seed: int,
        settle: Callable[[], None],
        say: Callable[[str], None],
        own: OwnNetwork | None = None,
    ) -> None:
        super().__init__(config, slab, "agent", slab.groups_per_agent * slab.group_size, min_agents, seed, say)
        self._spec, self._settle, self._own = spec, settle, own

    def _spawn(self, number: int, seed: int) -> tuple[ChildProcess, Connection]:
        slab = self._board
        reader, writer = slab.context.Pipe(duplex=False)
        slab.admit(number)
        arguments = self._config, self._spec, slab, number, seed, slab.waker(number), writer
        name = f"agent-{number}"
        if self._own is None:
            process = spawn(slab.context, name, run_agent, *arguments)
        else:
            process = spawn(slab.context, name, run_own_network, *arguments, self._own)
        writer.close()
        return process, reader

    def _make_good(self, number: int) -> None:
        slab = self._board
        slab.retire(number)
        self._settle()
        slab.recover(number)
