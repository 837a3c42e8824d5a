"""The training part of a crew: trainer threads and the source of their batches, mixed with replays if there are any."""

import threading
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import torch

from kartrl.acting.published_weights import PublishedWeights
from kartrl.acting.sizes import Sizes
from kartrl.config import Config
from kartrl.envs.spec import EnvSpec
from kartrl.hardware.streams import RoleStream
from kartrl.models import ActorCritic, for_inference
from kartrl.replay import Mixture, make_mixture
from kartrl.replay.replay_folder import most_on_disk
from kartrl.sizing.memory import replay_shape
from kartrl.training.meter import LearnerIdle
from kartrl.training.replay_source import AlternatingSource, MixedSource
from kartrl.training.sources import BatchSource
from kartrl.training.trainer import Trainer, TrainerThread

PART = 256  # observations that go through the network at once, for their features


class Embedding:
    """The policy encoder's features of observations, from a copy of the network that tracks the published weights.

    One thread at a time may call it.
    """

    def __init__(self, network: ActorCritic, weights: PublishedWeights) -> None:
        self._network, self._weights = for_inference(network), weights
        self._device = next(iter(network.parameters())).device
        self._version, self._stream = -1, RoleStream(self._device)

    @torch.no_grad()
    def __call__(self, observation: np.ndarray) -> np.ndarray:
        """Observations [N, ...] -> float32 [N, F]."""
        network, parts = self._network, torch.from_numpy(np.ascontiguousarray(observation)).split(PART)
        with self._stream.current():
            self._version = self._weights.fetch(network, self._version, self._stream)
            return np.concatenate([network.features(part.to(self._device)).float().cpu().numpy() for part in parts])


class Training:
    """The trainer threads of a run.

    Attributes:
        generator: the replays' random generator.
        replay: the replays; None if there are none.
        threads: the threads.
        idle: how much of the time none of them updates.
    """

    def __init__(
        self,
        config: Config,
        spec: EnvSpec,
        sizes: Sizes,
        trainer: Trainer,
        source: BatchSource,
        stop: threading.Event,
        say: Callable[[str], None],
    ) -> None:
        self._config, self._spec, self._sizes = config, spec, sizes
        self._stop, self._say, self._trainer = stop, say, trainer
        self.replay: Mixture | None = None
        self.generator = torch.Generator().manual_seed(config.run.seed + trainer.counters.updates)
        self._source = self._with_replay(source)
        sourcing = threading.Lock()
        self.threads = [
            TrainerThread(f"trainer-{index}", self._source, trainer, sourcing) for index in range(sizes.trainers)
        ]
        self.idle = LearnerIdle(sizes.trainers)

    def _with_replay(self, source: BatchSource) -> BatchSource:
        """The source, mixed with replays if the configuration names any."""
        config, generator, stop = self._config, self.generator, self._stop
        section, drawn = config.replay, config.replays
        shape = replay_shape(config, self._spec, self._sizes, started=True)
        if shape is None:
            return source
        trainer = self._trainer
        embed = Embedding(trainer.learner.network, trainer.weights)
        self.replay = make_mixture(section, drawn, shape, generator, lambda: trainer.progress, embed)
        at_most = " at most" if shape.compression != "none" else ""
        disk = f", and up to {most_on_disk(shape) / 1e6:,.0f} MB of disk" if section.save else ""
        self._say(f"The replays will take {shape.size() / 1e6:,.0f} MB of memory{at_most}{disk} when full")
        if config.own.alternates:
            return AlternatingSource(source, self.replay, section.start, stop, config.own.replayed_updates, generator)
        queue = Fraction(1) - sum(each.share for each in drawn)
        return MixedSource(source, self.replay, section.start, stop, queue)

    def begin(self) -> None:
        """Start the threads."""
        for thread in self.threads:
            thread.start()

    def join(self, timeout: float) -> None:
        """Wait at most `timeout` seconds for each thread to end."""
        for thread in self.threads:
            if thread.ident is not None:
                thread.join(timeout)

    def scalars(self) -> dict[str, float]:
        """Scalars for the logger."""
        replay = self.replay.scalars() if self.replay is not None else {}
        return replay | {"system/dropped_unrolls": float(self._source.dropped)}
