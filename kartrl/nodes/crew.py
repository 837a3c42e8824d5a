"""The crew of a run whose agents run elsewhere: nodes act, trainers in this process learn."""

import queue
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

import torch

from kartrl.acting.messages import EpisodeEnd
from kartrl.acting.sizes import Sizes
from kartrl.acting.supervisor import first_seed
from kartrl.config import Config
from kartrl.config.chosen import is_auto, unchosen
from kartrl.envs.spec import EnvSpec
from kartrl.metrics.stopwatch import TRAINER_STAGES
from kartrl.nodes.delivery import Delivery
from kartrl.nodes.fleet import Fleet
from kartrl.nodes.members import Member
from kartrl.nodes.source import NodeSource
from kartrl.sizing.auto import updates_per_batch
from kartrl.training.crew import Crew
from kartrl.training.meter import StageShares
from kartrl.training.trainer import Trainer
from kartrl.training.trainers import Training


def for_nodes(config: Config) -> Config:
    """The nodes' configuration: each chooses for its own machine, but its unrolls are as long as the learner's."""
    return unchosen(config, ("algorithm.unroll_length", "model.precision"))


class Nodes(Crew):
    """Nodes act, trainers in this process learn."""

    def __init__(
        self, config: Config, sizes: Sizes, spec: EnvSpec, trainer: Trainer, say: Callable[[str], None]
    ) -> None:
        self._config, self._sizes, self._spec, self._say = config, sizes, spec, say
        self.trainer = trainer
        self._stop = threading.Event()
        self._received: queue.SimpleQueue[EpisodeEnd | str] = queue.SimpleQueue()
        self._batch = sizes.training_blocks * sizes.group_size
        seed = first_seed(config.run.seed, trainer.counters.updates)
        self.supervisor = self._fleet = Fleet(for_nodes(config), spec, trainer.weights, self._batch, seed, say)
        max_lag = None if is_auto(config.system.max_policy_lag) else int(config.system.max_policy_lag)
        updates = updates_per_batch(config)
        source = NodeSource(self._fleet, self._batch, updates, trainer.weights, max_lag, self._stop, self._take_in)
        self._training = Training(config, spec, sizes, trainer, source, self._stop, say)
        self.replay = self._training.replay
        self._stages = StageShares(
            lambda: [("trainer", TRAINER_STAGES, [thread.stopwatch.seconds for thread in self._training.threads])]
        )
        self._reported = time.monotonic()
        self._unrolls: Counter[int] = Counter()  # of each node, at that time

    @property
    def waiting(self) -> bool:  # type: ignore[override]
        return not self._fleet.acting

    @property
    def predictions(self) -> int:
        return self._fleet.total("predictions")

    @property
    def batches(self) -> int:
        return self._fleet.total("batches")

    @property
    def generators(self) -> dict[str, torch.Generator]:
        """See `Crew`: predictors, which come and go with their nodes, begin with new seeds."""
        return {"replay": self._training.generator}

    def start(self) -> None:
        steps = self._batch * (self._sizes.unroll_length + 1)
        self._fleet.start(steps * self._spec.observation.nbytes)

    def begin(self) -> None:
        self._training.begin()

    def _take_in(self, member: Member, delivery: Delivery) -> None:
        """Queue the messages and episodes of a delivery; called in a trainer's thread."""
        for message in delivery.messages:
            self._received.put(f"{member.name}: {message}")
        for end in delivery.episodes:
            self._received.put(end)

    def receive(self, timeout: float) -> Iterator[EpisodeEnd]:
        try:
            received = self._received.get(timeout=timeout) if timeout > 0 else self._received.get_nowait()
            while True:
                if isinstance(received, EpisodeEnd):
                    yield received
                else:
                    self._say(received)
                received = self._received.get_nowait()
        except queue.Empty:
            return

    def watch(self, now: float) -> None:
        self._fleet.watch(now)
        if self.predictions:
            self.trainer.first_step = self.trainer.first_step or now

    def scalars(self) -> dict[str, float]:
        shares, now = self._stages.shares(), time.monotonic()
        seconds, self._reported = now - self._reported, now
        values = (
            shares
            | self._training.scalars()
            | {
                "time/learner_idle": self._training.idle.share(shares),
                "speed/nodes": float(len(self._fleet.acting)),
                "system/quarantined_unrolls": float(self._fleet.total("quarantined")),
            }
        )
        parts = list[dict[str, float]]()
        for member in self._fleet.members:
            unrolls = member.unrolls - self._unrolls[member.number]
            self._unrolls[member.number] = member.unrolls
            speed = max(0, unrolls) * self._sizes.unroll_length / seconds
            values |= {
                f"node_{member.number}/agent_steps_per_second": speed,
                f"node_{member.number}/policy_lag": member.lag,
                f"node_{member.number}/restarts": float(member.restarts.total),
                f"node_{member.number}/agents": float(member.state.agents),
            }
            parts.append(member.stages.shares())
            values |= {f"node_{member.number}/{tag}": share for tag, share in parts[-1].items()}
        acting = [part for part in parts if any(part.values())]
        values |= {tag: statistics.fmean(part[tag] for part in acting) for tag in acting[0]} if acting else {}
        return values

    def finish(self, timeout: float) -> None:
        self._training.join(timeout)

    def stop(self, timeout: float) -> None:
        self._stop.set()
        self._fleet.end(timeout)
        self._training.join(timeout)
        self._fleet.close()
