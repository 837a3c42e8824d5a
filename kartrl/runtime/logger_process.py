"""The logger: drains metrics from a queue and writes TensorBoard events and a CSV file. It knows nothing of torch."""

import multiprocessing
import os
import time
from pathlib import Path
from queue import Empty
from typing import Any

from kartrl.config import Config
from kartrl.envs.episode import Episode
from kartrl.envs.worlds import load_world
from kartrl.metrics.episode_metrics import training_scalars
from kartrl.metrics.hardware import Hardware
from kartrl.metrics.records import EpisodeBatch, EpisodeRecord, Histograms, Scalars
from kartrl.metrics.sinks import Sinks

EPISODES_SECONDS = 5.0  # episodes are averaged over this long
HARDWARE_SECONDS = 10.0
WAIT_SECONDS = 1.0  # how long to wait for a message before looking round


def run(config: Config, run_folder: Path, queue: Any, first_step: int) -> None:
    """Body of the logger process; ends on None from the queue, or when its parent has gone.

    Args:
        config: the configuration.
        run_folder: gets the event file and `scalars.csv`; both hold the same scalars.
        queue: multiprocessing queue of `Scalars`, `Histograms`, `EpisodeRecord`, and at last None. The evaluator's
            episodes arrive as means only, in `Scalars`.
        first_step: agent steps at which this run begins or is resumed; what was logged later than that, by a run
            that went further than its last checkpoint, is forgotten.
    """
    world = load_world(config)
    parent = multiprocessing.parent_process()
    sinks = Sinks(run_folder, first_step)
    sinks.flush()  # a folder that cannot be written to is told of now
    hardware = Hardware(parent.pid if parent is not None and parent.pid else os.getpid())
    episodes: list[Episode] = []
    step = first_step
    next_episodes = time.monotonic() + EPISODES_SECONDS
    next_hardware = time.monotonic() + HARDWARE_SECONDS
    try:
        while True:
            try:
                message = queue.get(timeout=WAIT_SECONDS)
            except Empty:
                if parent is not None and not parent.is_alive():
                    break
            else:
                if message is None:
                    break
                step = max(step, message.agent_steps)
                match message:
                    case Scalars():
                        sinks.scalars(message.agent_steps, message.values)
                    case Histograms():
                        sinks.histograms(message.agent_steps, message.values)
                    case EpisodeBatch():
                        sinks.scalars(message.agent_steps, training_scalars(world, message.episodes))
                    case EpisodeRecord(evaluated=False):
                        episodes.append(message.episode)
            now = time.monotonic()
            if now >= next_episodes:
                next_episodes = now + EPISODES_SECONDS
                sinks.scalars(step, training_scalars(world, episodes))
                episodes.clear()
                sinks.flush()
            if now >= next_hardware:
                next_hardware = now + HARDWARE_SECONDS
                sinks.scalars(step, hardware.sample())
        sinks.scalars(step, training_scalars(world, episodes))
    finally:
        sinks.close()
