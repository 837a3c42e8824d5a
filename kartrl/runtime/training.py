"""What trains: trainer threads, and the source of their batches, mixed with a replay where there is one."""

import threading
from collections.abc import Callable

import torch

from kartrl.config import Config
from kartrl.envs.spec import EnvSpec
from kartrl.replay import Replay, UniformReplay, UnrollMemory
from kartrl.runtime.batch_source import BatchSource
from kartrl.runtime.replay_source import ReplaySource
from kartrl.runtime.sizes import replay_shape
from kartrl.runtime.trainer_thread import Trainer, TrainerThread


class Training:
    """The trainer threads of a run.

    Args:
        config: the configuration.
        spec: of the environment.
        threads: how many.
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
        threads: int,
        trainer: Trainer,
        source: BatchSource,
        resumed: bool,
        stop: threading.Event,
        say: Callable[[str], None],
    ) -> None:
        self._config, self._spec, self._resumed, self._stop, self._say = config, spec, resumed, stop, say
        self._replay: Replay | None = None
        self.generator = torch.Generator().manual_seed(config.run.seed + trainer.counters.updates)
        self._source = self._with_replay(source)
        sourcing = threading.Lock()
        self.threads = [TrainerThread(f"trainer-{index}", self._source, trainer, sourcing) for index in range(threads)]

    def _with_replay(self, source: BatchSource) -> BatchSource:
        """The source, mixed with a replay where the algorithm learns from one."""
        shape, section = replay_shape(self._config, self._spec), self._config.replaying
        if shape is None or section is None:
            return source
        self._replay = UniformReplay(UnrollMemory(shape), self.generator)
        size = f"{shape.size() / 1e6:,.0f} MB"
        self._say(f"The replay will take {size} of memory when it holds {shape.capacity:,} steps")
        if self._resumed:
            self._say(
                "What the replay held is not in a checkpoint: it begins empty, and nothing is replayed for "
                f"{section.replay_start:,} steps"
            )
        return ReplaySource(source, self._replay, section, self.generator, self._stop)

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
