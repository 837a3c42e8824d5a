"""The server owns every process and thread of a run: it starts, watches, restarts and stops them."""

import contextlib
import copy
import multiprocessing
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections import defaultdict, deque
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import Any

import psutil
import torch

from kartrl import checkpoint
from kartrl.checkpoint import Checkpoint
from kartrl.config import Config
from kartrl.controller import Controller, make_controller
from kartrl.devices import choose_device, keep_freed_memory
from kartrl.display import Display, Status
from kartrl.errors import UserError
from kartrl.lifetime import run_as, start_method
from kartrl.meter import Meter, StageShares
from kartrl.models import make_model
from kartrl.predictor_thread import PredictorThread, RecurrentStates, make_policy
from kartrl.slots import Slots
from kartrl.trainer_thread import Learner, TrainerThread
from kartrl.tuning import Sizes
from kartrl.types import Counters, Episode, EpisodeRecord, Failure, Histograms, Scalars, World

REPORT_SECONDS = 5.0  # between two sets of scalars
HISTOGRAM_SECONDS = 60.0
JOIN_SECONDS = 5.0  # that a role has to end before it is killed
FAULTS_ALLOWED = 3  # per agent within FAULT_WINDOW seconds, before the run gives up
FAULT_WINDOW = 120.0


class RunFailed(Exception):
    """A role died of a fault that cannot be healed; its text holds the traceback."""


class Agent:
    """An agent process, its messages, and when it died before."""

    def __init__(self) -> None:
        self.process: BaseProcess | None = None
        self.messages: Connection | None = None
        self.deaths: deque[float] = deque(maxlen=FAULTS_ALLOWED)
        self.start_at = 0.0  # on the monotonic clock


