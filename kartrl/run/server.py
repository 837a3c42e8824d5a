"""The server owns every process and thread of a run: it starts, watches, restarts and stops them."""

import contextlib
import faulthandler
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import torch

from kartrl import faults
from kartrl.acting.sizes import Sizes
from kartrl.algorithms import heads_of
from kartrl.config import Config
from kartrl.envs.spec import EnvSpec
from kartrl.errors import RunFailed, shortage
from kartrl.hardware.devices import choose_device, learner_device
from kartrl.hardware.machine import keep_freed_memory
from kartrl.learning import checkpoint
from kartrl.learning.checkpoint import Checkpoint
from kartrl.learning.counters import Counters
from kartrl.learning.schedules import Progress
from kartrl.metrics.records import Confirmation, Scalars
from kartrl.metrics.terminal import Display, Status
from kartrl.models import make_network
from kartrl.processes.child import end_children, resume_fork_server
from kartrl.processes.end_request import EndRequest
from kartrl.processes.spawn import start_method
from kartrl.processes.watchdog import Suspension, Watchdog
from kartrl.run.callbacks import Callbacks
from kartrl.run.crews import generators_of, make_crew, restore_generators, tied
from kartrl.run.evaluation.evaluations import Evaluations
from kartrl.run.reporter import Reporter
from kartrl.run.run_folder import RunFolder
from kartrl.run.saves import Saves, name_of
from kartrl.run.stopping import Judge
from kartrl.sizing.compatibility import is_hogwild
from kartrl.training.meter import Meter
from kartrl.training.replay_saves import ReplaySaves
from kartrl.training.trainer import State

ASKED_SECONDS = 0.05  # between two looks at whether the trainer of a reproducible run waits
REPORT_SECONDS = 5.0  # between two reports of scalars
HISTOGRAM_SECONDS = 60.0
UPDATE_SECONDS = 10.0  # a histogram waits for the end of an update
LAST_UPDATE_SECONDS = 600.0  # for the update under way when the run's time is over
JOIN_SECONDS = 5.0  # for a role to end before it is killed


