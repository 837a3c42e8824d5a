"""What a run reports: to the logger process and to the terminal."""

import queue
from collections import defaultdict
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import psutil

from kartrl.config import Config
from kartrl.metrics.records import EpisodeBatch, EpisodeRecord, Histograms, Scalars
from kartrl.metrics.terminal import Display, Status
from kartrl.runtime import logger_process
from kartrl.runtime.agent_supervisor import Agents
from kartrl.runtime.backoff import Helper
from kartrl.runtime.messages import EpisodeEnd
from kartrl.runtime.meter import StageShares
from kartrl.runtime.processes import spawn
from kartrl.runtime.slab import Slab
from kartrl.runtime.trainer_thread import Trainer

LARGEST_QUEUE = 10_000  # records that wait for the logger; more are lost


class Reporter:
    """Starts the logger and sends it records; training never waits for it.

    In a reproducible run, what updates and episodes came to is reported update by update, not by the clock.

    Args:
        config: the configuration.
        run_folder: of this run.
        context: of multiprocessing.
        display: the terminal.
        trainer: of which updates are reported.
        slab: the shared memory.
        training_blocks: of an update.
    """

    def __init__(
        self,
        config: Config,
        run_folder: Path,
        context: BaseContext,
        display: Display,
        trainer: Trainer,
        slab: Slab,
        training_blocks: int,
    ) -> None:
        self._config, self._folder, self._context = config, run_folder, context
        self._display, self._trainer, self._slab = display, trainer, slab
        self._training_blocks = training_blocks
        self._first_step = trainer.counters.agent_steps
        self.episodes = trainer.counters.episodes
        self._ended: list[EpisodeEnd] = []  # reproducible: episodes whose round was not yet trained on
        self._queue: Any = None
        self._lost = 0
        self._reported_first_update = False
        self.logger = Helper("logger", self._start_logger, display.say)

    def _start_logger(self) -> BaseProcess:
        self._close_queue()  # a logger that was killed may have left a lock of it held
        self._queue = self._context.Queue(maxsize=LARGEST_QUEUE)
        arguments = self._config, self._folder, self._queue, self._first_step
        return spawn(self._context, "logger", logger_process.run, *arguments)

    def send(self, record: Scalars | Histograms | EpisodeRecord | EpisodeBatch | None) -> None:
        """Hand a record to the logger, or None as the last one; it is lost where the logger is behind."""
        try:
            if self.logger.process is None:
                raise queue.Full
            self._queue.put_nowait(record)
        except queue.Full:
            self._lost += 1

    def close(self) -> None:
        """Give the queue up, after the logger has ended."""
        self._close_queue()

    def _close_queue(self) -> None:
        if self._queue is not None:
            self._queue.close()
            self._queue.cancel_join_thread()

    def add(self, end: EpisodeEnd) -> None:
        """Take in an episode of an agent."""
        self.episodes += 1
        record = EpisodeRecord(self._trainer.counters.agent_steps, end.episode, evaluated=False)
        self._display.add(record)
        if self._config.run.reproducible:
            self._ended.append(end)
        else:
            self.send(record)

    def add_evaluation(self, message: EpisodeRecord | Scalars) -> None:
        """Take in what the evaluator sends."""
        if isinstance(message, EpisodeRecord):
            self._display.add(message)
        self.send(message)

    def report_weights(self) -> None:
        """Send the distributions of all weights."""
        weights = self._trainer.state().network
        values = {f"weights/{name}": tensor.float().flatten().numpy() for name, tensor in weights.items()}
        self.send(Histograms(self._trainer.counters.agent_steps, values))

    def report(self, status: Status, agents: Agents, stages: StageShares, awaited_groups: int) -> None:
        """Send what has been measured since the last call; agents' messages must have been received before.

        Args:
            awaited_groups: for which a predictor waits.
        """
        trainer, slab = self._trainer, self._slab
        while trainer.messages:
            self._display.say(trainer.messages.popleft())
        scalars = self._report_updates(status)
        scalars |= stages.shares()
        if trainer.first_update is not None and not self._reported_first_update:
            self._reported_first_update = True
            scalars["speed/first_update_seconds"] = trainer.first_update - psutil.Process().create_time()
        scalars |= {
            "speed/agent_steps_per_second": status.agent_steps_per_second,
            "speed/frames_per_second": status.agent_steps_per_second * self._config.environment.frame_skip,
            "speed/updates_per_second": status.updates_per_second,
            "speed/longest_pause_seconds": trainer.longest_pause(),
            "queue/prediction_batch_size": status.prediction_batch,
            "queue/finished_unrolls": float(slab.state.sum()) * slab.group_size,
            "queue/agents": float(status.agents),
            "queue/running_agents": float((~slab.paused).sum()),
            "queue/awaited_groups": float(awaited_groups),
            "queue/lost_metrics": float(self._lost),
            "faults/agent_deaths": float(agents.deaths),
            "faults/quarantined_unrolls": float(slab.quarantined.sum()),
            "faults/skipped_updates": float(trainer.guard.skipped),
        }
        self.send(Scalars(status.counters.agent_steps, scalars))

    def _report_updates(self, status: Status) -> dict[str, float]:
        """Means over the updates since the last call; in a reproducible run each is sent by itself."""
        records = [self._trainer.records.popleft() for _ in range(len(self._trainer.records))]
        if not self._config.run.reproducible:
            values: dict[str, list[float]] = defaultdict(list)
            for record in records:
                for tag, value in record.scalars.items():
                    values[tag].append(value)
            means = {tag: sum(numbers) / len(numbers) for tag, numbers in values.items()}
            counters = status.counters
            return means | {"charts/updates": float(counters.updates), "charts/episodes": float(counters.episodes)}
        for record in records:
            # Agents send an episode before they finish its block, so all of a trained round's have been received.
            rounds = record.attempts * self._training_blocks // self._slab.num_groups
            ended = [end for end in self._ended if end.block < rounds]
            self._ended = [end for end in self._ended if end.block >= rounds]
            ended.sort(key=lambda end: (end.block, end.group))
            steps = record.counters.agent_steps
            self.send(Scalars(steps, {**record.scalars, "charts/updates": float(record.counters.updates)}))
            self.send(EpisodeBatch(steps, tuple(end.episode for end in ended)))
        return {}
