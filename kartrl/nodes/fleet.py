"""The learner's side of its nodes: places them on machines, calls them, and replaces dead ones."""

import importlib.util
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from kartrl.acting.published_weights import PublishedWeights
from kartrl.config import Config, dump
from kartrl.envs.spec import EnvSpec
from kartrl.errors import RunFailed, UserError
from kartrl.nodes.delivery import Delivery, Greeting
from kartrl.nodes.host import Host
from kartrl.nodes.identity import identity
from kartrl.nodes.members import COUNTED, Member, places
from kartrl.nodes.node import Node, ProcessGone
from kartrl.nodes.session import Machine, RaySession

CALLS = 2  # outstanding per node: one is answered while the other waits
THREADS = CALLS + 1  # per node: `end` must not wait
MACHINES_SECONDS = 2.0  # between two checks of which machines there are
SEEDS = 15_485_863  # between the seeds of two nodes
LIVES = 86_028_121  # between the seeds of a node and its replacements


class Fleet:
    """All nodes of a run. The thread that assembles batches calls `take` and `call_all`, the server's thread the rest.

    Attributes:
        members: the nodes.
    """

    def __init__(
        self,
        config: Config,
        spec: EnvSpec,
        weights: PublishedWeights,
        batch: int,
        seed: int,
        say: Callable[[str], None],
    ) -> None:
        self._config, self._spec = config, spec
        self._weights, self._batch, self._seed, self._say = weights, batch, seed, say
        self.members: list[Member] = []
        self._hosts: dict[str, Any] = {}  # Ray's actors, by machine
        self._lock = threading.Condition()  # guards what follows, and members' errors
        self._calls: dict[Any, Member] = {}  # outstanding ones, oldest first
        self._put: tuple[Any, int] = (None, -1)  # the newest weights in the object store, and their version
        self._machines: list[Machine] = []
        self._looked = float("-inf")
        self._worked = False  # whether any node ever delivered
        self._waiting_told = False
        self._left: Counter[str] = Counter()  # counts of nodes that have left
        self._lives: Counter[int] = Counter()  # starts of nodes by number; another machine's node may get one's number
        self._session: RaySession | None = None

    # The server's thread

    def start(self, batch_bytes: int) -> None:
        """Connect to Ray, and ask its autoscaler for machines.

        Args:
            batch_bytes: size of the unrolls of an update.

        Raises:
            UserError: see `RaySession`.
        """
        section = self._config.cluster
        self._session = RaySession(section.ray, batch_bytes, self._say)
        self._ray = self._session.ray
        nodes, cpus = (1 if number == "auto" else number for number in (section.nodes, section.node_cpus))
        self._session.ask_for(nodes, cpus)

    def total(self, name: str) -> int:
        """A count of `NodeState`, summed over all nodes of the run, including those that have left."""
        return self._left[name] + sum(member.total(name) for member in self.members)

    @property
    def alive(self) -> int:
        """Number of living agents."""
        return sum(member.state.agents for member in self.members)

    @property
    def deaths(self) -> int:
        """Number of deaths of agents."""
        return self.total("deaths")

    @property
    def signs(self) -> int:
        """Of the nodes, as far as these have delivered unrolls; each watches its own agents."""
        return self.total("predictions")

    @property
    def where(self) -> str:
        """Where the agents run, for display."""
        number = len(self.acting)
        return f" on {number} node{'s' * (number != 1)}"

    @property
    def acting(self) -> list[Member]:
        """The nodes that act."""
        return [member for member in self.members if member.envs]

    def watch(self, now: float) -> None:
        """Start nodes on new machines, restart dead ones, and receive their greetings.

        Raises:
            UserError: the first nodes cannot act.
            RunFailed: no node is left that could act.
        """
        if now - self._looked >= MACHINES_SECONDS:
            assert self._session is not None
            self._looked, self._machines = now, self._session.machines()
            self._leave()
            self._join()
        for member in self.members:
            self._receive_greeting(member)
            if member.error is not None:
                self._after_death(member, now)
            if member.actor is None and not member.restarts.failing and member.restarts.due(now):
                self._start(member)
        if self.members and all(member.restarts.failing for member in self.members):
            raise RunFailed("no node of agents is left")
        if not self.acting and not self._waiting_told:
            there = sum(machine.cpus for machine in self._machines)
            self._say(f"Waiting for a node of agents; the cluster has {len(self._machines)} machines with {there} CPUs")
        self._waiting_told = not self.acting

    def rest(self, now: float) -> None:
        """See `Team`; each node times its own agents."""

    def _leave(self) -> None:
        """Remove nodes whose machine is gone."""
        alive = {machine.id for machine in self._machines}
        for member in [member for member in self.members if member.place.machine.id not in alive]:
            self._say(f"{member.name} left with its machine, {member.place.machine.host}")
            self._drop(member)
            self._left.update({name: member.total(name) for name in COUNTED})
            self.members.remove(member)
        for machine in self._hosts.keys() - alive:
            self._ray.kill(self._hosts.pop(machine))

    def _join(self) -> None:
        """Place new nodes where there is room."""
        section, held = self._config.cluster, [member.place for member in self.members]
        failing = sum(member.restarts.failing for member in self.members)  # which keep their CPUs
        wanted = section.nodes if section.nodes == "auto" else int(section.nodes) + failing
        for place in places(self._machines, held, wanted, section.node_cpus):
            taken = {member.number for member in self.members}
            self.members.append(Member(next(number for number in itertools.count() if number not in taken), place))

    def _start(self, member: Member) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        section, machine = self._config.cluster, member.place.machine
        affinity = NodeAffinitySchedulingStrategy(machine.id, soft=False)
        packs = section.compression == "lz4" or (
            section.compression == "auto" and not machine.here and importlib.util.find_spec("lz4") is not None
        )
        if machine.id not in self._hosts:
            lasting = self._ray.remote(Host).options(
                num_cpus=0, max_restarts=-1, max_task_retries=-1, scheduling_strategy=affinity
            )
            self._hosts[machine.id] = lasting.remote()
        seed = self._seed + member.number * SEEDS + self._lives[member.number] * LIVES
        self._lives[member.number] += 1
        started = self._hosts[machine.id].start.remote(
            identity(), dump(self._config), member.name, member.place.cpus, seed, packs, member.known
        )
        gpus = min(section.node_gpus, machine.gpus)
        options = self._ray.remote(Node).options(
            num_cpus=member.place.cpus,
            num_gpus=gpus,
            max_concurrency=THREADS,
            scheduling_strategy=affinity,
        )
        member.actor = options.remote()
        member.greeting = member.actor.greet.remote(started, gpus > 0)

    def _receive_greeting(self, member: Member) -> None:
        if member.greeting is None or not self._ray.wait([member.greeting], timeout=0)[0]:
            return
        reference, member.greeting = member.greeting, None
        try:
            greeting: Greeting = self._ray.get(reference)
            if (what := _difference(greeting.spec, self._spec)) is not None:
                raise UserError(f"{self._config.environment.id} has {what}: install the same on all machines")
        except Exception as error:
            member.error = error
            return
        each = greeting.envs // greeting.agents
        self._say(f"{member.name} acts on {greeting.host}: {greeting.agents} agents x {each} environments")
        with self._lock:
            member.envs, member.known = greeting.envs, greeting.known
            for _ in range(CALLS):
                self._call(member)

    def _after_death(self, member: Member, now: float) -> None:
        """Report why a node died, and schedule its restart or give it up."""
        error, delivered, envs = member.error, member.delivered, member.envs
        assert error is not None
        host, cause = member.place.machine.host, tell(error)
        refused = isinstance(error, UserError)
        self._drop(member)
        alone = not self.acting and all(other is member or other.restarts.failing for other in self.members)
        lost_by_ray = self._ray.exceptions.RayActorError, self._ray.exceptions.ActorUnschedulableError
        died = isinstance(error, (*lost_by_ray, ProcessGone))
        if not (delivered or died):
            member.known = None  # this may be the cause
        if alone and not self._worked and not died:  # restarts would loop
            raise (UserError if refused else RunFailed)(f"{member.name} on {host}: {cause}") from error
        member.restarts.died(now, useful=delivered)
        while refused and not member.restarts.failing:
            member.restarts.died(now, useful=False)
        again = "is given up after:" if member.restarts.failing else "is being restarted after:"
        what = "is not used:" if refused else again
        lost = f" (its unfinished unrolls, at most {2 * envs}, are lost)" if envs and not refused else ""
        self._say(f"{member.name} on {host} {what} {cause}{lost}")

    def _drop(self, member: Member) -> None:
        """Kill a member's actor and reset its state."""
        with self._lock:
            self._forget_calls(member)
            actor = member.actor
            member.forget_life()
        if actor is not None:
            self._ray.kill(actor)

    def _forget_calls(self, member: Member) -> None:
        self._calls = {call: other for call, other in self._calls.items() if other is not member}

    def end(self, timeout: float) -> None:
        """End all nodes cleanly, so that their agents end too; wait at most `timeout` seconds."""
        deadline = time.monotonic() + timeout
        with self._lock:
            actors = [member.actor for member in self.members if member.actor is not None and member.greeting is None]
            self._calls = {}
            ends = [actor.end.remote() for actor in actors]
        if ends:
            self._ray.wait(ends, num_returns=len(ends), timeout=timeout)
        for member in self.members:
            self._drop(member)
        if ends := [host.end.remote() for host in self._hosts.values()]:
            self._ray.wait(ends, num_returns=len(ends), timeout=max(0.0, deadline - time.monotonic()))
        for host in self._hosts.values():
            self._ray.kill(host)

    def close(self) -> None:
        """Disconnect from Ray; this object must not be used afterwards."""
        if self._session is not None:
            self._session.close()

    # The thread that assembles batches

    def take(self, timeout: float) -> tuple[Member, Delivery] | None:
        """The oldest call that is answered, as its node and answer; None if none is within `timeout` seconds."""
        deadline = time.monotonic() + timeout
        self.call_all(idle=True)
        with self._lock:
            self._lock.wait_for(lambda: self._calls, timeout)
            calls = dict(self._calls)
        call = first_answered(self._ray, calls, max(0.0, deadline - time.monotonic()))
        if call is None:
            return None
        member = calls[call]
        try:
            delivery: Delivery = self._ray.get(call)
        except Exception as error:
            with self._lock:
                if call in self._calls:  # otherwise the node has been dropped meanwhile
                    member.error = error
                    self._forget_calls(member)
            return None
        with self._lock:
            if self._calls.pop(call, None) is None:
                return None
            member.report(delivery.state)
            member.delivered = self._worked = True
        return member, delivery

    def call_all(self, idle: bool = False) -> None:
        """Call nodes again whose calls have been answered, with the newest weights.

        Args:
            idle: only nodes without outstanding calls.
        """
        with self._lock:
            under_way = [*self._calls.values()]
            for member in self.members:
                number = under_way.count(member)
                if member.envs and member.error is None and not (idle and number):
                    for _ in range(CALLS - number):
                        self._call(member)

    def _call(self, member: Member) -> None:
        if self._weights.version != self._put[1]:
            flat, version = self._weights.flat()
            self._put = self._ray.put(flat), version
        enough = -(-self._batch // max(1, len(self.acting)))
        self._calls[member.actor.next_unrolls.remote(*self._put, enough)] = member
        self._lock.notify_all()


def first_answered(ray: Any, calls: Iterable[Any], timeout: float) -> Any | None:
    """The first of these calls that has been answered; None if none is within `timeout` seconds.

    Of several that have been, `ray.wait` for one returns any, mostly the same node's again and again.
    """
    calls = [*calls]
    if not calls or not ray.wait(calls, timeout=timeout)[0]:
        return None
    answered = {*ray.wait(calls, num_returns=len(calls), timeout=0)[0]}
    return next((call for call in calls if call in answered), None)


def tell(error: Exception) -> str:
    """Why a call to a node failed, in one line."""
    cause = getattr(error, "cause", None) or error
    lines = [" ".join(line.split()) for line in str(cause).splitlines() if line.strip()] or [type(cause).__name__]
    if isinstance(cause, UserError | RunFailed) or "creation task" in lines[0]:
        return lines[-1][:400]
    if type(cause).__name__ in ("ActorDiedError", "ActorUnavailableError", "ActorUnschedulableError"):
        return "its process or its machine has died"
    return f"{type(cause).__name__}: {lines[0]}"[:400]


def _difference(there: EnvSpec, here: EnvSpec) -> str | None:
    """How an environment there differs from the learner's; None if their unrolls are compatible."""
    if found := there.observation.differences(here.observation):
        return f"{found[0]} (with the learner)"
    if there.action.title != here.action.title:
        return f"{there.action.title} there, {here.action.title} with the learner"
    return None if there.action == here.action else "actions have other bounds there than with the learner"
