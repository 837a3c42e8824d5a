"""Predicts throughput with other sizes or on another machine: simulates the queues of a run from measured stage times.

    pip install simpy
    python benchmarks/simulate.py --stages FILE.json                this machine and its sizes
    python benchmarks/simulate.py --stages FILE.json --cores 8 --agents 8 --envs-per-agent 8 [--set predictors=2]
    python benchmarks/simulate.py --stages FILE.json --gpu          forward passes and updates on one GPU
    python benchmarks/simulate.py --stages FILE.json --table        one GPU with 16, 64 and 256 cores

FILE.json is a dictionary with the fields of `Setup` below, seconds and sizes, as written by `kartrl bench --json`. It
may contain points to validate the simulation: "measured": [{"agents": 2, "group_size": 4, "agent_steps_per_second":
1200, "lag": 1.5}, ...]. If agents or environments change, the sizes that depend on them are recomputed as in kartrl.

Not simulated: memory and caches, Python's GIL in the server process, several torch threads per forward pass or update,
episode ends, evaluation. Agents get idle cores only, while the kernel gives them a share.
"""

import argparse
import contextlib
import itertools
import json
import math
import random
from collections import defaultdict, deque
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import simpy
from rich.console import Console
from rich.table import Table

from kartrl.acting.predictor import PATIENCE
from kartrl.sizing.auto import AGENTS_PER_CORE, cheap_groups, ring_length, shortened_unroll

CORE_SLICE = 0.003  # seconds of a time slice among equal priorities, about as in Linux
GPU_SLICE = 0.0002  # kernels of two streams alternate: a forward pass need not wait for a whole update
SATURATED = 0.9  # utilization from which a resource counts as the bottleneck
# A recent data-centre GPU, observations of 84 x 84 x 4 bytes, a small convolutional network; updates of IMPALA by CUDA
# graphs as measured on an H200 (docs/performance.md), all else assumed, not measured.
GPU_ASSUMPTIONS = {
    "forward_base": (400e-6, "per forward pass"),
    "forward_per_observation": (3e-6, "per observation, with its copy to the GPU"),
    "update_base": (2500e-6, "per update"),
    "update_per_step": (1e-6, "per agent step, with its copy"),
    "host": (100e-6, "CPU time before either"),
    "host_per_observation": (6e-6, "per observation, copied twice"),
}
Steps = Generator[simpy.Event, Any, Any]


