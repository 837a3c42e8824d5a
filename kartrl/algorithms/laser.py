"""LASER (Schmitt et al. 2020, arXiv:1909.11583): mask steps whose acting policy differs too much."""

from collections.abc import Mapping

import torch
from torch import Tensor

from kartrl.config.replay import Laser as Section
from kartrl.models import ActorCritic, Distribution, run
from kartrl.models.average import AverageNetwork
from kartrl.trajectory import Trajectory


class Relevance:
    """Trusts a step if KL(pi || mu) is below the threshold, where mu is the policy that acted.

    `form = seed`: pi is the learner's policy; V-trace's traces, the advantage and the value error are masked.
    `form = paper`: pi is a lagged policy, here an average of recent ones, and V-trace's temporal differences are masked
    too, so that nothing of a masked step enters any target.
    """

    def __init__(self, section: Section, distribution: Distribution) -> None:
        self.section, self._distribution = section, distribution
        self._average = AverageNetwork()
        self.whole = section.form == "paper"  # temporal differences are masked too

    def lagged_policy(self, network: ActorCritic, trajectory: Trajectory[Tensor]) -> dict[str, Tensor]:
        """For `Batch.targets`: "lagged_policy", float32 [T, B, P], if the form has one; without gradients."""
        if not self.whole:
            return {}
        return {"lagged_policy": run(self._average.of(network), trajectory).policy[:-1]}

    @torch.no_grad()
    def trusted(self, policy: Tensor, behaviour: Tensor, targets: Mapping[str, Tensor]) -> Tensor:
        """1 where a step is trusted, else 0, float [T, B].

        Args:
            policy: parameters of the learner's policy, float [T, B, P].
            behaviour: parameters of the policy that acted, float [T, B, P].
            targets: includes the result of `lagged_policy`.
        """
        divergence = self._distribution.kl(targets.get("lagged_policy", policy), behaviour)
        return (divergence < self.section.threshold).to(behaviour.dtype)

    def follow(self, network: ActorCritic) -> None:
        """Update the lagged policy; call this after each optimizer step."""
        self._average.follow(network, self.section.target_decay)

    def state_dict(self) -> dict[str, Tensor]:
        """The state of the lagged network; empty if there is none."""
        return self._average.state_dict()

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore a `state_dict`; without a lagged network, that of the other form is dropped."""
        if self.whole:
            self._average.load_state_dict(state)
