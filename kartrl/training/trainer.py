"""A trainer: takes a batch of finished unrolls, has the learner make an update, publishes the weights."""

import threading
import time
from collections import deque
from statistics import fmean
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from kartrl import faults
from kartrl.acting.published_weights import PublishedWeights
from kartrl.config import Optimizer
from kartrl.hardware.streams import RoleStream
from kartrl.learning.counters import Counters
from kartrl.learning.divergence_guard import DivergenceGuard
from kartrl.learning.gradient_reducer import LearnerLost
from kartrl.learning.learner import Learner, LearnerState, Update
from kartrl.learning.schedules import Progress
from kartrl.metrics.stopwatch import TRAINER_STAGES, Stopwatch
from kartrl.training.sources import BatchSource
from kartrl.trajectory import Trajectory

READ_STEPS = 3000  # agent steps between two readings of the losses, each of which waits for the device


class State(NamedTuple):
    """A copy on the CPU of everything that updates change."""

    network: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    algorithm: dict[str, Tensor]
    counters: Counters


class Record(NamedTuple):
    """What is logged about an update."""

    counters: Counters  # after it
    attempts: int  # this process's updates from fresh steps so far, including skipped ones
    scalars: dict[str, float]
    steps: int  # trained on since the previous record
    mean_reward: float  # of these steps, before any transform


class Made(NamedTuple):
    """An update, for a callback."""

    counters: Counters  # after it
    scalars: dict[str, float]


