"""The central crew: agents that act, predictors that choose their actions, trainers that learn, and their slab."""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from kartrl.acting.actors import Acting
from kartrl.acting.messages import EpisodeEnd
from kartrl.acting.predictor import ArrivalPacing, Pacing
from kartrl.acting.recording import own_network
from kartrl.acting.sizes import Sizes
from kartrl.acting.supervisor import first_seed
from kartrl.config import Config
from kartrl.envs.spec import EnvSpec
from kartrl.hardware.devices import predictor_device
from kartrl.training.crew import Crew, Team
from kartrl.training.meter import StageShares, slab_stages
from kartrl.training.sources import ArrivalSource, BatchSource, Rounds, SynchronousSource
from kartrl.training.trainer import Trainer
from kartrl.training.trainers import Training


class Central(Crew):
    """The crew of one machine: agents, predictors unless agents run the network themselves, and trainers."""

    def __init__(
        self,
        config: Config,
        sizes: Sizes,
        spec: EnvSpec,
        context: Any,
        trainer: Trainer,
        say: Callable[[str], None],
    ) -> None:
        self._config, self._sizes, self._say = config, sizes, say
        self.trainer = trainer
        self._first_update = trainer.counters.updates
        seed = first_seed(config.run.seed, self._first_update)
        own = None if sizes.predictors else own_network(config, spec, sizes, trainer.weights)
        self.programs = own.programs if own is not None else None
        self._acting = Acting(config, sizes, spec, context, seed, say, own)
        self._slab = self._acting.slab
        self.supervisor: Team = self._acting.supervisor
        self._pacing, source = self._make_order()
        self._training = Training(config, spec, sizes, trainer, source, self._acting.stop_event, say)
        self.replay = self._training.replay

    @property
    def predictions(self) -> int:
        return self._acting.predictions

    @property
    def batches(self) -> int:
        return self._acting.batches

    @property
    def generators(self) -> dict[str, torch.Generator]:
        return {"replay": self._training.generator, **self._acting.generators}

    def start(self) -> None:
        self._acting.supervisor.start()
        self.make_threads()

    def make_threads(self) -> None:
        """Create the threads that `begin` starts."""
        trainer, acting = self.trainer, self._acting
        seed = self._config.run.seed * 1000 + self._first_update
        device = predictor_device(self._config.system, trainer.learner.reducer.rank)
        acting.make_predictors(trainer.learner.network, trainer.weights, self._pacing, seed, device)
        self._stages = StageShares(lambda: slab_stages(self._slab, acting.predictors, self._training.threads))

    def _make_order(self) -> tuple[Pacing, BatchSource]:
        """Which requests are answered together, and which blocks are trained on: by arrival, or in a fixed order."""
        slab, sizes, weights, stop = self._slab, self._sizes, self.trainer.weights, self._acting.stop_event
        synchronous = self.trainer.learner.algorithm.synchronous
        pacing: Pacing = ArrivalPacing(slab, sizes.prediction_groups, sizes.min_groups)
        source: BatchSource = ArrivalSource(slab, sizes.training_blocks, weights, sizes.max_lag, stop)
        if self._config.run.reproducible:
            pacing = source = Rounds(slab, sizes.training_blocks, stop, paces_only=synchronous)
        if synchronous:
            source = SynchronousSource(slab, weights, stop)
        return pacing, source

    def begin(self) -> None:
        self._acting.begin()
        self._training.begin()

    def receive(self, timeout: float) -> Iterator[EpisodeEnd]:
        return self._acting.supervisor.receive(timeout)

    def watch(self, now: float) -> None:
        self._acting.supervisor.watch(now, self.trainer.first_update is not None)
        if self.predictions:
            self.trainer.first_step = self.trainer.first_step or now

    def counts(self) -> dict[str, float]:
        """The scalars that are sums over all learners' agents."""
        slab = self._slab
        return {
            "speed/finished_unrolls": float(slab.state.sum()) * slab.group_size,
            "system/quarantined_unrolls": float(slab.quarantined.sum()),
        }

    def scalars(self) -> dict[str, float]:
        shares = self._stages.shares()
        idle = {"time/learner_idle": self._training.idle.share(shares)}
        return shares | self._training.scalars() | idle | self.counts()

    def finish(self, timeout: float) -> None:
        self._training.join(timeout)

    def stop(self, timeout: float) -> None:
        self._acting.stop()
        self._acting.join(timeout)
        self._training.join(timeout)
