"""Measures the ideal throughput of a configuration on this machine, the real one, and where the time goes.

The stages of an agent step are measured separately; their sum gives the ideal, cores / (t_environment + t_infer +
(1 + replayed) t_train) agent steps per second, with every core doing only necessary work. Then training is
measured in several windows, alternating with a peer if one is given.
"""

import statistics
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from kartrl.acting.sizes import Sizes
from kartrl.config import Config, check_own, read
from kartrl.config.cluster import Cluster
from kartrl.envs.worlds import load_world
from kartrl.errors import UserError
from kartrl.hardware.devices import learner_device
from kartrl.hardware.machine import cores
from kartrl.launch import config_options
from kartrl.measuring.parts import PART_SECONDS, Parts, measure_parts, replayed_steps
from kartrl.measuring.windows import OURS, Window, peer_command, peer_rate, train_window
from kartrl.sizing.inspection import inspect_env
from kartrl.sizing.resolve import decisions, resolve


class Settings(NamedTuple):
    """Options of `kartrl bench`."""

    seconds: float  # length of each window
    warm: float  # seconds between the first update and the window
    repeat: int  # number of windows
    peer: str  # a command to compare with; "" for none
    ray: str  # a cluster to compare with, see `cluster.ray`; "" for none


def bench(files: list[str], overrides: list[str], settings: Settings, console: Console) -> dict[str, Any]:
    """Measure and print; returns the figures, which docs/reference/json.md describes.

    Raises:
        UserError: bad input, or training or the peer ends early.
    """
    check_own(overrides, OURS, "bench")
    peer = peer_command(settings.peer)
    config = load_world(read(files, overrides)).prepare(console)
    if not settings.ray and (keys := config.cluster.changed_keys()):
        raise UserError(f"[cluster] {keys[0]}: bench compares with a cluster only with --ray ADDRESS")
    spec = inspect_env(config)
    config, sizes = resolve(config, spec, lambda line: console.print(line, highlight=False, markup=False))
    number, on_gpu = cores(), learner_device(config.system).type == "cuda"
    plain = [*overrides, *(f"cluster.{key}={value}" for key, value in Cluster().model_dump().items())]
    options, on_nodes = config_options(files, plain), config_options(files, [*overrides, f"cluster.ray={settings.ray}"])
    windows: list[Window] = []
    nodes: list[float] = []
    peers: list[float] = []
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    ) as progress:
        task = progress.add_task("environment, network and messages, each alone", total=None)
        parts = measure_parts(config, spec, sizes, min(PART_SECONDS, settings.seconds / 10))
        progress.remove_task(task)
        replayed = replayed_steps(config, sizes)
        ideal = parts.ideal(number, on_gpu, replayed)
        console.print(_parts_table(parts, ideal, number, on_gpu, replayed), decisions(config), highlight=False)
        for _ in range(settings.repeat):
            windows.append(train_window(options, settings.seconds, settings.warm, progress))
            console.print(_line(windows[-1], ideal, config), highlight=False)
            if settings.ray:
                nodes.append(train_window(on_nodes, settings.seconds, settings.warm, progress).agent_steps_per_second)
                ratio = nodes[-1] / windows[-1].agent_steps_per_second
                console.print(f"nodes: {nodes[-1]:,.0f} agent steps/s, {ratio:.2f} of that", highlight=False)
            if peer:
                peers.append(peer_rate(peer, settings.seconds, settings.warm, progress))
                ratio = windows[-1].agent_steps_per_second / peers[-1]
                console.print(
                    f"peer: {peers[-1]:,.0f} agent steps/s; training is {ratio:.2f} times as fast", highlight=False
                )
    rates = [window.agent_steps_per_second for window in windows]
    typical = windows[rates.index(statistics.median_low(rates))]
    console.print(_stages_table(typical, sizes, config.system.learners))
    median = statistics.median(rates)
    summary = f"median of {len(rates)}: {median:,.0f} agent steps/s, {median / ideal:.2f} of the ideal"
    if replayed:
        summary += f"; learner idle {typical.learner_idle:.1%}, " + ", ".join(
            f"{name} {1e3 * seconds:.1f} ms/batch" for name, seconds in typical.replay.items()
        )
    if nodes:
        ratio = statistics.median(there / here for there, here in zip(nodes, rates, strict=True))
        summary += f", nodes {ratio:.2f} of it"
    if peers:
        ratio = statistics.median(rate / peer for rate, peer in zip(rates, peers, strict=True))
        summary += f", {ratio:.2f} times the peer"
    console.print(summary, highlight=False)
    return {
        "cores": number,
        "parts": parts._asdict(),
        "replayed_steps": replayed,
        "ideal": ideal,
        "windows": [window._asdict() for window in windows],
        "nodes": nodes,
        "peer": peers,
        "sizes": sizes._asdict(),
    }


def _parts_table(parts: Parts, ideal: float, number: int, on_gpu: bool, replayed: float) -> Table:
    table = Table(
        "part", "us/step", "", title="Each part alone" + ("" if number == 1 else f", on {number} cores at once")
    )
    table.add_row("environment", f"{parts.environment * 1e6:.0f}", f"{1 / parts.environment:,.0f} agent steps/s/core")
    sizes = ", ".join(f"{size}: {seconds * 1e6:.0f}" for size, seconds in parts.infer_by_size.items())
    table.add_row("infer", f"{parts.infer * 1e6:.0f}", f"forward pass, us/observation by batch size: {sizes}")
    table.add_row("train", f"{parts.train * 1e6:.0f}", "forward, loss, backward, optimizer, publish")
    table.add_row(
        "message",
        f"{1e6 / parts.round_trips:.0f}",
        f"a group's round trip alone; {parts.round_trips:,.0f}/s",
    )
    train = f"{1 + replayed:g} x train" if replayed else "train"
    formula = "the slower of environment and GPU" if on_gpu else f"{number} / (environment + infer + {train})"
    table.add_row("ideal", "", f"{ideal:,.0f} agent steps/s: {formula}")
    return table


def _line(window: Window, ideal: float, config: Config) -> str:
    rate = window.agent_steps_per_second
    frames_per_step = load_world(config).frames_per_step
    frames = f"{rate * frames_per_step:,.0f} frames/s, " if frames_per_step > 1 else ""
    return (
        f"training: {rate:,.0f} agent steps/s ({frames}{rate / ideal:.2f} of the ideal), "
        f"batches of {window.prediction_batch:.1f}, lag {window.lag:.1f}, {window.memory_gb:.2f} GB, "
        f"first update after {window.first_update_seconds:.1f} s"
    )


def _stages_table(window: Window, sizes: Sizes, learners: int) -> Table:
    """Where the wall-clock time of each role goes; stages include waiting for a core.

    Args:
        learners: `sizes` and stages are those of the first.
    """
    table = Table("role", "stage", "share of the role's time", "us/agent step", title="Where the time goes")
    number = {"predictor": sizes.predictors, "trainer": sizes.trainers}  # other roles: agents, or Hogwild workers
    for stage, share in window.stages.items():
        role, _, name = stage.partition("_")
        members = learners * number.get(role, sizes.agents)
        microseconds = 1e6 * share * members / window.agent_steps_per_second
        table.add_row(role, name.replace("_", " "), f"{share:.1%}", f"{microseconds:.0f}")
    for role, busy in window.cores.items():
        table.add_row(
            role,
            "processors kept busy",
            f"{busy:.2f}",
            f"{1e6 * busy / window.agent_steps_per_second:.0f}",
            style="dim",
        )
    return table
