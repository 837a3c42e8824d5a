"""The central crew: agents that act, predictors that choose for them, trainers that learn, a slab between them."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

from kartrl.config import Config
from kartrl.envs.spec import EnvSpec
from kartrl.errors import RunFailed
from kartrl.metrics.terminal import Status
from kartrl.models import make_distribution
from kartrl.replay import Replay, UniformReplay, UnrollMemory
from kartrl.runtime.agent_supervisor import Agents, first_seed
from kartrl.runtime.batch_source import ArrivalSource, BatchSource, Rounds, SynchronousSource
from kartrl.runtime.controller import Controller, make_controller
from kartrl.runtime.devices import predictor_device
from kartrl.runtime.messages import EpisodeEnd
from kartrl.runtime.meter import StageShares, slab_stages
from kartrl.runtime.predictor_thread import ArrivalPacing, Pacing, PredictorThread, group_states, make_policy
from kartrl.runtime.replay_source import ReplaySource
from kartrl.runtime.sizes import Sizes, replay_shape, slab_shape
from kartrl.runtime.slab import Slab
from kartrl.runtime.trainer_thread import Trainer, TrainerThread

SETTLE_SECONDS = 5.0  # that a forward pass may take


class Central:
    """See `Crew`.

    Args:
        config: the configuration.
        sizes: of the processes, batches and queues.
        spec: of the environment.
        context: of multiprocessing.
        trainer: of the network that learns.
        resumed: whether the run goes on from a checkpoint.
        say: tells the user.
    """

    def __init__(
        self,
        config: Config,
        sizes: Sizes,
        spec: EnvSpec,
        context: Any,
        trainer: Trainer,
        resumed: bool,
        say: Callable[[str], None],
    ) -> None:
        self._config, self._sizes, self._spec, self._say = config, sizes, spec, say
        self.trainer, self._resumed = trainer, resumed
        self._first_update = trainer.counters.updates
        self._slab = Slab(context, slab_shape(config, spec, sizes))
        self._stop = threading.Event()
        seed = first_seed(config.run.seed, self._first_update)
        self.supervisor = Agents(config, spec.action, self._slab, sizes.min_agents, seed, self._settle, say)
        self._predictors: list[PredictorThread] = []
        self._trainers: list[TrainerThread] = []
        self._controller: Controller | None = None
        self._replay: Replay | None = None
        self._draws = torch.Generator().manual_seed(config.run.seed + self._first_update)  # of the replay

    @property
    def predictions(self) -> int:
        """See `Crew`."""
        return sum(predictor.predictions for predictor in self._predictors)

    @property
    def batches(self) -> int:
        """See `Crew`."""
        return sum(predictor.batches for predictor in self._predictors)

    @property
    def generators(self) -> dict[str, torch.Generator]:
        """See `Crew`."""
        drawing = {predictor.name: predictor.policy.generator for predictor in self._predictors}
        return {"replay": self._draws, **drawing}

    def start(self) -> None:
        """See `Crew`."""
        self.supervisor.start()
        self.make_threads()

    def make_threads(self) -> None:
        """What `begin` starts."""
        config, sizes, slab = self._config, self._sizes, self._slab
        self._pacing, self._source = self._make_order()
        distribution = make_distribution(self._spec.action)
        network = self.trainer.learner.network
        states = group_states(slab, network).to(predictor_device(config.system, self.trainer.learner.reducer.rank))
        for index in range(sizes.predictors):
            seed = config.run.seed * 1000 + self._first_update + index
            policy = make_policy(network, distribution, states, seed, slab, sizes.prediction_groups)
            name, weights = f"predictor-{index}", self.trainer.weights
            self._predictors.append(PredictorThread(name, slab, policy, weights, self._pacing, self._stop))
        sourcing = threading.Lock()
        for index in range(sizes.trainers):
            self._trainers.append(TrainerThread(f"trainer-{index}", self._source, self.trainer, sourcing))
        self._stages = StageShares(lambda: slab_stages(slab, self._predictors, self._trainers))
        if config.system.controller:
            assert isinstance(self._pacing, ArrivalPacing)
            self._controller = make_controller(slab, self._pacing, sizes.min_groups, sizes.max_lag, self._say)

    def _make_order(self) -> tuple[Pacing, BatchSource]:
        """Which requests are answered together, and which blocks trained on: by arrival, or in a fixed order."""
        slab, sizes, weights = self._slab, self._sizes, self.trainer.weights
        synchronous = self.trainer.learner.algorithm.synchronous
        pacing: Pacing = ArrivalPacing(slab, sizes.prediction_groups, sizes.min_groups)
        source: BatchSource = ArrivalSource(slab, sizes.training_blocks, weights, sizes.max_lag, self._stop)
        if self._config.run.reproducible:
            pacing = source = Rounds(slab, sizes.training_blocks, self._stop, paces_only=synchronous)
        if synchronous:
            source = SynchronousSource(slab, weights, self._stop)
        return pacing, self._with_replay(source)

    def _with_replay(self, source: BatchSource) -> BatchSource:
        """The source, mixed with a replay where the algorithm learns from one."""
        shape, section = replay_shape(self._config, self._spec), self._config.replaying
        if shape is None or section is None:
            return source
        self._replay = UniformReplay(UnrollMemory(shape), self._draws)
        size = f"{shape.size() / 1e6:,.0f} MB"
        self._say(f"The replay will take {size} of memory when it holds {shape.capacity:,} steps")
        if self._resumed:
            self._say(
                "What the replay held is not in a checkpoint: it begins empty, and nothing is replayed for "
                f"{section.replay_start:,} steps"
            )
        return ReplaySource(source, self._replay, section, self._draws, self._stop)

    def begin(self) -> None:
        """See `Crew`."""
        for thread in (*self._predictors, *self._trainers):
            thread.start()

    def receive(self, timeout: float) -> Iterator[EpisodeEnd]:
        """See `Crew`."""
        return self.supervisor.receive(timeout)

    def watch(self, now: float) -> None:
        """See `Crew`."""
        self.supervisor.watch(now, self.trainer.first_update is not None)
        if self.predictions:
            self.trainer.first_step = self.trainer.first_step or now

    def tune(self, now: float, status: Status) -> None:
        """See `Crew`."""
        if self._controller is not None:
            self._controller.tick(now, status.counters.agent_steps, status.lag)

    def scalars(self) -> dict[str, float]:
        """See `Crew`."""
        slab = self._slab
        replay = self._replay.scalars() if self._replay is not None else {}
        return (
            self._stages.shares()
            | replay
            | {
                "speed/finished_unrolls": float(slab.state.sum()) * slab.group_size,
                "speed/running_agents": float((~slab.paused).sum()),
                "speed/awaited_groups": float(self._pacing.enough),
                "system/dropped_unrolls": float(self._source.dropped * slab.group_size),
                "system/quarantined_unrolls": float(slab.quarantined.sum()),
            }
        )

    def finish(self, timeout: float) -> None:
        """See `Crew`."""
        for trainer in self._trainers:
            trainer.join(timeout)

    def stop(self, timeout: float) -> None:
        """See `Crew`."""
        self._stop.set()
        self._slab.stop()
        for thread in (*self._predictors, *self._trainers):
            if thread.ident is not None:
                thread.join(timeout)

    def _settle(self) -> None:
        """Wait until no predictor works any more on what it has gathered before now."""
        for predictor in self._predictors:
            if not predictor.predicting.acquire(timeout=SETTLE_SECONDS):
                raise RunFailed(f"{predictor.name} does not finish a forward pass")
            predictor.predicting.release()
