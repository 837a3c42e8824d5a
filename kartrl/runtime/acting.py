"""What acts: agents, predictors that choose for them, a slab between them."""

import threading
from collections.abc import Callable
from typing import Any

import torch

from kartrl.config import Config
from kartrl.envs.spec import EnvSpec
from kartrl.errors import RunFailed
from kartrl.models import Network, make_distribution
from kartrl.runtime.agent_supervisor import Agents
from kartrl.runtime.predictor_thread import Pacing, PredictorThread, group_states, make_policy
from kartrl.runtime.published_weights import PublishedWeights
from kartrl.runtime.sizes import Sizes, slab_shape
from kartrl.runtime.slab import Slab

SETTLE_SECONDS = 5.0  # that a forward pass may take


class Acting:
    """The agents of one machine, and what they need to act.

    Args:
        config: the configuration.
        sizes: of the processes, batches and queues.
        spec: of the environment.
        context: of multiprocessing.
        seed: of the first agent's first environment.
        say: tells the user.

    Attributes:
        slab: holds what they do.
        stop_event: set by `stop`.
        predictors: made by `make_predictors`.
    """

    def __init__(
        self, config: Config, sizes: Sizes, spec: EnvSpec, context: Any, seed: int, say: Callable[[str], None]
    ) -> None:
        self._sizes, self._spec = sizes, spec
        self.slab = Slab(context, slab_shape(config, spec, sizes))
        self.stop_event = threading.Event()
        self.supervisor = Agents(config, spec.action, self.slab, sizes.min_agents, seed, self._settle, say)
        self.predictors: list[PredictorThread] = []

    @property
    def predictions(self) -> int:
        """Observations for which actions were chosen."""
        return sum(predictor.predictions for predictor in self.predictors)

    @property
    def batches(self) -> int:
        """Forward passes in which they were."""
        return sum(predictor.batches for predictor in self.predictors)

    @property
    def generators(self) -> dict[str, torch.Generator]:
        """What the predictors draw from, by name."""
        return {predictor.name: predictor.policy.generator for predictor in self.predictors}

    def make_predictors(
        self,
        network: Network,
        weights: PublishedWeights,
        pacing: Pacing,
        seed: int,
        device: torch.device | None = None,
    ) -> None:
        """Make the threads that `begin` starts, while the agents come up.

        Args:
            network: that each has a copy of.
            weights: of it, published by who learns.
            pacing: chooses batches.
            seed: of what the first one draws.
            device: where they run, if not where `network` does.
        """
        slab, distribution = self.slab, make_distribution(self._spec.action)
        states = group_states(slab, network)
        states = states if device is None else states.to(device)
        for index in range(self._sizes.predictors):
            policy = make_policy(network, distribution, states, seed + index, slab, self._sizes.prediction_groups)
            name = f"predictor-{index}"
            self.predictors.append(PredictorThread(name, slab, policy, weights, pacing, self.stop_event))

    def begin(self) -> None:
        """Start the predictors."""
        for predictor in self.predictors:
            predictor.start()

    def stop(self) -> None:
        """Have all of them end."""
        self.stop_event.set()
        self.slab.stop()

    def join(self, timeout: float) -> None:
        """Wait for the end of the predictors, at most so many seconds for each."""
        for predictor in self.predictors:
            if predictor.ident is not None:
                predictor.join(timeout)

    def _settle(self) -> None:
        """Wait until no predictor works any more on what it has gathered before now."""
        for predictor in self.predictors:
            if not predictor.predicting.acquire(timeout=SETTLE_SECONDS):
                raise RunFailed(f"{predictor.name} does not finish a forward pass")
            predictor.predicting.release()
