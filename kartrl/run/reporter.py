"""Reports a run's metrics to the logger process and to the terminal."""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext

import psutil

from kartrl.acting.messages import EpisodeEnd
from kartrl.acting.sizes import Sizes
from kartrl.config import Config
from kartrl.envs.worlds import load_world
from kartrl.learning.counters import Counters
from kartrl.metrics.records import EpisodeBatch, EpisodeRecord, Histograms, Record, Scalars, Video
from kartrl.metrics.terminal import Display, Status
from kartrl.processes.backoff import STILL_SECONDS, Helper
from kartrl.processes.child import ChildProcess
from kartrl.processes.pipes import RecordPipe
from kartrl.processes.spawn import spawn
from kartrl.run.run_folder import RunFolder
from kartrl.training.trainer import Trainer

LARGEST_QUEUE = 10_000  # records that wait for the logger; more are lost
MOVE_SECONDS = 5.0  # for the logger to write what it has received, when the run's folder has been moved
LAST_SECONDS = 30.0  # for the logger of a finished run: a short run may end before it has started


class Reporter:
    """Starts the logger and sends it records; training never waits for it.

    In a reproducible run, updates and episodes are reported update by update, not by the clock.
    """

    def __init__(
        self,
        config: Config,
        folder: RunFolder,
        context: BaseContext,
        display: Display,
        trainer: Trainer,
        sizes: Sizes,
        provenance: Mapping[str, str],
    ) -> None:
        self._config, self._folder, self._context = config, folder, context
        self._frames_per_step = load_world(config).frames_per_step
        self._display, self._trainer, self._sizes, self._provenance = display, trainer, sizes, provenance
        self.episodes = trainer.counters.episodes
        # reproducible: episodes whose round has not been trained on
        self._ended: list[tuple[EpisodeEnd, EpisodeRecord]] = []
        self._pipe: RecordPipe | None = None
        self._lost = 0
        self._reported_first_update = False
        self.logger = Helper("logger", self._start_logger, display.say, STILL_SECONDS + config.system.step_timeout)

    def _start_logger(self, signs: Connection) -> ChildProcess:
        from kartrl.run import logger  # here: it loads while the first agents start

        if self._pipe is not None:
            self._lost += self._pipe.waiting
        self.close()
        self._pipe = RecordPipe(self._context, LARGEST_QUEUE)
        # what an earlier logger has written up to here is kept
        step, seconds = self._trainer.counters.agent_steps, self._trainer.seconds
        arguments = self._config, self._folder.path, self._pipe.reader, step, signs, seconds, self._provenance
        process = spawn(self._context, "logger", logger.run, *arguments)
        self._pipe.reader.close()
        return process

    def send(self, record: Record | None) -> None:
        """Send a record to the logger, or None as the last one; it is lost if the logger is too far behind."""
        if self.logger.process is None or self._pipe is None or not self._pipe.put(record):
            self._lost += 1

    def move(self) -> None:
        """Have another logger write to the folder where the run is now."""
        self.send(None)
        self.logger.replace(MOVE_SECONDS)

    def finish(self, skipped: Callable[[], bool]) -> None:
        """Have the logger write all records, within `LAST_SECONDS`, after the last one was sent."""
        deadline, process = time.monotonic() + LAST_SECONDS, self.logger.process
        while process is not None and process.is_alive() and not skipped() and time.monotonic() < deadline:
            process.join(0.5)

    def close(self) -> None:
        """Discard what the logger has not received; call it when the logger has ended."""
        if self._pipe is not None:
            self._pipe.close()

    def add(self, end: EpisodeEnd) -> None:
        """Record an agent's episode."""
        self.episodes += 1
        steps, seconds = self._trainer.counters.agent_steps, self._trainer.seconds
        record = EpisodeRecord(steps, end.episode, False, seconds, time.time())
        self._display.add(record)
        if self._config.run.reproducible:
            self._ended.append((end, record))
        else:
            self.send(record)

    def add_evaluation(self, message: EpisodeRecord | Scalars | Video | str) -> None:
        """Record what the evaluator sends: results, and lines for the user."""
        if isinstance(message, str):
            self._display.say(message)
            return
        if isinstance(message, EpisodeRecord):
            self._display.add(message)
        self.send(message)

    def report_weights(self, patience: float) -> None:
        """Send the distributions of all weights, unless an update takes more than `patience` seconds."""
        try:
            weights = self._trainer.state(patience).network
        except TimeoutError:
            return
        values = {f"weights/{name}": tensor.float().flatten().numpy() for name, tensor in weights.items()}
        self.send(Histograms(self._trainer.counters.agent_steps, values))

    def say(self) -> None:
        """Show the trainer's messages."""
        while self._trainer.messages:
            self._display.say(self._trainer.messages.popleft())

    def report(self, status: Status, deaths: int, crew: dict[str, float]) -> None:
        """Send what has been measured since the last call; agents' messages must have been received first.

        Args:
            deaths: of agents so far.
            crew: `Crew.scalars`.
        """
        trainer = self._trainer
        scalars = self._report_updates(status) | crew
        if trainer.first_update is not None and not self._reported_first_update:
            self._reported_first_update = True
            scalars["speed/first_update_seconds"] = trainer.first_update - psutil.Process().create_time()
        scalars |= {
            "speed/agent_steps_per_second": status.agent_steps_per_second,
            "speed/frames_per_second": status.agent_steps_per_second * self._frames_per_step,
            "speed/updates_per_second": status.updates_per_second,
            "speed/longest_pause_seconds": trainer.longest_pause(),
            "speed/prediction_batch_size": status.prediction_batch,
            "speed/agents": float(status.agents),
            "speed/lost_metrics": float(self._lost),
            "system/agent_deaths": float(deaths),
            "system/skipped_updates": float(trainer.guard.skipped),
        }
        scalars |= self._display.hints.scalars()
        self.send(Scalars(status.counters.agent_steps, scalars, status.counters.seconds))

    def _report_updates(self, status: Status) -> dict[str, float]:
        """Means over the updates since the last call; in a reproducible run each is sent by itself."""
        records = [self._trainer.records.popleft() for _ in range(len(self._trainer.records))]
        for record in records:
            self._display.add_update(record.counters, record.steps, record.mean_reward, record.scalars)
        values: dict[str, list[float]] = defaultdict(list)
        for record in records:
            for tag, value in record.scalars.items():
                values[tag].append(value)
        means = {tag: sum(numbers) / len(numbers) for tag, numbers in values.items()}
        if not self._config.run.reproducible:
            counters = status.counters
            return means | {"speed/updates": float(counters.updates), "speed/episodes": float(counters.episodes)}
        for record in records:
            counters = record.counters
            scalars = {**record.scalars, "speed/updates": float(counters.updates)}
            self.send(Scalars(counters.agent_steps, scalars, counters.seconds))
            self._send_trained(record.attempts, counters)
        return {}

    def report_last_episodes(self) -> None:
        """In a reproducible run, send the episodes that were trained on after the last reported update."""
        if self._ended:
            counters = self._trainer.counters._replace(seconds=self._trainer.seconds)
            self._send_trained(self._trainer.attempts, counters)

    def _send_trained(self, attempts: int, counters: Counters) -> None:
        """Send the episodes that ended in the rounds of the first `attempts` updates, in a fixed order."""
        # Agents send an episode before they finish its block, so all of a trained round have been received.
        rounds = self._sizes.rounds(attempts)
        ended = sorted(
            (pair for pair in self._ended if pair[0].block < rounds), key=lambda pair: (pair[0].block, pair[0].group)
        )
        self._ended = [pair for pair in self._ended if pair[0].block >= rounds]
        steps = counters.agent_steps
        records = tuple(record._replace(agent_steps=steps) for _, record in ended)
        self.send(EpisodeBatch(steps, records, counters.seconds))
