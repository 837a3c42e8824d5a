"""The logger: drains metrics from a queue and writes TensorBoard events and a CSV file. It does not load torch."""

import math
import multiprocessing
import os
import signal
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path

from kartrl.config import Config
from kartrl.envs.episode import Episode
from kartrl.envs.worlds import load_world
from kartrl.metrics.episode_metrics import training_scalars
from kartrl.metrics.hardware import Hardware
from kartrl.metrics.records import EpisodeBatch, EpisodeRecord, Histograms, Record, Scalars, Video
from kartrl.metrics.sinks import Sinks
from kartrl.processes.pipes import Pulse

EPISODES_SECONDS = 5.0  # episodes are averaged over this long
HARDWARE_SECONDS = 10.0
WAIT_SECONDS = 1.0  # how long to wait for a message before periodic work


def run(
    config: Config,
    run_folder: Path,
    records: Connection,
    first_step: int,
    signs: Connection | None = None,
    first_seconds: float = math.inf,
    provenance: Mapping[str, str] | None = None,
) -> None:
    """Body of the logger process; ends on None, or when its parent is gone.

    Args:
        run_folder: gets the event file and `scalars.csv`, which hold the same scalars, and `episodes.csv`.
        records: gives `Scalars`, `Histograms`, `EpisodeRecord`, `Video`, and finally None. The evaluator's
            episodes arrive as means only, in `Scalars`.
        first_step: agent steps at which this process begins; anything logged after that, by a run that got further
            than the checkpoint it is resumed from, is discarded.
        first_seconds: seconds of training at which it begins; likewise.
    """
    signal.signal(signal.SIGTERM, lambda *_: None)  # sent to the whole group: the last records are still to come
    pulse, world = Pulse(signs), load_world(config)
    parent = multiprocessing.parent_process()
    sinks = Sinks(run_folder, first_step, config, first_seconds, provenance)
    sinks.flush()  # a folder that cannot be written to is reported now
    hardware = Hardware(parent.pid if parent is not None and parent.pid else os.getpid())
    episodes: list[Episode] = []
    step, seconds = first_step, -1.0  # of the newest record; below 0 before the first one
    next_episodes = time.monotonic() + EPISODES_SECONDS
    next_hardware = time.monotonic() + HARDWARE_SECONDS
    try:
        while True:
            pulse.beat()
            if records.poll(WAIT_SECONDS):
                message = _receive(records)
                if message is None:
                    break
                step = max(step, message.agent_steps)
                seconds = max(seconds, 0.0 if isinstance(message, Histograms) else message.seconds)
                match message:
                    case Scalars():
                        sinks.scalars(message.agent_steps, message.values, message.seconds)
                    case Histograms():
                        sinks.histograms(message.agent_steps, message.values)
                    case Video():
                        sinks.video(message)
                    case EpisodeBatch():
                        ended = [record.episode for record in message.records]
                        sinks.scalars(message.agent_steps, training_scalars(world, ended), message.seconds)
                        for record in message.records:
                            sinks.episode(record)
                    case EpisodeRecord(evaluated=False):
                        episodes.append(message.episode)
                        sinks.episode(message)
            now = time.monotonic()
            if now >= next_episodes:
                next_episodes = now + EPISODES_SECONDS
                sinks.scalars(step, training_scalars(world, episodes), seconds)
                episodes.clear()
                sinks.flush()
            if now >= next_hardware and seconds >= 0:
                next_hardware = now + HARDWARE_SECONDS
                sinks.scalars(step, hardware.sample(), seconds)
        sinks.scalars(step, training_scalars(world, episodes), seconds)
    finally:
        sinks.close()


def _receive(records: Connection) -> Record | None:
    """The next record; None as the last one, or if the parent is gone, perhaps in the middle of one."""
    try:
        record: Record | None = records.recv()
    except (EOFError, OSError):
        return None
    return record
