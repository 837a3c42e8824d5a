"""Predicts a cluster's throughput: up to 1,024 nodes of agents, several learners, and the network between them.

    pip install simpy
    python benchmarks/simulate_nodes.py                                      1 to 1,024 nodes, one learner
    python benchmarks/simulate_nodes.py --nodes 256 1024 --set learners=8 --set compression=2.5
    python benchmarks/simulate_nodes.py --stages FILE.json                   nodes like the machine that was measured
    python benchmarks/simulate_nodes.py -o docs/nodes.png                    a chart: one learner to sixteen

A node is a machine with agents and a predictor, which fill its memory with unrolls; it sends whole batches of them to
its learner, with two calls in flight. Calls are renewed after each update, and at once for a node that has none left;
each brings the newest weights, if the node does not have them. Learners wait for each other at each update and sum
their gradients in a ring. FILE.json, written by `kartrl bench --json`, gives a learner's times, and a node's agent
steps per second, as predicted by simulate.py.

Not simulated: Ray's own time for each call (about 1 ms, included in `latency`), other traffic, and switches slower than
the machines connected to them. A learner's failures are not simulated but estimated: on average, half of the time
between two checkpoints is lost.
"""

import argparse
import json
import math
import random
import statistics
from collections import defaultdict, deque
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import simpy
from rich.console import Console
from rich.table import Table

SATURATED = 0.9  # utilization from which a resource counts as the bottleneck
NODES = (1, 4, 16, 64, 256, 1024)
CURVES: dict[str, dict[str, Any]] = {  # of the chart
    "1 learner, updates of 512 steps": {},
    "1 learner, 8,192": {"update_steps": 8192},
    "8 learners, 8,192 each": {"learners": 8, "update_steps": 8192},
    "16 learners, 8,192 each": {"learners": 16, "update_steps": 8192},
}
ADVICE = {
    "nodes": "nothing: more nodes are of use",
    "network into a learner": "compression, smaller observations, or more learners",
    "network out of a learner": "weights for every other call only, in bf16, or more learners",
    "learners": "larger updates, a faster GPU, a cheaper compression, or more learners",
    "sum of gradients": "larger updates, a faster network between learners, or fewer learners",
}
Steps = Generator[simpy.Event, Any, Any]


class Cluster(NamedTuple):
    """Sizes, seconds and bytes; the defaults are assumptions: the kart on two cores per node, one GPU per learner."""

    nodes: int = 1
    learners: int = 1
    node_rate: float = 1800.0  # agent steps/s of a node that never waits
    call_steps: int = 512  # agent steps that a node sends at once
    calls: int = 2  # in flight per node
    fill_steps: int = 512  # one unroll of each of a node's environments: all are filled at once
    node_steps: int = 1024  # agent steps that a node's memory holds
    update_steps: int = 512  # of each learner
    update_base: float = 5e-3
    update_per_step: float = 8e-6
    step_bytes: float = 2900.0  # of an agent step on the network: its newest frame
    compression: float = 1.0  # ratio
    compress_per_step: float = 0.0  # on a node
    intake_per_step: float = 2e-6  # on a learner: to decompress and copy
    weight_bytes: float = 2.6e6  # of the network
    bandwidth: float = 1.25e9  # bytes/s of a machine, in each direction
    latency: float = 1e-3  # of a message, one way
    max_lag: float = math.inf  # updates beyond which a batch is dropped
    node_mtbf: float = math.inf  # mean seconds between failures of a node
    node_restart: float = 30.0  # until it works again
    learner_mtbf: float = math.inf
    learner_restart: float = 60.0
    checkpoint: float = 60.0  # seconds between two checkpoints
    spread: float = 0.1  # maximum relative deviation of a node's time for a batch


class Result(NamedTuple):
    """Result of a simulation."""

    agent_steps_per_second: float  # trained
    lag: float  # mean updates between a batch's weights and its update
    dropped: float  # fraction of batches that were too old
    lost: float  # fraction of batches lost with a failed node
    use: dict[str, float]  # resource -> fraction of time in use, mean over all of its kind

    def limit(self) -> str:
        """The most used resource, if it is saturated."""
        name = max(self.use, key=lambda name: self.use[name])
        return name if self.use[name] >= SATURATED else "none: round trips"