class Server:
    """One training run.

    Args:
        request: set by a signal that ends the run.
        resume: the checkpoint to resume from or, if its counters are zero, to start a new run from.
    """

    def __init__(
        self,
        config: Config,
        sizes: Sizes,
        folder: RunFolder,
        spec: EnvSpec,
        display: Display,
        request: EndRequest,
        resume: Checkpoint | None = None,
        provenance: Mapping[str, str] | None = None,
        callbacks: Callbacks | None = None,
    ) -> None:
        self._config, self._folder, self._display = config, folder, display
        self._callbacks = callbacks or Callbacks()
        self._request = request
        self._sizes, self._resume = sizes, resume
        keep_freed_memory()
        torch.set_num_threads(sizes.torch_threads)
        torch.manual_seed(config.run.seed)
        self._device = choose_device("cpu") if is_hogwild(config) else learner_device(config.system)
        if config.run.reproducible:
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # required by cuBLAS for determinism
            torch.use_deterministic_algorithms(True)
        network = make_network(config.model, spec.observation, spec.action, heads_of(config)).to(self._device)
        if resume is not None:
            checkpoint.fit(network, resume.network)
        symmetry = tied(config, network, spec, resume, display.say)
        self._spec = spec if symmetry is not None else spec._replace(mirrored=())
        self._before = resume.counters if resume is not None else Counters()
        self._progress = Progress(config.run, self._before)
        self._context: Any = start_method()
        parts = self._context, network, symmetry, resume, self._progress
        self.crew = make_crew(config, sizes, self._spec, *parts, folder.path, display.say)
        self._trainer = self.crew.trainer
        if self._callbacks.on_update is not None:
            self.crew.keep_updates()
        self._replay_saves = ReplaySaves(config.replay, self.crew.replay, folder.path, display.say)
        source = dict(provenance or {})
        self._saves = Saves(config, folder, self._spec, self._replay_saves, resume, source, display.say)
        self._reporter = Reporter(config, folder, self._context, display, self._trainer, sizes, source)
        first_step = self._before.agent_steps
        own = display.say, first_step, spec.most_envs, self.crew.programs
        self._evaluations = Evaluations(config, folder, self._context, *own)
        self._judge = Judge(config.run, self._trainer, sizes, self._before.episodes, display.say)
        self._join_seconds = faults.value("join", JOIN_SECONDS)
        self._ending = False
        self._thread_failure: str | None = None
        self._trainer_is_intact = True

    def run(self) -> int:
        """Train until the run is finished, or until a signal or a fault ends it.

        Returns:
            The exit status: 0, or 128 plus the number of the signal that ended it.

        Raises:
            UserError: an agent failed on bad user input.
            RunFailed: a role failed, or the last updates could not be saved.
        """
        excepthook, threading.excepthook = threading.excepthook, self._on_thread_failure
        try:
            self._start()
            self._supervise()
        finally:
            self._shut_down()
            threading.excepthook = excepthook
        if self._saves.problem is not None:
            raise RunFailed(f"progress since the last checkpoint could not be saved: {self._saves.problem}")
        return 0 if self._request.number is None else 128 + self._request.number

    @property
    def ended_by(self) -> str:
        return self._judge.rules.ended_by

    # Start

    def _start(self) -> None:
        self._folder.end("")
        if self._saves.newest.agent_steps:
            self._replay_saves.restore(name_of(self._saves.newest))
        self._began = time.monotonic()
        fewest = self._sizes.min_agents / self._sizes.agents
        self._watchdog = Watchdog(self._began, self._config.system.step_timeout, fewest)
        self.crew.start()
        restore_generators(self.crew, self._config, self._resume)  # before anything is drawn
        self.crew.begin()
        self._reporter.logger.watch(self._began)

    # Watch

    def _supervise(self) -> None:
        last = dict.fromkeys(("report", "checkpoint", "histogram"), self._began)
        needed = self._config.system.learners * self._sizes.update_steps
        meter, crew = Meter(self._began, self._trainer.counters, needed), self.crew

        def status() -> Status:
            lag, fraction = self._trainer.lag, self._progress.fraction(self._counters())
            now, alive, stuck = time.monotonic(), crew.supervisor.alive, self._watchdog.stuck
            done = crew.predictions, crew.batches
            newest = meter.status(now, self._counters(), done, lag, fraction, alive, stuck)
            return newest._replace(where=crew.supervisor.where)

        self._request.silent = True
        self._request.last_words = lambda: self._saves.losses(self._trainer.counters.agent_steps)
        suspension = Suspension(time.monotonic())
        while self._request.number is None and not self._judge.rules.ended_by:
            self._receive(timeout=ASKED_SECONDS if self._trainer.asks else 0.5)
            now = time.monotonic()
            if suspension.is_over(now):
                self._rest(now)
            if self._thread_failure is not None:
                raise RunFailed(self._thread_failure)
            self._follow(self._config.system.step_timeout)
            self._watch(now)
            self._judge.look(self._counters(), lambda: self._receive(timeout=0.0), self._confirm)
            now, newest = time.monotonic(), status()
            self._display.show(newest)
            if now - last["report"] >= faults.value("report", REPORT_SECONDS):
                last["report"] = now
                self._report(status)
            if now - last["histogram"] >= faults.value("histogram", HISTOGRAM_SECONDS):
                last["histogram"] = now
                patience = faults.value("update", UPDATE_SECONDS)
                self._reporter.report_weights(patience)
                suspension.forget(time.monotonic(), patience)  # for a stuck update, which must be noticed
            due = now - last["checkpoint"] >= 60 * self._config.run.checkpoint_minutes
            if due and self._replay_saves.ready():
                last["checkpoint"] = now
                patience = self._config.system.step_timeout
                self.save(patience)
                suspension.forget(time.monotonic(), patience)  # likewise
        self._request.silent = False  # a signal during the last update or evaluation is acknowledged by the handler
        if self._request.number is not None:
            self._display.say("Saving and ending; Ctrl-C again ends at once")
        elif self._config.run.reproducible:
            crew.finish(self._join_seconds)  # so that the last update is reported too
        self._trainer.end()
        self._report(status)
        self._reporter.report_last_episodes()
        self._display.show(status(), final=True)

    def _receive(self, timeout: float) -> None:
        """Receive messages from the agents, the evaluator and the trainer, waiting at most `timeout` seconds."""
        for end in self.crew.receive(timeout):
            self._reporter.add(end)
            self._judge.add(end)
            self._callbacks.episode(end.episode)
        self._tell_updates()
        self._judge.rules.end(self._callbacks.ended_by)
        self._reporter.say()
        self._receive_evaluations()

    def _confirm(self) -> None:
        """Let an evaluation confirm the return of the newest episodes."""
        self.save(self._config.system.step_timeout)
        self._evaluations.confirm(self._config.run.stop_episodes)

    def _tell_updates(self) -> None:
        """Call back for each update since the last call."""
        while self._trainer.made:
            self._callbacks.update(*self._trainer.made.popleft())

    def _receive_evaluations(self) -> None:
        for record in self._evaluations.receive():
            if isinstance(record, Confirmation):
                self._judge.rules.decide(record)
            else:
                self._reporter.add_evaluation(record)
                if isinstance(record, Scalars):
                    self._callbacks.evaluation(record)
        self._display.refresh()

    def _watch(self, now: float) -> None:
        """Check that every process is alive, replacing dead ones, and that the run makes progress."""
        if self._request.number is not None:
            return  # the same signal may have ended other processes
        resume_fork_server()
        self.crew.watch(now)
        self._reporter.logger.watch(now)
        # An evaluator's start takes a core's time: not before there is something to evaluate.
        if self._saves.newest != self._before or self._judge.rules.confirming:
            self._evaluations.watch(now)
        if self.crew.waiting or self._trainer.question is not None:
            self._watchdog.rest(now)
        try:
            signs = self.crew.supervisor.signs + self._trainer.learner.optimizer_steps
            self._watchdog.look(now, signs, self._trainer.counters.updates - self._before.updates)
        except RunFailed:
            faulthandler.dump_traceback()  # every thread's stack, to stderr
            raise

    def _rest(self, now: float) -> None:
        """Time everything anew: all processes have been suspended, as by Ctrl-Z, or the machine is overloaded."""
        self._watchdog.rest(now)
        self.crew.supervisor.rest(now)
        self._reporter.logger.rest(now)
        self._evaluations.rest(now)

    def _on_thread_failure(self, failure: threading.ExceptHookArgs) -> None:
        name = failure.thread.name if failure.thread is not None else "a thread"
        trace = "".join(traceback.format_exception(failure.exc_type, failure.exc_value, failure.exc_traceback))
        cause = shortage(failure.exc_value) if failure.exc_value is not None else None
        self._trainer_is_intact &= not name.startswith("trainer")
        self._thread_failure = f"{name} failed: {cause}" if cause is not None else f"{name} failed\n{trace}"

    # Measures

    def _counters(self) -> Counters:
        return self._trainer.counters._replace(episodes=self._reporter.episodes, seconds=self._trainer.seconds)

    def _report(self, status: Callable[[], Status]) -> None:
        self._receive(timeout=0.0)
        self._reporter.report(status(), self.crew.supervisor.deaths, self.crew.scalars())

    @property
    def has_learned(self) -> bool:
        """Whether this process has made an update."""
        return self._trainer.counters.updates > self._before.updates

    # Stop

    def save(self, patience: float) -> None:
        """Save a checkpoint; neither a stuck update nor a full disk ends the run.

        Args:
            patience: seconds to wait for the end of an update.
        """
        try:
            self._save_state(self._trainer.state(patience))
        except TimeoutError as error:
            self._saves.fail(str(error))

    def _save_state(self, state: State) -> None:
        if (line := self._folder.follow()) is not None:
            self._display.say(line)
            self._saves.move()
        counters = state.counters._replace(episodes=self._reporter.episodes, seconds=self._trainer.seconds)
        random = {name: generator.get_state() for name, generator in generators_of(self.crew).items()}
        self._saves.save(state, counters, random, "" if self._ending else "; training continues")

    def _save_after_failure(self) -> None:
        """Save the present state or, if the trainer itself has failed, the last good one."""
        try:
            if self._trainer_is_intact:
                with contextlib.suppress(TimeoutError):
                    self._trainer.state(2 * self._join_seconds)
            self._save_state(self._trainer.good)
        except Exception as error:  # of a lost GPU, for instance; what has ended the run is reported
            self._saves.fail(" ".join(str(error).split())[:200])

    def _follow(self, patience: float) -> None:
        """If the run's folder has been moved or deleted, continue and save in the new one; `patience`: see `save`."""
        if (line := self._folder.follow()) is None:
            return
        self._display.say(line)
        self._saves.move()
        if not self._ending:
            self._reporter.move()
            self._evaluations.move()
        self.save(patience)

    def _shut_down(self) -> None:
        """End all threads and processes, and save a checkpoint; whatever does not end in time is killed."""
        self._ending = True
        self._folder.is_new &= not self.has_learned
        failed = sys.exc_info()[0] is not None
        self._trainer.end()
        self.crew.stop(self._join_seconds)
        learned = not failed and self._trainer.counters.updates > 0
        try:
            if failed and self.has_learned:
                self._save_after_failure()
            if learned:
                self.save(2 * self._join_seconds if self._request.number is not None else LAST_UPDATE_SECONDS)
                self._display.recount(self._counters())  # with the update that was under way
                self._tell_updates()
                if self._saves.problem is None:
                    self._folder.end(self._judge.rules.ended_by)
                if self._request.number is None:
                    self._evaluations.finish(self._receive_evaluations, lambda: self._request.number is not None)
        finally:
            self._evaluations.terminate()
            self._reporter.send(None)
            if learned and self._request.number is None:
                self._reporter.finish(lambda: self._request.number is not None)
            end_children(self._join_seconds)
            self._reporter.close()
        if learned:
            self._follow(2 * self._join_seconds)
            self._evaluations.leave_best()