class Server:
    """One training run.

    Args:
        config: the configuration.
        sizes: of the processes, batches and queues.
        run_folder: of this run, locked by the caller.
        world: what the agents will live in.
        display: what the terminal shows.
        resume: the checkpoint to go on from.
    """

    def __init__(
        self,
        config: Config,
        sizes: Sizes,
        run_folder: Path,
        world: World,
        display: Display,
        resume: Checkpoint | None = None,
    ) -> None:
        self._config, self._folder, self._display = config, run_folder, display
        self._world = world
        self._sizes, self._resume = sizes, resume
        keep_freed_memory()
        torch.set_num_threads(sizes.torch_threads)
        torch.manual_seed(config.run.seed)
        self._device = choose_device(config.system.device)
        self._model = make_model(config.model, world.shape, world.num_actions).to(self._device)
        if resume is not None:
            checkpoint.fit(self._model, resume.model)
        self._before = resume.counters if resume is not None else Counters()
        self._episodes = self._before.episodes
        self._context: Any = start_method()
        unrolls = (sizes.ring, config.impala.unroll_length, world.shape, world.dtype)
        self._slots = Slots(self._context, sizes.agents, sizes.groups_per_agent, sizes.group_size, *unrolls)
        self._stop = threading.Event()
        self._agents = [Agent() for _ in range(sizes.agents)]
        self._predictors: list[PredictorThread] = []
        self._trainers: list[TrainerThread] = []
        self._controller: Controller | None = None
        self._metrics = self._context.Queue(maxsize=10_000)
        self._evaluations = self._context.Queue()
        self._logger: BaseProcess | None = None
        self._evaluator: BaseProcess | None = None
        self._evaluator_due = config.evaluation.minutes > 0
        self._thread_failure: str | None = None
        self._signal: int | None = None
        self._lost_metrics = 0
        self._told_first_update = False

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
        for index in range(len(self._agents)):
            self._start_agent(index)
        self._make_threads()  # while the agents come up
        for thread in (*self._predictors, *self._trainers):
            thread.start()
        self._start_logger()

    def _make_threads(self) -> None:
        config, sizes, slots = self._config, self._sizes, self._slots
        optimizer = self._resume.optimizer if self._resume is not None else None
        self._learner = Learner(config, self._model, self._device, self._before, optimizer)
        states = RecurrentStates(slots, self._model)
        for index in range(sizes.predictors):
            seed = config.run.seed * 1000 + self._before.updates + index
            policy = make_policy(copy.deepcopy(self._model).eval(), states, seed, slots, sizes.prediction_groups, config.model.precision)
            batches = (sizes.prediction_groups, sizes.min_groups)
            self._predictors.append(PredictorThread(f"predictor-{index}", slots, policy, self._learner.weights, *batches, self._stop))
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

    def _start_logger(self) -> None:
        first_step = self._learner.counters.agent_steps
        self._logger = self._spawn("logger", "kartrl.logger_process", self._folder, self._metrics, first_step)

    def _start_agent(self, number: int) -> None:
        agent = self._agents[number]
        reader, writer = self._context.Pipe(duplex=False)
        # A restarted agent must not repeat the life that killed it.
        envs = self._slots.groups_per_agent * self._slots.group_size
        seed = self._config.run.seed * 1_000_003 + number * envs + len(agent.deaths) * 10_007 + self._before.updates
        shared = (self._config, self._slots, number, seed, self._slots.waker(number))
        agent.process = self._spawn(f"agent-{number}", "kartrl.agent_process", *shared, writer)
        agent.messages = reader
        writer.close()

    def _spawn(self, role: str, module: str, *arguments: Any) -> BaseProcess:
        process = self._context.Process(target=run_as, args=(role, module, *arguments), name=role, daemon=True)
        process.start()
        return process

    # Watch

    def _supervise(self) -> None:
        last = dict.fromkeys(("report", "checkpoint", "histogram"), self._began)
        meter = Meter(self._began, self._learner.counters, self._predictors)

        def status() -> Status:
            counters, alive = self._counters(), sum(agent.process is not None for agent in self._agents)
            return meter.status(time.monotonic(), counters, self._predictors, self._learner.lag, self._fraction(), alive)

        while self._signal is None and not self._finished():
            self._receive(timeout=0.5)
            if self._thread_failure is not None:
                raise RunFailed(self._thread_failure)
            self._watch_processes()
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
        readers = {agent.messages: number for number, agent in enumerate(self._agents) if agent.messages is not None}
        for reader in wait(list(readers), timeout):
            assert isinstance(reader, Connection)
            try:
                while reader.poll():
                    self._take(reader.recv())
            except (EOFError, OSError):  # the agent has gone; _watch_processes sees to it
                reader.close()
                self._agents[readers[reader]].messages = None
        while True:
            try:
                record: EpisodeRecord | Scalars = self._evaluations.get_nowait()
            except queue.Empty:
                return
            if isinstance(record, EpisodeRecord):
                self._display.add(record)
            self._log(record)

    def _take(self, message: Episode | Failure) -> None:
        if isinstance(message, Failure):
            if message.user_error:
                raise UserError(message.reason)
            if self._learner.counters.updates == 0:  # nothing ever worked: restarting would loop
                raise RunFailed(message.trace)
            self._display.say(f"an agent failed and is restarted: {message.reason}")
            return
        self._episodes += 1
        record = EpisodeRecord(self._learner.counters.agent_steps, message, evaluated=False)
        self._display.add(record)
        self._log(record)

    def _watch_processes(self) -> None:
        now = time.monotonic()
        for number, agent in enumerate(self._agents):
            if agent.process is not None and not agent.process.is_alive() and agent.messages is None:
                self._bury(number, agent, now)
            if agent.process is None and now >= agent.start_at:
                self._slots.recover(number)
                self._start_agent(number)
        if self._logger is not None and not self._logger.is_alive():
            self._display.say("the logger died and is restarted; some metrics are lost")
            self._start_logger()
        if self._evaluator_due and self._learner.first_update is not None:  # there is nothing to evaluate before
            self._evaluator_due = False
            self._evaluator = self._spawn("evaluator", "kartrl.evaluator_process", self._folder, self._config, self._evaluations)
        if self._evaluator is not None and not self._evaluator.is_alive():
            self._display.say("the evaluator died; training goes on without evaluations")
            self._evaluator = None

    def _bury(self, number: int, agent: Agent, now: float) -> None:
        """An agent is dead: see whether it may be started again, and when."""
        assert agent.process is not None
        code = agent.process.exitcode
        agent.process.join()
        agent.process = None
        if len(agent.deaths) == FAULTS_ALLOWED and now - agent.deaths[0] < FAULT_WINDOW:
            raise RunFailed(f"agent {number} died {FAULTS_ALLOWED + 1} times within {FAULT_WINDOW:.0f} s (exit status {code})")
        recent = sum(now - death < FAULT_WINDOW for death in agent.deaths)
        agent.deaths.append(now)
        agent.start_at = now + (2.0**recent - 1.0)  # at once, after 1 s, after 3 s
        self._display.say(f"agent {number} died (exit status {code}); it is started again")

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
            "queue/prediction_batch_size": status.prediction_batch,
            "queue/finished_unrolls": float(self._slots.state.sum()) * self._slots.group_size,
            "queue/agents": float(status.agents),
            "queue/running_agents": float((~self._slots.paused).sum()),
            "queue/groups_waited_for": float(self._predictors[0].enough),
            "queue/lost_metrics": float(self._lost_metrics),
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
            self._metrics.put_nowait(record)
        except queue.Full:  # metrics may be lost, training never waits for them
            self._lost_metrics += 1

    # Stop

    def _save(self) -> None:
        """A new checkpoint; the oldest beyond `run.keep_checkpoints` go. A full disk is no reason to stop."""
        weights, optimizer, counters = self._learner.state()
        counters = counters._replace(episodes=self._episodes, seconds=self._counters().seconds)
        path = self._folder / "checkpoints" / f"{counters.agent_steps:010d}.pt"
        world, random = self._world, {name: generator.get_state() for name, generator in self._generators().items()}
        content = Checkpoint(self._config, weights, optimizer, counters, world.shape, world.num_actions, random=random)
        try:
            checkpoint.save(path, content)
            checkpoint.remove_oldest(self._folder, self._config.run.keep_checkpoints)
        except (OSError, checkpoint.NotFinite) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or error
            self._display.say(f"could not save {path} ({reason}); training goes on")

    def _generators(self) -> dict[str, torch.Generator]:
        """All that this process draws from, by name."""
        return {"torch": torch.default_generator, **{predictor.name: predictor.policy.random for predictor in self._predictors}}

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
        if self._evaluator is not None:
            self._evaluator.terminate()
        self._log(None)
        deadline = time.monotonic() + JOIN_SECONDS
        for process in multiprocessing.active_children():
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
        for records in (self._metrics, self._evaluations):
            records.close()
            records.cancel_join_thread()