class Batch(NamedTuple):
    """A batch that a node has filled or sent."""

    version: float  # of the weights that acted, mean over the steps
    oldest: int
    node: "Node"


class Node:
    """A machine with agents."""

    def __init__(self, env: simpy.Environment, learner: "Learner") -> None:
        self.learner = learner
        self.calls = simpy.Store(env)  # that have arrived
        self.filled = simpy.Store(env)  # batches
        self.emptied = env.event()  # triggered when there is room for a batch
        self.begun = env.event()  # triggered when the first weights have arrived
        self.outstanding = 0  # unanswered calls, as counted by the learner
        self.fails = math.inf  # time of the next failure
        self.asked = -1  # version of its weights, or of the ones on their way
        self.version, self._since, self._area = 0, 0.0, 0.0  # the area is the version's integral until `_since`

    def take(self, version: int, now: float) -> None:
        """Act with these weights from now on."""
        self._area, self._since = self.area(now), now
        self.version = max(version, self.version)
        if not self.begun.triggered:
            self.begun.succeed()

    def area(self, now: float) -> float:
        """The integral of the version over time, until now."""
        return self._area + self.version * (now - self._since)


class Learner:
    """A learner's machine, and the batches waiting on it."""

    def __init__(self, env: simpy.Environment) -> None:
        self.into, self.out = simpy.Resource(env), simpy.Resource(env)
        self.nodes: list[Node] = []
        self.waiting: deque[Batch] = deque()
        self.come = env.event()  # triggered when a batch arrives


