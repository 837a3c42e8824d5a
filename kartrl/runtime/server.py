"""The server owns every process and thread of a run: it starts, watches, restarts and stops them."""

import contextlib
import faulthandler
import multiprocessing
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections import defaultdict
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import Any

import psutil
import torch

from kartrl.config import Config
from kartrl.envs.spec import EnvSpec
from kartrl.errors import RunFailed
from kartrl.learning import checkpoint
from kartrl.learning.checkpoint import Checkpoint
from kartrl.learning.counters import Counters
from kartrl.metrics.records import EpisodeRecord, Histograms, Scalars
from kartrl.metrics.terminal import Display, Status
from kartrl.models import make_model
from kartrl.runtime import evaluator_process, logger_process
from kartrl.runtime.agent_supervisor import Agents
from kartrl.runtime.backoff import Helper
from kartrl.runtime.controller import Controller, make_controller
from kartrl.runtime.devices import choose_device, keep_freed_memory
from kartrl.runtime.meter import Meter, StageShares
from kartrl.runtime.predictor_thread import PredictorThread, RecurrentStates, make_policy
from kartrl.runtime.processes import spawn, start_method
from kartrl.runtime.sizes import Sizes
from kartrl.runtime.slab import Slots
from kartrl.runtime.trainer_thread import Learner, TrainerThread

REPORT_SECONDS = 5.0  # between two sets of scalars
HISTOGRAM_SECONDS = 60.0
JOIN_SECONDS = 5.0  # that a role has to end before it is killed
PATIENCE = 2.0  # times `step_timeout` without any prediction or update, before the run gives up