class Setup(NamedTuple):
    """Seconds and sizes of a run."""

    environment: float  # per agent step
    message: float  # per step of a group: request and answer
    forward_base: float
    forward_per_observation: float
    wake: float  # of a predictor, per answered group
    update_base: float
    update_per_step: float
    agents: int
    groups_per_agent: int
    group_size: int
    prediction_groups: int  # maximum groups per forward pass
    min_groups: int  # groups that a predictor waits for, up to `PATIENCE` forward passes long
    training_blocks: int  # blocks per update
    ring: int  # blocks per group
    unroll_length: int
    predictors: int  # 0: each agent runs the network itself, on its core
    trainers: int
    cores: int
    gpu: bool = False
    host: float = 0.0  # CPU time before the GPU, per batch
    host_per_observation: float = 0.0
    spread: float = 0.0  # maximum relative deviation of an environment's step

    def resized(self, **sizes: Any) -> "Setup":
        """A copy with other sizes, given by name; others that depend on them as in `choose_sizes`."""
        new = self._replace(**sizes)
        groups, before, size = new.agents * new.groups_per_agent, self.agents * self.groups_per_agent, new.group_size
        if (groups, size) == (before, self.group_size):
            return new
        blocks = sizes.get("training_blocks", max(1, round(self.training_blocks * groups / before)))
        new = new._replace(
            prediction_groups=groups if new.predictors else new.groups_per_agent,
            min_groups=cheap_groups(groups, groups if new.gpu else new.cores, new.forward_seconds),
            training_blocks=blocks,
            ring=ring_length(blocks, groups, (new.agents + 1) // 2 * new.groups_per_agent),
            unroll_length=shortened_unroll(self.unroll_length, blocks * size),
        )
        return new._replace(**sizes)

    def forward_seconds(self, counts: Sequence[int]) -> list[float]:
        """Seconds per observation of forward passes of these numbers of groups."""
        return [self.forward_per_observation + self.forward_base / (self.group_size * count) for count in counts]


class Result(NamedTuple):
    """Result of a simulation."""

    agent_steps_per_second: float  # trained
    prediction_batch: float  # mean observations per forward pass
    lag: float  # mean updates between acting and training
    use: dict[str, float]  # resource -> fraction of time in use, including waits for a core or the GPU

    def limit(self) -> str:
        """The first saturated resource; devices before the threads that wait for them."""
        return next((name for name, use in self.use.items() if use >= SATURATED), "none: round trips")


class Queue:
    """A queue with several readers."""

    def __init__(self, env: simpy.Environment) -> None:
        self._env, self._items, self._turns = env, deque[Any](), simpy.Resource(env)
        self._enough, self._reached = 0, env.event()

    def put(self, item: Any) -> None:
        self._items.append(item)
        if len(self._items) == self._enough:
            self._reached.succeed()

    def take(self, least: int, limit: int, patience: float = math.inf) -> Steps:
        """Up to `limit` items, as soon as there are `least`, or one after `patience` seconds."""
        with self._turns.request() as turn:
            yield turn
            for count, seconds in ((1, math.inf), (least, patience)):
                if len(self._items) < count:
                    self._enough, self._reached = count, self._env.event()
                    yield self._reached if seconds == math.inf else self._reached | self._env.timeout(seconds)
                    self._enough = 0
            return [self._items.popleft() for _ in range(min(limit, len(self._items)))]


class Group:
    """Environments stepped together, and their ring of blocks."""

    def __init__(self, env: simpy.Environment) -> None:
        self.answered = self.given_back = env.event()
        self.version = 0  # weights version of the newest actions
        self.versions: list[int] = []  # of each step of the block
        self.finished = 0  # blocks waiting for a trainer


class Simulation:
    """The processes of a run and their shared resources."""

    def __init__(self, setup: Setup) -> None:
        self.setup, self._random = setup, random.Random(1)
        env = self.env = simpy.Environment()
        self._cores, self._gpu = simpy.PreemptiveResource(env, setup.cores), simpy.PreemptiveResource(env)
        self._updating = simpy.Resource(env)  # one update at a time; the other trainer gathers its batch meanwhile
        self._waiting, self._finished = Queue(env), Queue(env)
        self._version = 0
        self.count: defaultdict[str, float] = defaultdict(float)  # events, and seconds of work by resource
        for role, number in (
            (self._agent, setup.agents),
            (self._predictor, setup.predictors),
            (self._trainer, setup.trainers),
        ):
            for _ in range(number):
                env.process(role())

    def run(self, seconds: float, warm_up: bool = True) -> Result:
        """Simulate `seconds` of the steady state."""
        setup, env, count = self.setup, self.env, self.count
        rings = setup.agents * setup.groups_per_agent * setup.group_size * setup.ring * setup.unroll_length
        # until the rings are in the steady state
        while warm_up and count["trained"] < 2 * rings and env.now < 10 * seconds:
            env.run(env.now + seconds / 5)
        count.clear()
        env.run(env.now + seconds)
        numbers = {"GPU": int(setup.gpu), "cores": setup.cores, "trainer": min(1, setup.trainers)}
        numbers |= {"predictor": setup.predictors, "agents": setup.agents}
        use = {name: count[name] / number / seconds for name, number in numbers.items() if number}
        batch = count["observations"] / max(1, count["batches"])
        lag = count["lag"] / count["trained"] if count["trained"] else math.nan
        return Result(count["trained"] / seconds, batch, lag, use)

    def _work(self, role: str, seconds: float, on_gpu: bool = False) -> Steps:
        """Use a core or the GPU in time slices; predictors and trainers preempt agents at once."""
        device, name, most = (self._gpu, "GPU", GPU_SLICE) if on_gpu else (self._cores, "cores", CORE_SLICE)
        priority, began = int(role == "agents"), self.env.now
        while seconds > 1e-9:
            with device.request(priority) as turn, contextlib.suppress(simpy.Interrupt):
                yield turn
                while seconds > 1e-9:
                    start = self.env.now
                    try:
                        yield self.env.timeout(min(seconds, most))
                    finally:
                        seconds -= self.env.now - start
                        self.count[name] += self.env.now - start
                    if device.queue and device.queue[0].priority <= priority:
                        break
        self.count[role] += self.env.now - began

    def _agent(self) -> Steps:
        setup = self.setup
        groups = [Group(self.env) for _ in range(setup.groups_per_agent)]
        message = setup.message if setup.predictors else 0.0
        for group in groups:
            self._ask(group)
        for group in itertools.cycle(groups):
            if not setup.predictors and not group.answered.triggered:  # the agent runs the network itself
                waiting = [each for each in groups if not each.answered.triggered]
                version = self._version
                yield from self._work("agents", self._forward(len(waiting)))
                self._answer(waiting, version)
            yield group.answered
            pace = 1 + setup.spread * self._random.uniform(-1, 1)
            yield from self._work("agents", setup.group_size * setup.environment * pace + message)
            self.count["steps"] += setup.group_size
            group.versions.append(group.version)
            if len(group.versions) == setup.unroll_length:
                group.finished += 1
                group.given_back = self.env.event()
                self._finished.put((group, group.versions))
                group.versions = []
                if group.finished == setup.ring:  # backpressure, which also delays the agent's other groups
                    yield group.given_back
            self._ask(group)

    def _ask(self, group: Group) -> None:
        group.answered = self.env.event()
        if self.setup.predictors:
            self._waiting.put(group)

    def _forward(self, groups: int) -> float:
        """Seconds of a forward pass of so many groups."""
        setup = self.setup
        return setup.forward_base + groups * setup.group_size * setup.forward_per_observation

    def _answer(self, groups: Sequence[Group], version: int) -> None:
        for group in groups:
            group.version = version
            group.answered.succeed()
        self.count["batches"] += 1
        self.count["observations"] += len(groups) * self.setup.group_size

    def _predictor(self) -> Steps:
        setup, busy = self.setup, 0.001
        limit = setup.prediction_groups
        while True:
            groups = yield from self._waiting.take(min(setup.min_groups, limit), limit, patience=PATIENCE * busy)
            start, version, computed = self.env.now, self._version, len(groups)
            if setup.gpu:  # CUDA graphs exist for powers of two only
                computed = min(1 << (computed - 1).bit_length(), limit)
            yield from self._work("predictor", setup.host + len(groups) * setup.group_size * setup.host_per_observation)
            yield from self._work("predictor", self._forward(computed), setup.gpu)
            yield from self._work("predictor", len(groups) * setup.wake)
            self._answer(groups, version)
            busy += 0.1 * (self.env.now - start - busy)

    def _trainer(self) -> Steps:
        setup = self.setup
        steps = setup.training_blocks * setup.group_size * setup.unroll_length
        # several trainers gather batches during an update, so that only updates limit them
        assembler = "trainer" if setup.trainers == 1 else "assembler"
        while True:
            blocks = yield from self._finished.take(setup.training_blocks, setup.training_blocks)
            yield from self._work(assembler, setup.host + steps * setup.host_per_observation)
            for group, _ in blocks:
                group.finished -= 1
                if not group.given_back.triggered:
                    group.given_back.succeed()
            with self._updating.request() as turn:
                yield turn
                yield from self._work("trainer", setup.update_base + steps * setup.update_per_step, setup.gpu)
                lags = [self._version - version for _, versions in blocks for version in versions]
                self.count["lag"] += sum(lags) * setup.group_size
                self.count["trained"] += steps
                self._version += 1


def result_table(title: str, setups: list[Setup], seconds: float) -> Table:
    """A table with one simulation per column."""
    columns = []
    for setup in setups:
        result = Simulation(setup).run(seconds)
        columns.append(
            {
                "cores": f"{setup.cores}",
                "agents x groups x environments": f"{setup.agents} x {setup.groups_per_agent} x {setup.group_size}",
                "predictors, trainers": f"{setup.predictors}, {setup.trainers}",
                "steps per update": f"{setup.training_blocks * setup.group_size * setup.unroll_length:,}",
                "agent steps/s": f"[bold]{result.agent_steps_per_second:,.0f}[/]",
                "mean prediction batch": f"{result.prediction_batch:.1f}",
                "mean policy lag": f"{result.lag:.2f}",
                **{f"use of {name}": f"{min(use, 1):.0%}" for name, use in result.use.items()},
                "saturates first": result.limit(),
            }
        )
    table = Table(title=title, title_justify="left", show_header=False)
    for name in columns[0]:
        table.add_row(name, *(column[name] for column in columns))
    return table


def check_table(setup: Setup, measured: list[dict[str, Any]], seconds: float) -> Table:
    """A table of simulated and measured values."""
    headers = ("agents", "envs", "steps/s", "measured", "error", "lag", "measured", "error")
    table = Table(*headers, title="Simulated and measured", title_justify="left")
    for point in measured:
        here = setup.resized(**{name: value for name, value in point.items() if name in Setup._fields})
        result = Simulation(here).run(seconds)
        cells = [f"{here.agents}", f"{here.groups_per_agent} x {here.group_size}"]
        for simulated, name, form in (
            (result.agent_steps_per_second, "agent_steps_per_second", ",.0f"),
            (result.lag, "lag", ".2f"),
        ):
            truth = point.get(name)
            cells += [
                f"{simulated:{form}}",
                *((f"{truth:{form}}", f"{simulated / truth - 1:+.0%}") if truth else ("", "")),
            ]
        table.add_row(*cells)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stages", type=Path, required=True, metavar="FILE")
    parser.add_argument("--cores", type=int)
    parser.add_argument("--agents", type=int)
    parser.add_argument("--envs-per-agent", type=int)
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="set another field")
    parser.add_argument("--seconds", type=float, default=30.0, help="simulated seconds (default %(default)s)")
    parser.add_argument(
        "--spread", type=float, default=0.2, help="relative spread of the environments' times (default %(default)s)"
    )
    parser.add_argument("--gpu", action="store_true", help="forward passes and updates on one GPU")
    parser.add_argument("--table", action="store_true", help="simulate one GPU with 16, 64 and 256 cores")
    for name, (assumed, meaning) in GPU_ASSUMPTIONS.items():
        parser.add_argument(
            f"--gpu-{name.replace('_', '-')}", type=float, default=assumed, help=f"{meaning} (assumed: %(default)s)"
        )
    options = parser.parse_args()
    data = json.loads(options.stages.read_text())
    if lacking := [name for name in Setup._fields if name not in data and name not in Setup._field_defaults]:
        parser.error(f"{options.stages} lacks {', '.join(lacking)}")

    setup = Setup(**{name: data[name] for name in Setup._fields if name in data})._replace(spread=options.spread)
    sizes: dict[str, Any] = {name: getattr(options, name) for name in ("cores", "agents") if getattr(options, name)}
    if envs := options.envs_per_agent:
        groups = 1 + (envs % 2 == 0)
        sizes |= {"groups_per_agent": groups, "group_size": envs // groups}
    for name, value in (text.split("=") for text in options.set):
        sizes[name] = Setup.__annotations__[name](value)
    console = Console()
    if "measured" in data:
        console.print(check_table(setup, data["measured"], options.seconds))
    if options.gpu or options.table:
        groups = setup.agents * setup.groups_per_agent
        setup = setup._replace(predictors=max(1, setup.predictors), prediction_groups=groups)
        for name, (assumed, meaning) in GPU_ASSUMPTIONS.items():
            seconds = getattr(options, f"gpu_{name}")
            setup = setup._replace(gpu=True, trainers=2, **{name: seconds})
            console.print(
                f"{'ASSUMED' if seconds == assumed else 'given'}: {meaning}, {seconds * 1e6:,.0f} us", highlight=False
            )
    setups = [setup.resized(**sizes)]
    if options.table:
        each = AGENTS_PER_CORE if setups[0].group_size == 1 else 1
        setups = [setup.resized(**{**sizes, "cores": cores, "agents": each * cores}) for cores in (16, 64, 256)]
    console.print(result_table("Simulated" + ", one GPU" * setup.gpu, setups, options.seconds))


if __name__ == "__main__":
    main()