class Simulation:
    """A cluster's processes; all learners update at the same time, so there is a single version."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self._random = cluster, random.Random(1)
        env = self.env = simpy.Environment()
        self.count: defaultdict[str, float] = defaultdict(float)  # events, and seconds of work by resource
        self._version, self._ready, self._updated = 0, 0, env.event()
        self._learners = [Learner(env) for _ in range(cluster.learners)]
        for number in range(cluster.nodes):
            learner = self._learners[number % cluster.learners]
            node = Node(env, learner)
            node.fails = self._lifetime()
            learner.nodes.append(node)
            env.process(self._act(node))
            env.process(self._answer(node))
        for learner in self._learners:
            env.process(self._learn(learner))

    def run(self, seconds: float) -> Result:
        """Simulate `seconds` of the steady state, after a warm-up of the same length."""
        cluster, count = self.cluster, self.count
        self.env.run(seconds)
        count.clear()
        self.env.run(2 * seconds)
        numbers = dict.fromkeys(ADVICE, cluster.learners) | {"nodes": cluster.nodes}
        use = {name: count[name] / seconds / number for name, number in numbers.items()}
        sent = max(1.0, count["taken"] + count["dropped"])
        rate = count["taken"] * cluster.call_steps / seconds * self._availability()
        lag = count["lag"] / max(1.0, count["taken"])
        return Result(rate, lag, count["dropped"] / sent, count["lost"] / (sent + count["lost"]), use)

    def _availability(self) -> float:
        """Fraction of the time in which no learner is being restarted, and no work is repeated."""
        cluster = self.cluster
        cost = cluster.learner_restart + cluster.checkpoint / 2
        return 1 / (1 + cost * cluster.learners / cluster.learner_mtbf)

    def _lifetime(self) -> float:
        mtbf = self.cluster.node_mtbf
        return math.inf if mtbf == math.inf else self.env.now + self._random.expovariate(1 / mtbf)

    def _work(self, name: str, resource: simpy.Resource, seconds: float) -> Steps:
        with resource.request() as turn:
            yield turn
            yield self.env.timeout(seconds)
            self.count[name] += seconds

    def _act(self, node: Node) -> Steps:
        """Agents fill one batch after another, as long as there is memory."""
        cluster, env = self.cluster, self.env
        room = max(1, cluster.node_steps // cluster.call_steps)
        # mean and oldest version of the last batches, during which a batch's unrolls were filled along with others
        acted = deque[tuple[float, int]](maxlen=max(1, cluster.fill_steps // cluster.call_steps))
        yield node.begun
        while True:
            while len(node.filled.items) >= room:
                node.emptied = env.event()
                yield node.emptied
            before, begin, oldest = node.area(env.now), env.now, node.version
            pace = 1 + cluster.spread * self._random.uniform(-1, 1)
            seconds = cluster.call_steps * (pace / cluster.node_rate + cluster.compress_per_step)
            if env.now + seconds > node.fails:
                yield env.timeout(max(0.0, node.fails - env.now) + cluster.node_restart)
                self.count["lost"] += 1 + len(node.filled.items)
                node.filled.items.clear()
                node.asked, node.fails = -1, self._lifetime()
                continue
            yield env.timeout(seconds)
            self.count["nodes"] += seconds
            acted.append(((node.area(env.now) - before) / (env.now - begin), oldest))
            mean = statistics.fmean(each for each, _ in acted)
            yield node.filled.put(Batch(mean, acted[0][1], node))

    def _answer(self, node: Node) -> Steps:
        """Answer each call with a batch."""
        while True:
            yield node.calls.get()
            batch: Batch = yield node.filled.get()
            if not node.emptied.triggered:
                node.emptied.succeed()
            self.env.process(self._send(batch))

    def _send(self, batch: Batch) -> Steps:
        cluster, learner = self.cluster, batch.node.learner
        size = cluster.call_steps * cluster.step_bytes / cluster.compression
        yield from self._work("network into a learner", learner.into, size / cluster.bandwidth)
        yield self.env.timeout(cluster.latency)
        learner.waiting.append(batch)
        if not learner.come.triggered:
            learner.come.succeed()

    def _call_all(self, learner: Learner, idle: bool = False) -> None:
        """Call the nodes that have answered; `idle`: only those with no call left."""
        for node in learner.nodes:
            if not (idle and node.outstanding):
                for _ in range(self.cluster.calls - node.outstanding):
                    self.env.process(self._call(node))
                node.outstanding = self.cluster.calls

    def _call(self, node: Node) -> Steps:
        """Send a call, and the newest weights with it."""
        cluster, env, learner = self.cluster, self.env, node.learner
        yield env.timeout(cluster.latency)
        newest = self._version
        if node.asked < newest:
            node.asked = newest
            yield from self._work("network out of a learner", learner.out, cluster.weight_bytes / cluster.bandwidth)
            yield env.timeout(cluster.latency)
            node.take(newest, env.now)
        yield node.calls.put(None)

    def _learn(self, learner: Learner) -> Steps:
        """Gather batches, wait for the other learners, and update together."""
        cluster, env, count = self.cluster, self.env, self.count
        wanted = max(1, round(cluster.update_steps / cluster.call_steps))
        steps = wanted * cluster.call_steps
        while True:
            chosen: list[Batch] = []
            while len(chosen) < wanted:
                self._call_all(learner, idle=True)
                if not learner.waiting:
                    learner.come = env.event()
                    yield learner.come
                batch = learner.waiting.popleft()
                batch.node.outstanding -= 1
                if self._version - batch.oldest > cluster.max_lag:
                    count["dropped"] += 1
                else:
                    chosen.append(batch)
            yield env.timeout(steps * cluster.intake_per_step)
            count["learners"] += steps * cluster.intake_per_step
            self._ready += 1
            if self._ready < cluster.learners:
                yield self._updated
            else:
                seconds, ring = cluster.update_base + steps * cluster.update_per_step, self._ring_seconds()
                yield env.timeout(seconds + ring)
                count["learners"] += seconds * cluster.learners
                count["sum of gradients"] += ring * cluster.learners
                self._version += 1
                self._ready, updated, self._updated = 0, self._updated, env.event()
                updated.succeed()
            count["taken"] += len(chosen)
            count["lag"] += sum(self._version - 1 - batch.version for batch in chosen)
            self._call_all(learner)

    def _ring_seconds(self) -> float:
        """Seconds to sum the gradients of L learners: 2 (L - 1) messages of 1 / L of the gradients each."""
        messages = 2 * (self.cluster.learners - 1)
        part = self.cluster.weight_bytes / self.cluster.learners
        return messages * (part / self.cluster.bandwidth + self.cluster.latency / 10)  # learners are neighbours


def result_table(clusters: list[Cluster], seconds: float) -> Table:
    """A table with one simulation per row."""
    headers = ("nodes", "learners", "agent steps/s", "of all nodes' ideal", "policy lag", "dropped", "lost")
    table = Table(*headers, "saturates first", "what to change", title="Simulated", title_justify="left")
    for cluster in clusters:
        result = Simulation(cluster).run(seconds)
        limit = result.limit()
        ideal = result.agent_steps_per_second / (cluster.nodes * cluster.node_rate)
        numbers = f"{result.agent_steps_per_second:,.0f}", f"{ideal:.0%}", f"{result.lag:.1f}"
        faults = f"{result.dropped:.1%}", f"{result.lost:.1%}"
        advice = ADVICE.get(limit, "more calls under way, or larger ones")
        table.add_row(f"{cluster.nodes:,}", f"{cluster.learners}", *numbers, *faults, limit, advice)
    return table


def chart(cluster: Cluster, numbers: Sequence[int], seconds: float, path: Path) -> None:
    """Throughput and policy lag by the number of nodes, a curve for each of `CURVES`."""
    import matplotlib.pyplot as plt

    figure, (speed, lag) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    speed.plot(numbers, [nodes * cluster.node_rate for nodes in numbers], "k:", label="all nodes' ideal")
    for name, fields in CURVES.items():
        several = [nodes for nodes in numbers if nodes >= fields.get("learners", 1)]
        results = [Simulation(cluster._replace(nodes=nodes, **fields)).run(seconds) for nodes in several]
        speed.plot(several, [result.agent_steps_per_second for result in results], "o-", label=name)
        lag.plot(several, [result.lag for result in results], "o-", label=name)
    for axis, title in ((speed, "agent steps per second"), (lag, "mean policy lag, updates")):
        axis.set(xscale="log", yscale="log", xlabel="nodes", title=title)
        axis.set_xticks(numbers, [f"{number:,}" for number in numbers])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    speed.legend(fontsize="small")
    figure.suptitle("Simulated from assumed times, not measured")
    figure.savefig(path, dpi=110)


def measured(file: Path, seconds: float) -> dict[str, float]:
    """Fields of `Cluster` from a measured machine: as a node, without a trainer, and as a learner."""
    import simulate

    data = json.loads(file.read_text())
    setup = simulate.Setup(**{name: data[name] for name in simulate.Setup._fields if name in data})
    alone = setup._replace(update_base=0.0, update_per_step=0.0)
    return {
        "node_rate": simulate.Simulation(alone).run(seconds).agent_steps_per_second,
        "call_steps": setup.training_blocks * setup.group_size * setup.unroll_length,
        "update_base": setup.update_base,
        "update_per_step": setup.update_per_step,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stages", type=Path, metavar="FILE")
    parser.add_argument("--nodes", type=int, nargs="+", default=NODES)
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="set a field of `Cluster`")
    parser.add_argument("--seconds", type=float, default=10.0, help="simulated seconds (default %(default)s)")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE.png", help="draw a chart instead of a table")
    options = parser.parse_args()
    values: dict[str, Any] = measured(options.stages, options.seconds) if options.stages is not None else {}
    for name, value in (text.split("=") for text in options.set):
        values[name] = Cluster.__annotations__[name](value)
    cluster, console = Cluster(**values), Console()
    assumed = [f"{name} {value:g}" for name, value in cluster._asdict().items() if name not in ("nodes", *values)]
    console.print(f"ASSUMED: {', '.join(assumed)}", highlight=False)
    if options.output is not None:
        chart(cluster, options.nodes, options.seconds, options.output)
        return
    console.print(result_table([cluster._replace(nodes=nodes) for nodes in options.nodes], options.seconds))


if __name__ == "__main__":
    main()