class Server:
    """One training run.

    Args:
        config: the configuration.
        sizes: of the processes, batches and queues.
        run_folder: of this run, locked by the caller.
        spec: of the environment.
        display: what the terminal shows.
        resume: the checkpoint to go on from.
    """

    def __init__(
        self,
        config: Config,
        sizes: Sizes,
        run_folder: Path,
        spec: EnvSpec,
        display: Display,
        resume: Checkpoint | None = None,
    ) -> None:
        self._config, self._folder, self._display = config, run_folder, display
        self._world = spec
        self._sizes, self._resume = sizes, resume
        keep_freed_memory()
        torch.set_num_threads(sizes.torch_threads)
        torch.manual_seed(config.run.seed)
        self._device = choose_device(config.system.device)
        self._model = make_model(config.model, spec.observation_shape, spec.action.size).to(self._device)
        if resume is not None:
            checkpoint.fit(self._model, resume.model)
        self._before = resume.counters if resume is not None else Counters()
        self._episodes = self._before.episodes
        self._context: Any = start_method()
        unrolls = (sizes.ring, config.impala.unroll_length, spec.observation_shape, spec.observation_dtype)
        self._slots = Slots(self._context, sizes.agents, sizes.groups_per_agent, sizes.group_size, *unrolls)
        self._stop = threading.Event()
        self._predictors: list[PredictorThread] = []
        seed = config.run.seed * 1_000_003 + self._before.updates
        self._agents = Agents(config, self._slots, sizes.min_agents, seed, self._settle, display.say)
        self._trainers: list[TrainerThread] = []
        self._controller: Controller | None = None
        self._metrics: Any = None  # the queue of the logger
        self._evaluations: Connection | None = None
        self._logger = Helper("logger", self._start_logger, display.say)
        self._evaluator = Helper("evaluator", self._start_evaluator, display.say)
        self._thread_failure: str | None = None
        self._signal: int | None = None
        self._lost_metrics = 0
        self._told_first_update = False
        self._progress = (time.monotonic(), (0, 0))  # when there was some, and what had been done then

    def run(self) -> int:
        """Train until the end, a signal, or a fault.

        Returns:
            The exit status: 0, or 128 plus the number of the signal that ended it.

        Raises:
            UserError: an agent met bad input.
            RunFailed: a role died of a fault.
        """
        handlers = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        excepthook, threading.excepthook = threading.excepthook, self._on_thread_failure
        try:
            self._start()
            self._supervise()
        finally:
            self._shut_down()
            threading.excepthook = excepthook
            for number, handler in handlers.items():
                signal.signal(number, handler)
        return 0 if self._signal is None else 128 + self._signal

    # Start

    def _start(self) -> None:
        self._began = time.monotonic()
        self._agents.start()
        self._make_threads()  # while the agents come up
        for thread in (*self._predictors, *self._trainers):
            thread.start()
        self._logger.watch(self._began)

    def _make_threads(self) -> None:
        config, sizes, slots = self._config, self._sizes, self._slots
        optimizer = self._resume.optimizer if self._resume is not None else None
        self._learner = Learner(config, self._model, self._device, self._before, optimizer)
        states = RecurrentStates(slots, self._model)
        for index in range(sizes.predictors):
            seed = config.run.seed * 1000 + self._before.updates + index
            policy = make_policy(self._model, states, seed, slots, sizes.prediction_groups)
            batches = (sizes.prediction_groups, sizes.min_groups)
            self._predictors.append(
                PredictorThread(f"predictor-{index}", slots, policy, self._learner.weights, *batches, self._stop)
            )
        for name, state in (self._resume.random if self._resume is not None else {}).items():
            with contextlib.suppress(KeyError, RuntimeError):  # of a predictor that is no more, or of another device
                self._generators()[name].set_state(state)
        assembling = threading.Lock()
        for index in range(sizes.trainers):
            shared = (states, self._learner, sizes.training_blocks, assembling, self._stop)
            self._trainers.append(TrainerThread(f"trainer-{index}", slots, *shared))
        self._stages = StageShares(slots, self._predictors, self._trainers)
        if config.system.controller:
            limit = config.system.max_policy_lag
            self._controller = make_controller(slots, self._predictors, sizes.min_groups, limit, self._display.say)

    def _start_logger(self) -> BaseProcess:
        self._close_metrics()  # a logger that was killed may have left a lock of it held
        self._metrics = self._context.Queue(maxsize=10_000)
        first_step = self._learner.counters.agent_steps
        return spawn(self._context, "logger", logger_process.run, self._config, self._folder, self._metrics, first_step)

    def _close_metrics(self) -> None:
        if self._metrics is not None:
            self._metrics.close()
            self._metrics.cancel_join_thread()

    def _start_evaluator(self) -> BaseProcess:
        self._evaluations, writer = self._context.Pipe(duplex=False)
        process = spawn(self._context, "evaluator", evaluator_process.run, self._folder, self._config, writer)
        writer.close()
        return process

    # Watch

    def _supervise(self) -> None:
        last = dict.fromkeys(("report", "checkpoint", "histogram"), self._began)
        meter = Meter(self._began, self._learner.counters, self._predictors)

        def status() -> Status:
            lag, fraction = self._learner.lag, self._fraction()
            return meter.status(time.monotonic(), self._counters(), self._predictors, lag, fraction, self._agents.alive)

        while self._signal is None and not self._finished():
            self._receive(timeout=0.5)
            if self._thread_failure is not None:
                raise RunFailed(self._thread_failure)
            self._watch()
            now, newest = time.monotonic(), status()
            if self._controller is not None:
                self._controller.tick(now, newest.counters.agent_steps, newest.lag)
            self._display.show(newest)
            if now - last["report"] >= REPORT_SECONDS:
                last["report"] = now
                self._report(newest)
            if now - last["histogram"] >= HISTOGRAM_SECONDS:
                last["histogram"] = now
                self._log(Histograms(newest.counters.agent_steps, self._weights()))
            if now - last["checkpoint"] >= 60 * self._config.run.checkpoint_minutes:
                last["checkpoint"] = now
                self._save()
        self._report(status())
        self._display.show(status(), final=True)

    def _receive(self, timeout: float) -> None:
        """Take in the agents' and the evaluator's messages; wait for them at most this long."""
        for episode in self._agents.receive(timeout):
            self._episodes += 1
            record = EpisodeRecord(self._learner.counters.agent_steps, episode, evaluated=False)
            self._display.add(record)
            self._log(record)
        with contextlib.suppress(EOFError, OSError):  # it has gone; `_watch` sees to it
            while self._evaluations is not None and self._evaluations.poll():
                message: EpisodeRecord | Scalars = self._evaluations.recv()
                if isinstance(message, EpisodeRecord):
                    self._display.add(message)
                self._log(message)

    def _watch(self) -> None:
        """See that every process lives, or is replaced, and that there is progress."""
        now, trained = time.monotonic(), self._learner.first_update is not None
        self._agents.watch(now, trained)
        self._logger.watch(now)
        if trained and self._config.evaluation.minutes > 0:  # there is nothing to evaluate before
            self._evaluator.watch(now)
        done = (self._learner.counters.updates, sum(predictor.batches for predictor in self._predictors))
        if done != self._progress[1]:
            self._progress = (now, done)
        elif now - self._progress[0] > PATIENCE * self._config.system.step_timeout:
            faulthandler.dump_traceback()  # to stderr: where each thread stands
            raise RunFailed(f"nothing has been predicted or learnt for {now - self._progress[0]:.0f} s")

    def _settle(self) -> None:
        """Wait until no predictor works any more on what it has gathered before now."""
        for predictor in self._predictors:
            if not predictor.predicting.acquire(timeout=JOIN_SECONDS):
                raise RunFailed(f"{predictor.name} does not finish a forward pass")
            predictor.predicting.release()

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if self._signal is not None:  # the second one: at once
            for process in multiprocessing.active_children():
                process.kill()
            os._exit(128 + number)
        self._signal = number

    def _on_thread_failure(self, failure: threading.ExceptHookArgs) -> None:
        name = failure.thread.name if failure.thread is not None else "a thread"
        trace = "".join(traceback.format_exception(failure.exc_type, failure.exc_value, failure.exc_traceback))
        self._thread_failure = f"{name} failed\n{trace}"

    # Measures

    def _counters(self) -> Counters:
        seconds = self._before.seconds + time.monotonic() - self._began
        return self._learner.counters._replace(episodes=self._episodes, seconds=seconds)

    def _fraction(self) -> float:
        counters, run = self._counters(), self._config.run
        steps = counters.agent_steps / run.agent_steps
        return min(1.0, max(steps, counters.seconds / (60 * run.minutes) if run.minutes else 0.0))

    def _finished(self) -> bool:
        return self._fraction() >= 1.0

    def _report(self, status: Status) -> None:
        values: dict[str, list[float]] = defaultdict(list)
        while self._learner.messages:
            self._display.say(self._learner.messages.popleft())
        while self._learner.metrics:
            for tag, value in self._learner.metrics.popleft().items():
                values[tag].append(value)
        scalars = {tag: sum(numbers) / len(numbers) for tag, numbers in values.items()}
        scalars |= self._stages.shares()
        if self._learner.first_update is not None and not self._told_first_update:
            self._told_first_update = True
            scalars["speed/first_update_seconds"] = self._learner.first_update - psutil.Process().create_time()
        scalars |= {
            "speed/agent_steps_per_second": status.agent_steps_per_second,
            "speed/frames_per_second": status.agent_steps_per_second * self._config.environment.frame_skip,
            "speed/updates_per_second": status.updates_per_second,
            "speed/longest_pause_seconds": self._learner.longest_pause(),
            "queue/prediction_batch_size": status.prediction_batch,
            "queue/finished_unrolls": float(self._slots.state.sum()) * self._slots.group_size,
            "queue/agents": float(status.agents),
            "queue/running_agents": float((~self._slots.paused).sum()),
            "queue/groups_waited_for": float(self._predictors[0].enough),
            "queue/lost_metrics": float(self._lost_metrics),
            "faults/agent_deaths": float(self._agents.deaths),
            "faults/quarantined_unrolls": float(self._slots.quarantined.sum()),
            "faults/skipped_updates": float(self._learner.skipped_updates),
            "charts/updates": float(status.counters.updates),
            "charts/episodes": float(status.counters.episodes),
        }
        self._log(Scalars(status.counters.agent_steps, scalars))

    def _weights(self) -> dict[str, Any]:
        weights, _, _ = self._learner.state()
        return {f"weights/{name}": tensor.float().flatten().numpy() for name, tensor in weights.items()}

    def _log(self, record: Any) -> None:
        try:
            if self._logger.process is None:
                raise queue.Full
            self._metrics.put_nowait(record)
        except queue.Full:  # metrics may be lost, training never waits for them
            self._lost_metrics += 1

    # Stop

    def _save(self) -> None:
        """A new checkpoint; the oldest beyond `run.keep_checkpoints` go. A full disk is no reason to stop."""
        weights, optimizer, counters = self._learner.state()
        counters = counters._replace(episodes=self._episodes, seconds=self._counters().seconds)
        path = self._folder / "checkpoints" / f"{counters.agent_steps:010d}.pt"
        spec, random = self._world, {name: generator.get_state() for name, generator in self._generators().items()}
        content = Checkpoint(
            self._config, weights, optimizer, counters, spec.observation_shape, spec.action.size, random=random
        )
        try:
            checkpoint.save(path, content)
            checkpoint.remove_oldest(self._folder, self._config.run.keep_checkpoints)
        except (OSError, checkpoint.NotFinite) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or error
            self._display.say(f"could not save {path} ({reason}); training goes on")

    def _generators(self) -> dict[str, torch.Generator]:
        """All that this process draws from, by name."""
        return {
            "torch": torch.default_generator,
            **{predictor.name: predictor.policy.random for predictor in self._predictors},
        }

    def _shut_down(self) -> None:
        """End every thread and process, and save; what does not end in time is killed."""
        self._stop.set()
        self._slots.stop()
        failed = sys.exc_info()[0] is not None
        for thread in (*self._predictors, *self._trainers):
            if thread.ident is not None:
                thread.join(JOIN_SECONDS)
        if not failed and self._learner.counters.updates > 0:
            self._save()
        if self._evaluator.process is not None:
            self._evaluator.process.terminate()
        self._log(None)
        deadline = time.monotonic() + JOIN_SECONDS
        for process in multiprocessing.active_children():
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
        self._close_metrics()
