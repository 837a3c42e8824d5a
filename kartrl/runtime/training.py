"""What trains: trainer threads, and the source of their batches, mixed with a replay where there is one."""

import threading
from collections.abc import Callable
from fractions import Fraction

import torch

from kartrl.config import Config
from kartrl.envs.spec import EnvSpec
from kartrl.replay import Mixture, make_mixture
from kartrl.runtime.batch_source import BatchSource
from kartrl.runtime.embedding import Embedding
from kartrl.runtime.replay_source import AlternatingSource, MixedSource
from kartrl.runtime.sizes import Sizes, replay_shape
from kartrl.runtime.trainer_thread import Trainer, TrainerThread


class Training:
    """The trainer threads of a run.

    Args:
        config: the configuration.
        spec: of the environment.
        sizes: how many there are, and of how many unrolls their batches.
        trainer: of the network that learns.
        source: of fresh batches.
        resumed: whether the run goes on from a checkpoint.
        stop: ends the run.
        say: tells the user.

    Attributes:
        generator: what the replay draws from.
        threads: the threads.
    """

    def __init__(
        self,
        config: Config,
        spec: EnvSpec,
        sizes: Sizes,
        trainer: Trainer,
        source: BatchSource,
        resumed: bool,
        stop: threading.Event,
        say: Callable[[str], None],
    ) -> None:
        self._config, self._spec, self._sizes, self._resumed = config, spec, sizes, resumed
        self._stop, self._say, self._trainer = stop, say, trainer
        self._replay: Mixture | None = None
        self.generator = torch.Generator().manual_seed(config.run.seed + trainer.counters.updates)
        self._source = self._with_replay(source)
        sourcing = threading.Lock()
        self.threads = [
            TrainerThread(f"trainer-{index}", self._source, trainer, sourcing) for index in range(sizes.trainers)
        ]

    def _with_replay(self, source: BatchSource) -> BatchSource:
        """The source, mixed with replays where the configuration names any."""
        config, generator, stop = self._config, self.generator, self._stop
        shape, section, drawn = replay_shape(config, self._spec, self._sizes), config.replay, config.replays
        if shape is None:
            return source
        trainer = self._trainer
        embed = Embedding(trainer.learner.network, trainer.weights)
        self._replay = make_mixture(section, drawn, shape, generator, lambda: trainer.progress, embed)
        at_most = " at most" if shape.compression != "none" else ""
        self._say(f"What is kept for replay will take {shape.size() / 1e6:,.0f} MB of memory{at_most} when it is full")
        if self._resumed:
            self._say(
                "What the replay held is not in a checkpoint: it begins empty, and nothing is replayed for "
                f"{section.start:,} steps"
            )
        if config.algorithm.name == "acer":
            ratio = config.acer.replay_ratio
            return AlternatingSource(source, self._replay, section.start, stop, ratio, generator)
        queue = Fraction(1) - sum(each.share for each in drawn)
        return MixedSource(source, self._replay, section.start, stop, queue)

    def begin(self) -> None:
        """Start the threads."""
        for thread in self.threads:
            thread.start()

    def join(self, timeout: float) -> None:
        """Wait for their end, at most so many seconds for each."""
        for thread in self.threads:
            if thread.ident is not None:
                thread.join(timeout)

    def scalars(self) -> dict[str, float]:
        """For the logger."""
        replay = self._replay.scalars() if self._replay is not None else {}
        return replay | {"system/dropped_unrolls": float(self._source.dropped)}