class Trainer:
    """State shared by all trainer threads of a run: the learner, published weights, counters and reports.

    A loss or gradient that is not finite is never applied: its update ends there and is not counted (what was learned
    from the minibatches before it stays). After `optimizer.max_skipped_updates` of these in a row, weights and
    optimizer are rolled back to the last good `state`.

    With several learners, counters, progress and the check for non-finite values cover all of them; the reported
    scalars are this learner's.

    Attributes:
        attempts: this process's updates from fresh steps so far, including skipped ones.
        good: the newest good state that was taken.
        read_steps: agent steps between two readings of the losses, of each of which there is a record.
        asks: whether it waits, whenever it has trained on 3,000 agent steps more, until `answer` is called.
        keeps: whether the losses of each update are read, and kept in `made`.
        question: its attempts and counters then, while it waits.
        turn: held by a trainer thread during a whole update, including the wait for other learners.
        updating: held while an update changes anything; hold it to read a consistent state.
    """

    def __init__(self, learner: Learner, section: Optimizer, progress: Progress, counters: Counters) -> None:
        self.learner, self.counters = learner, counters
        self._progress = progress
        self.stream = RoleStream(next(iter(learner.network.parameters())).device)
        # versions, and so the ages of replayed unrolls, continue across a resume
        self.weights = PublishedWeights(learner.network, self.stream, counters.updates)
        self.guard = DivergenceGuard(section.max_skipped_updates)
        self.turn, self.updating = threading.Lock(), threading.Lock()
        self.records: deque[Record] = deque(maxlen=1000)  # read by the server
        self.read_steps = faults.value("reading", READ_STEPS)
        self.keeps, self.made = False, deque[Made]()
        self.messages: deque[str] = deque(maxlen=100)  # shown by the server
        self.first_update: float | None = None  # when this process made its first update, seconds since the epoch
        self.lag = 0.0  # mean policy lag of the newest batch, in updates
        self.attempts = 0
        self.asks = False
        self.question: tuple[int, Counters] | None = None
        self._asking_steps = self.read_steps
        self._answered, self._over = threading.Event(), False
        self._norms: list[float] = []  # of gradients, since the losses were last read
        self._rewards: list[tuple[int, float]] = []  # steps and mean reward of each batch since then
        self._seconds_before = counters.seconds
        self.first_step: float | None = None  # monotonic time of the agents' first step; set by the server
        self._ended: float | None = None  # monotonic time
        self._updated = time.monotonic()
        self._longest_pause = 0.0
        self._replay_due = False  # whether to read the losses of the next update from replay alone
        self._replay_scalars: dict[str, float] = {}
        self.good = self.state()

    def update(
        self, trajectory: Trajectory[Tensor], batch: Trajectory[np.ndarray], stopwatch: Stopwatch
    ) -> Update | None:
        """Make one update. Only `online` unrolls count towards agent steps, policy lag and reward.

        Args:
            trajectory: the batch on the network's device; if no step is valid, nothing is done.
            batch: the same on the CPU.

        Returns:
            The result; None if it changed nothing.

        Raises:
            Diverged: too many updates in a row were not finite, again without a recovery.
            LearnerLost: see `GradientReducer`.
        """
        self.attempts += bool(batch.online.any())
        steps, fresh_steps = int(batch.valid.sum()), int(batch.valid[:, batch.online].sum())
        share = torch.tensor([[steps, fresh_steps, self.progress, self.guard.armed]], dtype=torch.float64)
        shares = self.learner.reducer.gather(share)
        if len(shares) > 1:  # it has waited for the others
            stopwatch.lap("idle")
        all_steps, trained = (int(number) for number in shares[:, :2].sum(0))
        if all_steps == 0:  # all unrolls were quarantined, or only carried last observations
            return None
        self.guard.armed = bool(shares[0, 3])  # only the first learner knows whether training has recovered
        with self.updating, self.stream.current():
            return self._update(trajectory, batch, steps, trained, float(shares[0, 2]), stopwatch)

    def _update(
        self,
        trajectory: Trajectory[Tensor],
        batch: Trajectory[np.ndarray],
        steps: int,
        trained: int,
        progress: float,
        stopwatch: Stopwatch,
    ) -> Update | None:
        """See `update`.

        Args:
            steps: valid steps in the batch.
            trained: fresh steps in the batches of all learners.
            progress: progress of the first learner's schedules, 0 to 1.
        """
        start = time.monotonic()
        fresh = batch.valid & batch.online
        fresh_steps = int(fresh.sum())
        before = self.counters
        after = before._replace(agent_steps=before.agent_steps + trained, updates=before.updates + 1)
        total = self._now().agent_steps
        due = fresh_steps > 0 and (total + trained) // self.read_steps > total // self.read_steps
        read = due or self.keeps or (self._replay_due and fresh_steps == 0)
        # on other devices, graphs with and without these terms would take longer to capture than the terms do
        self.learner.algorithm.describes = read or trajectory.reward.device.type != "cpu"
        update = self.learner.update(trajectory, steps, progress, stopwatch.lap, probe=read)
        self.learner.threads.record(start, time.monotonic())
        if (problem := self.guard.record(update.finite)) is not None:
            self._go_back(problem)
        if not update.finite:
            if problem is None and len(update.steps) > 1:
                self.weights.publish()  # agents act with what the minibatches before it have changed
            return None
        self._norms += [step.gradient_norm for step in update.steps]
        lag, age = (self.weights.version - batch.version[:, part] for part in (batch.online, ~batch.online))
        if fresh_steps:
            self._rewards.append((fresh_steps, float(batch.reward[fresh].mean())))
            self.lag = float(lag.mean())
        told = due or (self.keeps and fresh_steps > 0)
        relative = self.weights.relative_change() if told else 0.0
        self.weights.publish()
        self.counters = after
        if read and age.size:  # reported with the next reading of an update from fresh steps
            ages = {"replay/age_mean": float(age.mean()), "replay/age_max": float(age.max())}
            renamed = {tag.replace("losses/", "replay/"): value for tag, value in update.scalars().items()}
            self._replay_scalars = ages if fresh_steps else renamed | ages
        self._replay_due = due or (self._replay_due and not read)
        scalars = self._replay_scalars
        if told:
            norms, rewards = self._norms, self._rewards
            rewarded = sum(count for count, _ in rewards)
            mean_reward = sum(count * mean for count, mean in rewards) / rewarded
            scalars = {
                **update.scalars(),
                **self._replay_scalars,
                "losses/learning_rate": self.learner.learning_rate(progress),
                "losses/mean_reward": mean_reward,
                "losses/update_to_weight_ratio": relative,
                "losses/gradient_norm": fmean(norms),
                "losses/largest_gradient_norm": max(norms),
                "losses/gradients_clipped": fmean(norm > self.learner.gradient_clip for norm in norms),
                "lag/min": float(lag.min()),
                "lag/mean": self.lag,
                "lag/max": float(lag.max()),
                "speed/update_seconds": time.monotonic() - start,
                "speed/update_threads": float(self.learner.threads.number),
            }
        if due:
            self.records.append(Record(self._now(), self.attempts, scalars, rewarded, mean_reward))
            self._norms, self._rewards = [], []
        if self.keeps:
            self.made.append(Made(self._now(), scalars))
        if self.asks and (total + trained) // self._asking_steps > total // self._asking_steps:
            self._answered.clear()
            self.question = self.attempts, self._now()
        self.first_update = self.first_update or time.time()
        self._longest_pause = max(self._longest_pause, time.monotonic() - self._updated)
        self._updated = time.monotonic()
        stopwatch.lap("publish")
        return update

    @property
    def progress(self) -> float:
        """Progress of the schedules, 0 to 1."""
        return self._progress.schedule(self._now())

    @property
    def finished(self) -> bool:
        """Whether the run has reached a limit: no update is made beyond it."""
        return self._over or self._progress.fraction(self._now()) >= 1.0

    def await_answer(self) -> None:
        """Wait, if there is a `question`, until `answer` is called."""
        if self.question is not None:
            self._answered.wait()

    def answer(self, over: bool) -> None:
        """Let a waiting trainer continue, or end if the run is over."""
        self.question, self._over = None, over
        self._answered.set()

    @property
    def seconds(self) -> float:
        """Seconds of training, including those before a resume, from the agents' first step to `end`.

        Everything that shows or stores seconds of training does so by this clock.
        """
        now = self._ended or time.monotonic()
        return self._seconds_before + (0.0 if self.first_step is None else max(0.0, now - self.first_step))

    def end(self) -> None:
        """Stop the clock: what follows, such as the last checkpoint's evaluation, is not training."""
        self._ended = self._ended or time.monotonic()
        if self.asks:
            self.answer(over=True)

    def _now(self) -> Counters:
        return self.counters._replace(seconds=self.seconds)

    def longest_pause(self) -> float:
        """Longest pause between updates since the last call, in seconds, including the current one."""
        longest, self._longest_pause = max(self._longest_pause, time.monotonic() - self._updated), 0.0
        return longest

    def state(self, patience: float = -1.0) -> State:
        """A consistent copy, taken between two updates. A diverging run is rolled back to the newest good one.

        Args:
            patience: seconds to wait for the end of an update; -1: no limit.

        Raises:
            TimeoutError: the update took longer.
        """
        if not self.updating.acquire(timeout=patience):
            raise TimeoutError(f"an update has been running for {patience:g} s")
        try:
            with self.stream.current():
                state = State(*self.learner.state(), self.counters._replace(progress=self.progress))
            if self.guard.healthy and all(bool(tensor.isfinite().all()) for tensor in state.network.values()):
                self.good = state
                self.guard.saved()
            return state
        finally:
            self.updating.release()

    def _go_back(self, problem: str) -> None:
        good = self.learner.reducer.share(self.good)
        self.learner.load_state(LearnerState(good.network, good.optimizer, good.algorithm))
        self.weights.publish()
        steps = good.counters.agent_steps
        self.messages.append(f"{problem}; rolling back weights and optimizer to {steps:,} agent steps")


