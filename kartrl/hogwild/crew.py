"""The Hogwild crew of A3C (arXiv:1602.01783): workers that act and learn, each with a network of its own.

The parameters are in shared memory, as is the optimizer's state by default; no worker waits for another (Hogwild!,
arXiv:1106.5730). The server only supervises: it counts, saves, and replaces workers that die.
"""

import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any, cast

from torch import nn

from kartrl.acting.messages import EpisodeEnd
from kartrl.acting.sizes import Sizes
from kartrl.acting.supervisor import Supervisor, first_seed
from kartrl.config import Config
from kartrl.config.algorithms import A3C
from kartrl.envs.spec import EnvSpec
from kartrl.errors import RunFailed
from kartrl.hogwild import worker
from kartrl.hogwild.board import HogwildBoard
from kartrl.learning.counters import Counters
from kartrl.learning.divergence_guard import Diverged
from kartrl.learning.learner import Learner
from kartrl.learning.optimizers import first_state, get_state, hold_state
from kartrl.learning.schedules import Progress
from kartrl.metrics.stopwatch import WORKER_STAGES
from kartrl.processes.child import ChildProcess
from kartrl.processes.spawn import spawn
from kartrl.training.crew import Crew
from kartrl.training.meter import StageShares
from kartrl.training.trainer import Made, Record, Trainer


class Hogwild(Crew):
    """Workers that act and learn by themselves.

    Args:
        learner: its network and optimizer state, on the CPU, become the initial shared ones.
    """

    supervisor: "Workers"

    def __init__(
        self,
        config: Config,
        sizes: Sizes,
        spec: EnvSpec,
        context: Any,
        learner: Learner,
        progress: Progress,
        before: Counters,
        say: Callable[[str], None],
    ) -> None:
        self._sizes = sizes
        parameters = [*learner.network.parameters()]
        statistics = get_state(learner.optimizer) or first_state(config.optimizer, parameters)
        if not cast(A3C, config.own).share_statistics:
            statistics = {}
        self._board = board = HogwildBoard(sizes.agents, learner.network.state_dict(), statistics)
        board.network.take_place(cast(nn.Module, learner.network))
        if board.statistics:
            hold_state(learner.optimizer, board.statistics)
        self.trainer = self._observer = HogwildTrainer(board, learner, config, progress, before)
        seed = first_seed(config.run.seed, before.updates)
        self.supervisor = Workers(config, sizes, spec, context, board, before, seed, say)
        self._stages = StageShares(lambda: [("worker", WORKER_STAGES, [*board.stage_seconds])])

    @property
    def predictions(self) -> int:
        return self.batches * self._sizes.group_size

    @property
    def batches(self) -> int:
        return int(self._board.moves.sum())

    def start(self) -> None:
        self.supervisor.start()

    def keep_updates(self) -> None:
        self.supervisor.keeps = True

    def receive(self, timeout: float) -> Iterator[EpisodeEnd]:
        for message in self.supervisor.receive(timeout):
            if isinstance(message, Record):
                self._observer.add(message)
            elif isinstance(message, Made):
                self._observer.made.append(message)
            else:
                yield message
        self._observer.look()

    def watch(self, now: float) -> None:
        board = self._board
        if self.batches and not board.began[0]:
            board.began[0] = now
        self.supervisor.watch(now, self.trainer.first_update is not None)
        try:
            self._observer.guard_against_divergence()
        except Diverged as error:
            raise RunFailed(str(error)) from error

    def scalars(self) -> dict[str, float]:
        return self._stages.shares() | {"system/quarantined_unrolls": float(self._board.quarantined.sum())}

    def stop(self, timeout: float) -> None:
        self._board.stopping[0] = True
        self.supervisor.join(timeout)
        for _ in self.receive(0.0):  # the last updates; the episodes after the end do not count
            pass


class Workers(Supervisor[HogwildBoard]):
    """The worker processes; see `Hogwild`.

    Attributes:
        keeps: whether they send each of their updates as `Made`.
    """

    keeps = False

    def __init__(
        self,
        config: Config,
        sizes: Sizes,
        spec: EnvSpec,
        context: Any,
        board: HogwildBoard,
        before: Counters,
        seed: int,
        say: Callable[[str], None],
    ) -> None:
        super().__init__(config, board, "worker", sizes.group_size, sizes.min_agents, seed, say)
        self._sizes, self._spec, self._context, self._before = sizes, spec, context, before

    def _spawn(self, number: int, seed: int) -> tuple[ChildProcess, Connection]:
        reader, writer = self._context.Pipe(duplex=False)
        config, sizes = worker_setup(self._config, self._sizes, number)
        arguments = config, sizes, self._spec, self._board, number, seed, self._before, writer, self.keeps
        process = spawn(self._context, f"worker-{number}", worker.run, *arguments)
        writer.close()
        return process, reader


def worker_setup(config: Config, sizes: Sizes, number: int) -> tuple[Config, Sizes]:
    """One worker's configuration and sizes: workers are assigned the devices and the unroll lengths in turn."""
    section = cast(A3C, config.own)
    lengths = section.unroll_lengths
    length = sizes.unroll_length if lengths == "auto" else lengths[number % len(lengths)]
    device = section.devices[number % len(section.devices)]
    system = config.system.model_copy(update={} if device == "auto" else {"device": device})
    return config.model_copy(update={"system": system}), sizes._replace(agents=1, unroll_length=length)


class HogwildTrainer(Trainer):
    """The server's view of the workers' updates; its network and its optimizer's state are the shared ones.

    A copy of them mixes several updates, as workers write meanwhile; what a worker reads is no more consistent.
    """

    def __init__(
        self, board: HogwildBoard, learner: Learner, config: Config, progress: Progress, before: Counters
    ) -> None:
        super().__init__(learner, config.optimizer, progress, before)
        self._board, self._before = board, before

    def add(self, record: Record) -> None:
        """Store a worker's record."""
        self.records.append(record)
        self.lag = record.scalars["lag/mean"]

    def look(self) -> None:
        """Read the workers' progress from the board."""
        board = self._board
        self.counters = board.counters(self._before)
        self.first_step = float(board.began[0]) or None
        newest = float(board.updated.max())
        if newest:
            self.first_update = self.first_update or time.time()
            self._longest_pause = max(self._longest_pause, time.monotonic() - newest)
            self._updated = newest

    def guard_against_divergence(self) -> None:
        """Roll back to the last good weights if a worker has skipped too many updates in a row.

        Raises:
            Diverged: again without a recovery.
        """
        board = self._board
        skipped, in_a_row = int(board.skipped.sum()), int(board.in_a_row.max())
        if (problem := self.guard.compare(self.counters.updates, skipped, in_a_row)) is not None:
            self._go_back(problem)
            board.in_a_row[:] = 0

    def _go_back(self, problem: str) -> None:
        super()._go_back(problem)
        if statistics := self._board.statistics:  # what has been loaded belongs to this optimizer alone
            for name, tensor in statistics.items():
                tensor.copy_(self.good.optimizer[name])
            hold_state(self.learner.optimizer, statistics)
