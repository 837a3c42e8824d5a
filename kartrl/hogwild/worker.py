"""A Hogwild worker: an agent that chooses its own actions and learns from them, on parameters that all workers share.

It combines the agent, predictor and trainer of the central crew in one thread, on a slab of its own: while the agent
waits for an action, the worker chooses it; when an unroll is finished, the worker learns from it.
"""

import multiprocessing
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection

import numpy as np
import torch
from torch import Tensor

from kartrl.acting.agent import play, telling
from kartrl.acting.agent_group import Mailbox, Stopped
from kartrl.acting.predictor import Policy, group_states
from kartrl.acting.sizes import Sizes, slab_shape
from kartrl.acting.slab import Slab
from kartrl.algorithms import heads_of
from kartrl.config import Config
from kartrl.envs.spec import EnvSpec
from kartrl.hardware.devices import choose_device
from kartrl.hardware.machine import keep_freed_memory
from kartrl.hogwild.board import HogwildBoard
from kartrl.hogwild.optimizer import HogwildOptimizer
from kartrl.learning.counters import Counters
from kartrl.learning.divergence_guard import DivergenceGuard
from kartrl.learning.learner import Learner, Update, make_learner
from kartrl.learning.optimizers import hold_state, make_optimizer
from kartrl.learning.schedules import Progress
from kartrl.metrics.stopwatch import WORKER_STAGES, Stopwatch
from kartrl.models import ActorCritic, make_distribution, make_network
from kartrl.models.mirror_symmetry import symmetry_of
from kartrl.processes.spawn import environments_hosted
from kartrl.training.trainer import Trainer
from kartrl.trajectory import Trajectory


def run(
    config: Config,
    sizes: Sizes,
    spec: EnvSpec,
    board: HogwildBoard,
    number: int,
    seed: int,
    before: Counters,
    server: Connection,
    keeps: bool,
) -> None:
    """Body of a worker process.

    Args:
        config: this worker's configuration; its device may differ from other workers'.
        sizes: this worker's sizes; its unroll length may differ from other workers'.
        server: receives an `EpisodeEnd` at the end of each episode, the `Record` of some updates, and a `Failure` if
            the worker cannot continue.
        keeps: whether it also receives each update as `Made`.
    """
    keep_freed_memory()
    torch.set_num_threads(sizes.torch_threads)
    torch.manual_seed(seed)
    with environments_hosted(), telling(server):
        worker = Worker(config, sizes, spec, board, number, seed, before, server)
        worker.trainer.keeps = keeps
        mailbox = Mailbox(worker.slab, worker.slab.waker(0), worker.serve)
        calls = board.calls[number : number + 1]
        play(config, spec.action, worker.slab, 0, seed, mailbox, worker.stopwatch, server, calls)