class TrainerThread(threading.Thread):
    """Makes updates until the source ends. With two threads, one assembles a batch while the other updates.

    Args:
        sourcing: held while a batch is taken from the source.
    """

    def __init__(self, name: str, source: BatchSource, trainer: Trainer, sourcing: threading.Lock) -> None:
        super().__init__(name=name, daemon=True)
        self._source, self._trainer, self._sourcing = source, trainer, sourcing
        self._device = next(iter(trainer.learner.network.parameters())).device
        self._stream = RoleStream(self._device)  # for copies to the device during another thread's update
        self.stopwatch = Stopwatch(TRAINER_STAGES)

    def run(self) -> None:
        lap = self.stopwatch.lap
        while True:
            with self._sourcing:
                batch = None if self._trainer.finished else self._source.next(self.stopwatch)
                if batch is None:
                    return
                trajectory = self._upload(batch)
            lap("gather")
            with self._trainer.turn:
                lap("idle")
                if self._trainer.finished:  # by another thread's update in the meantime
                    return
                try:
                    faults.reach()
                    update = self._trainer.update(trajectory, batch, self.stopwatch)
                except LearnerLost:  # the crew handles it
                    return
                with self._trainer.stream.current():
                    self._source.published(update)
                self._trainer.await_answer()

    def _upload(self, batch: Trajectory[np.ndarray]) -> Trajectory[Tensor]:
        """The batch on the device."""
        tensors = map(torch.from_numpy, batch)
        if self._device.type != "cuda":
            return Trajectory(*(tensor.to(self._device) for tensor in tensors))
        with self._stream.current():
            on_device = Trajectory(*(tensor.pin_memory().to(self._device, non_blocking=True) for tensor in tensors))
        self._stream.synchronize()
        self._trainer.stream.keep(on_device)
        return on_device
