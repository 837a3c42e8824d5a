"""The acting part of a crew: agents, predictors that choose their actions, and their slab."""

import threading
from collections.abc import Callable
from typing import Any

import torch

from kartrl.acting.own_predictor import OwnNetwork
from kartrl.acting.predictor import Pacing, PredictorThread, group_states, make_policy
from kartrl.acting.published_weights import PublishedWeights
from kartrl.acting.sizes import Sizes, slab_shape
from kartrl.acting.slab import Slab
from kartrl.acting.supervisor import Agents
from kartrl.config import Config
from kartrl.envs.spec import EnvSpec
from kartrl.errors import RunFailed
from kartrl.models import ActorCritic, make_distribution


class Acting:
    """The agents of one machine, and what they need to act.

    Attributes:
        slab: their shared memory.
        stop_event: set by `stop`.
        predictors: made by `make_predictors`.
    """

    def __init__(
        self,
        config: Config,
        sizes: Sizes,
        spec: EnvSpec,
        context: Any,
        seed: int,
        say: Callable[[str], None],
        own: OwnNetwork | None = None,
    ) -> None:
        self._sizes, self._spec = sizes, spec
        self.slab = Slab(context, slab_shape(config, spec, sizes))
        self.stop_event = threading.Event()
        self._patience = config.system.step_timeout
        self.supervisor = Agents(config, spec, self.slab, sizes.min_agents, seed, self._settle, say, own)
        self.predictors: list[PredictorThread] = []

    @property
    def predictions(self) -> int:
        """Number of observations for which actions were chosen."""
        return int(self.slab.answered.sum()) * self.slab.group_size

    @property
    def batches(self) -> int:
        """Number of forward passes that chose them."""
        return int(self.slab.passes.sum()) + sum(predictor.batches for predictor in self.predictors)

    @property
    def generators(self) -> dict[str, torch.Generator]:
        """The predictors' random generators, by name."""
        return {predictor.name: predictor.policy.generator for predictor in self.predictors}

    def make_predictors(
        self,
        network: ActorCritic,
        weights: PublishedWeights,
        pacing: Pacing,
        seed: int,
        device: torch.device | None = None,
    ) -> None:
        """Create the threads that `begin` starts, while the agents load.

        Args:
            device: where they run; None: the device of `network`.
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
        """Tell agents and predictors to end."""
        self.stop_event.set()
        self.slab.stop()

    def join(self, timeout: float) -> None:
        """Wait at most `timeout` seconds for each predictor to end."""
        for predictor in self.predictors:
            if predictor.ident is not None:
                predictor.join(timeout)

    def _settle(self) -> None:
        """Wait until no predictor is processing requests gathered before this call."""
        for predictor in self.predictors:
            if not predictor.predicting.acquire(timeout=self._patience):
                raise RunFailed(f"{predictor.name} does not finish a forward pass within system.step_timeout")
            predictor.predicting.release()