class Worker:
    """Serves an agent in the agent's own process; see `run`.

    Attributes:
        slab: this worker's own, with one agent and one group.
        trainer: trains its own network; optimizer steps go to the shared parameters.
    """

    def __init__(
        self,
        config: Config,
        sizes: Sizes,
        spec: EnvSpec,
        board: HogwildBoard,
        number: int,
        seed: int,
        before: Counters,
        server: Connection,
    ) -> None:
        self._board, self._number, self._server = board, number, server
        self.stopwatch = Stopwatch(WORKER_STAGES, board.stage_seconds[number])
        self.slab = Slab(multiprocessing.get_context(), slab_shape(config, spec, sizes))
        self._device = choose_device(config.system.device)
        observation, heads = spec.observation, heads_of(config)
        network = make_network(config.model, observation, spec.action, heads).to(self._device)
        shared = ActorCritic(config.model, observation, spec.action, heads)
        board.network.take_place(shared)
        optimizer = make_optimizer(config.optimizer, shared.parameters())
        if board.statistics:
            hold_state(optimizer, board.statistics)
        self._optimizer = HogwildOptimizer(network, shared, optimizer)
        self._optimizer.fetch()
        learner = make_learner(
            config,
            network,
            spec.action,
            self._optimizer,
            normalising=shared,
            symmetry=symmetry_of(network, spec),
        )
        self.trainer = _WorkerTrainer(learner, config, board, number, before)
        self.trainer.weights.version = int(board.updates.sum())  # of this life of the run, as in `_learn`
        self._policy = Policy(network, make_distribution(spec.action), group_states(self.slab, network), seed)

    def serve(self) -> Mapping[int, int]:
        """Learn from finished blocks, and choose the actions that the agent waits for.

        Raises:
            Stopped: the run is stopping.
        """
        slab, board = self.slab, self._board
        if board.stopping[0]:
            raise Stopped
        for block in slab.take_finished(slab.num_blocks, 0.0):
            self._learn(block)
            slab.release([block])
        requests = slab.gather_requests(slab.await_requests(slab.num_groups, 0.0))
        if requests is not None:
            decision, initial_state = self._policy.act(requests)
            slab.answer_requests(requests, decision, initial_state, self.trainer.weights.version)
            board.moves[self._number] += 1
            self.stopwatch.lap("act")
        return {}  # the answers arrive by the waker

    def _learn(self, block: int) -> None:
        """Make an update from a finished block, then begin the next with the newest weights."""
        board, number, trainer = self._board, self._number, self.trainer
        batch = self.slab.gather([block])
        trajectory = Trajectory(*(torch.from_numpy(array).to(self._device) for array in batch))
        trainer.first_step = float(board.began[0]) or None
        self.stopwatch.lap("gather")
        if not trainer.finished:
            trainer.weights.version = int(board.updates.sum())  # the lag is the others' updates since the unroll began
            trainer.update(trajectory, batch, self.stopwatch)
        for ours, all_lives in ((self.slab.unrolls, board.unrolls), (self.slab.quarantined, board.quarantined)):
            all_lives[number] += ours[0]
            ours[0] = 0
        for kept in (trainer.records, trainer.made):
            while kept:
                self._server.send(kept.popleft())
        self._optimizer.fetch()
        trainer.weights.version = int(board.updates.sum())


class _WorkerTrainer(Trainer):
    """Counts on the shared board; the run's progress is that of all workers together."""

    def __init__(self, learner: Learner, config: Config, board: HogwildBoard, number: int, before: Counters) -> None:
        self._board, self._number, self._before = board, number, before
        self._posted = before  # this worker's own counters that are on the board
        super().__init__(learner, config.optimizer, Progress(config.run, before), before)
        self.guard = _WorkerGuard(board, number)

    def update(
        self, trajectory: Trajectory[Tensor], batch: Trajectory[np.ndarray], stopwatch: Stopwatch
    ) -> Update | None:
        update = super().update(trajectory, batch, stopwatch)
        steps, made = self._own()
        self._board.steps[self._number] += steps
        self._board.updates[self._number] += made
        self._posted = self.counters
        if made:
            self._board.updated[self._number] = time.monotonic()
        return update

    def _now(self) -> Counters:
        all_posted, (steps, made) = self._board.counters(self._before), self._own()
        return all_posted._replace(
            agent_steps=all_posted.agent_steps + steps, updates=all_posted.updates + made, seconds=self.seconds
        )

    def _own(self) -> tuple[int, int]:
        """Steps and updates that are not on the board yet: those of an update that is being reported."""
        own, posted = self.counters, self._posted
        return own.agent_steps - posted.agent_steps, own.updates - posted.updates


class _WorkerGuard(DivergenceGuard):
    """Records skipped updates on the shared board, for the server, which decides what to do."""

    def __init__(self, board: HogwildBoard, number: int) -> None:
        super().__init__(limit=1)
        self._board, self._number = board, number

    def compare(self, updates: int, skipped: int, in_a_row: int) -> None:
        board, number = self._board, self._number
        board.skipped[number] += skipped - self.skipped
        board.in_a_row[number] = board.in_a_row[number] + 1 if in_a_row else 0
        self.skipped = skipped
