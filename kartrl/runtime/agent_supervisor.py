"""The agent processes: started, watched, and replaced when they die or stall."""

import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait

from kartrl.config import Config
from kartrl.envs.spec import ActionSpec
from kartrl.errors import RunFailed, UserError
from kartrl.runtime import agent_process
from kartrl.runtime.backoff import Restarts
from kartrl.runtime.child_process import ChildProcess, tell_exit
from kartrl.runtime.inbox import Inbox
from kartrl.runtime.messages import EpisodeEnd
from kartrl.runtime.processes import spawn
from kartrl.runtime.slab import Slab


class Agent:
    """An agent process and its messages."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.process: ChildProcess | None = None
        self.messages: Inbox | None = None
        self.restarts = Restarts()
        self.unrolls = 0  # that it had finished when this life began
        self.moved = (
            0.0,
            0,
        )  # monotonic time and number of its newest request that was seen, or of this life's beginning
        self.ended = False  # as `watch` has seen it
        self.cause = ""  # of its last death


class Agents:
    """All agents of a run.

    A dead agent costs its partial unrolls, and nothing else: it is replaced, under `Restarts`. The run fails when fewer
    than `min_agents` are healthy, and when one dies before there has been an update: then nothing ever worked.

    Args:
        config: the configuration.
        action: what agents may do.
        slab: the shared memory.
        min_agents: healthy ones that training needs.
        seed: of the first agent's first environment.
        settle: returns when no predictor works any more on requests that it had gathered before.
        say: tells the user.
    """

    def __init__(
        self,
        config: Config,
        action: ActionSpec,
        slab: Slab,
        min_agents: int,
        seed: int,
        settle: Callable[[], None],
        say: Callable[[str], None],
    ) -> None:
        self._config, self._action, self._slab = config, action, slab
        self._min_agents, self._seed = min_agents, seed
        self._settle, self._say = settle, say
        self._agents = [Agent(number) for number in range(slab.num_agents)]

    @property
    def alive(self) -> int:
        """Agents with a process."""
        return sum(agent.process is not None for agent in self._agents)

    @property
    def deaths(self) -> int:
        """Of agents, since the run began."""
        return sum(agent.restarts.total for agent in self._agents)

    def start(self) -> None:
        """Start all of them."""
        for agent in self._agents:
            self._start(agent)

    def _start(self, agent: Agent) -> None:
        slab = self._slab
        reader, writer = slab.context.Pipe(duplex=False)
        # A restarted agent must not repeat the life that killed it.
        envs = slab.groups_per_agent * slab.group_size
        seed = self._seed + agent.number * envs + agent.restarts.total * 10_007
        agent.unrolls, agent.ended, agent.cause = int(slab.unrolls[agent.number]), False, ""
        agent.moved = (time.monotonic(), slab.requests(agent.number))
        slab.admit(agent.number)
        agent.process = spawn(
            slab.context,
            f"agent-{agent.number}",
            agent_process.run,
            self._config,
            self._action,
            slab,
            agent.number,
            seed,
            slab.waker(agent.number),
            writer,
        )
        agent.messages = Inbox(reader)
        writer.close()

    def receive(self, timeout: float) -> Iterator[EpisodeEnd]:
        """The episodes that have ended; waits for a message at most this long.

        Raises:
            UserError: an agent met bad input.
        """
        readers = {agent.messages.reader: agent for agent in self._agents if agent.messages is not None}
        for reader in wait(list(readers), timeout):
            assert isinstance(reader, Connection)
            agent = readers[reader]
            assert agent.messages is not None
            try:
                for message in agent.messages.receive():
                    if isinstance(message, EpisodeEnd):
                        yield message
                    elif message.user_error:
                        raise UserError(message.reason)
                    else:
                        agent.cause = message.trace
            except EOFError:  # it has gone; `watch` sees to it
                reader.close()
                agent.messages = None

    def watch(self, now: float, trained: bool) -> None:
        """Reap dead agents, kill stalled ones, and restart those whose backoff is over; call `receive` before.

        Args:
            now: the monotonic time.
            trained: whether there has been an update.

        Raises:
            RunFailed: too few are healthy.
        """
        for agent in self._agents:
            if agent.process is None:
                if agent.restarts.due(now):
                    self._start(agent)
            elif not agent.process.is_alive():
                # What it said is heard by now or, where its pipe does not end, since a process that its environment
                # started holds it, when `receive` has been called once more.
                if agent.messages is None or agent.ended:
                    self._reap(agent, now, trained)
                agent.ended = True
            elif self._is_stalled(agent, now):
                agent.cause = f"no step came from it for system.step_timeout, {self._config.system.step_timeout:g} s"
                agent.process.kill()

    def _is_stalled(self, agent: Agent, now: float) -> bool:
        """Whether it has not moved for too long, though nothing kept it from moving."""
        requests = self._slab.requests(agent.number)
        if requests != agent.moved[1] or not self._slab.may_move(agent.number):
            agent.moved = (now, requests)
        return now - agent.moved[0] > self._config.system.step_timeout

    def _reap(self, agent: Agent, now: float, trained: bool) -> None:
        assert agent.process is not None
        code, agent.process = agent.process.exitcode, None
        if agent.messages is not None:
            agent.messages.reader.close()
            agent.messages = None
        cause = agent.cause.strip() or tell_exit(code)
        if not trained:  # nothing ever worked: starting again would loop
            raise RunFailed(f"agent {agent.number} ended before the first update\n{cause}")
        agent.restarts.died(now, useful=int(self._slab.unrolls[agent.number]) > agent.unrolls)
        healthy = sum(not other.restarts.failing for other in self._agents)
        if healthy < self._min_agents:
            raise RunFailed(
                f"{healthy} of {len(self._agents)} agents are healthy, "
                f"and system.min_agents asks for {self._min_agents}\n"
                f"agent {agent.number}, which died {agent.restarts.strikes} times without finishing an unroll: {cause}"
            )
        self._slab.retire(agent.number)
        self._slab.run_agents(self._slab.num_agents)  # one that the controller had paused may have to take its place
        self._settle()
        self._slab.recover(agent.number)
        if self._config.run.reproducible and self.deaths == 1:
            self._say("an agent has died: from here on this run cannot be reproduced")
        self._say(f"agent {agent.number} is started again; it ended: {cause.splitlines()[-1]}")
