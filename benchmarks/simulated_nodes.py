"""Compares simulate_nodes.py with real nodes on this machine; environments only sleep, as if each node had its own.

    pip install simpy
    python benchmarks/simulated_nodes.py [--nodes 1 2 3 4] [--seconds 40] [--side 84] [--set section.key=value]

The simulation's inputs are measured in each run: the seconds of an update and of the intake, and the rate of a node
while its agents do not wait for memory. Network and latency are not measured: simulate_nodes.py's assumptions apply.
"""

import argparse
import contextlib
import os
import secrets
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from simulate_nodes import Cluster, Simulation

from kartrl.launch import config_options
from kartrl.measuring.windows import Window, train_window
from kartrl.metrics.stopwatch import UPDATE_STAGES

ENVS, UNROLL = 8, 20  # environments per node, which are stepped together as it has one core; steps per unroll
SETTINGS = (
    "environment.id=sleeping:Sleeping-v0",
    "evaluation.minutes=0",
    "cluster.node_cpus=1",
    "system.agents=1",
    f"system.envs_per_agent={ENVS}",
    "system.trainers=1",
    f"algorithm.unroll_length={UNROLL}",
)


def simulated(nodes: int, batch: int, step_bytes: float, window: Window) -> Cluster:
    """The inputs of the simulation for a measured run.

    Args:
        batch: unrolls per update.
        step_bytes: per observation.
    """
    updates = window.agent_steps_per_second / (batch * UNROLL)  # per second
    return Cluster(
        nodes=nodes,
        node_rate=window.agent_steps_per_second / nodes / (1 - window.stages["agent_wait_block"]),
        fill_steps=ENVS * UNROLL,
        node_steps=2 * ENVS * UNROLL,
        call_steps=ENVS * UNROLL,
        update_steps=batch * UNROLL,
        update_base=sum(window.stages[f"trainer_{stage}"] for stage in UPDATE_STAGES) / updates,
        update_per_step=0.0,
        intake_per_step=window.stages["trainer_gather"] / window.agent_steps_per_second,
        step_bytes=step_bytes,
    )


@contextlib.contextmanager
def ray_cluster(cpus: int) -> Iterator[str]:
    """Context manager: address of a cluster reachable only from this machine, one node that claims `cpus` CPUs."""
    folder = tempfile.mkdtemp(prefix="ray-")
    os.environ.update(RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0", RAY_AUTH_MODE="token", RAY_USAGE_STATS_ENABLED="0")
    os.environ.update(RAY_AUTH_TOKEN=secrets.token_hex(32), RAY_TMPDIR=folder)
    os.environ["PYTHONPATH"] = os.pathsep.join((str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")))
    Path(folder, "ray").mkdir()
    warnings.simplefilter("ignore")
    from ray.cluster_utils import Cluster as RayCluster

    options = {"num_cpus": cpus, "include_dashboard": False, "object_store_memory": 200_000_000}
    cluster = RayCluster(initialize_head=True, head_node_args=options)
    try:
        yield cluster.address
    finally:
        cluster.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--warm", type=float, default=10)
    parser.add_argument("--side", type=int, default=0, help="of observations of bytes; 0: four floats")
    parser.add_argument("--batch", type=int, default=16, help="unrolls of an update (default %(default)s)")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    options = parser.parse_args()
    headers = (
        "nodes",
        "agent steps/s",
        "simulated",
        "ratio",
        "policy lag",
        "simulated",
        "an update",
        "learner idle",
        "simulated",
    )
    table, console = Table(*headers), Console()
    fixed = [*SETTINGS, f"environment.kwargs.side={options.side}", f"system.training_batch_size={options.batch}"]
    with ray_cluster(max(options.nodes)) as address:
        for nodes in options.nodes:
            where = [f"cluster.ray={address}", f"cluster.nodes={nodes}"]
            with Progress(console=console, transient=True) as progress:
                arguments = config_options([], [*fixed, *where, *options.set])
                window = train_window(arguments, options.seconds, options.warm, progress)
            speed = window.agent_steps_per_second
            cluster = simulated(nodes, options.batch, options.side**2 or 16, window)
            result = Simulation(cluster).run(300)
            table.add_row(
                f"{nodes}",
                f"{speed:,.0f}",
                f"{result.agent_steps_per_second:,.0f}",
                f"{result.agent_steps_per_second / speed:.2f}",
                f"{window.lag:.1f}",
                f"{result.lag:.1f}",
                f"{1000 * cluster.update_base:.0f} ms",
                f"{window.learner_idle:.0%}",
                f"{1 - result.use['learners']:.0%}",
            )
            console.print(table)


if __name__ == "__main__":
    main()
