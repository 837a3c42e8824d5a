"""LASER (Schmitt et al. 2020, arXiv:1909.11583): steps that were acted by too different a policy teach nothing."""

from collections.abc import Mapping

import torch
from torch import Tensor

from kartrl.config.replay import Laser as Section
from kartrl.models import Distribution, Network
from kartrl.models.average import AverageNetwork
from kartrl.trajectory import Trajectory


class Relevance:
    """A step is trusted where KL(pi || mu) is less than the threshold, of the policy mu that acted.

    The seed's form: pi is the policy that learns; the mask is on V-trace's traces, on the advantage and on the value
    error. The paper's: pi is a lagged policy, here an average of the newest ones, and the mask is on V-trace's temporal
    differences too, so that nothing of a step that is not trusted gets into any target.
    """

    def __init__(self, section: Section, distribution: Distribution) -> None:
        self._section, self._distribution = section, distribution
        self._average = AverageNetwork()
        self.whole = section.form == "paper"  # temporal differences are masked too

    def lagged_policy(self, network: Network, trajectory: Trajectory[Tensor]) -> dict[str, Tensor]:
        """For `Batch.targets`: "lagged_policy", float32 [T, B, P], where the form has one; without gradients."""
        if not self.whole:
            return {}
        average = self._average.of(network)
        output, _ = average(trajectory.observation, trajectory.first, trajectory.initial_state)
        return {"lagged_policy": output.policy[:-1]}

    @torch.no_grad()
    def trusted(self, policy: Tensor, behaviour: Tensor, targets: Mapping[str, Tensor]) -> Tensor:
        """1 where a step is trusted, else 0, float [T, B].

        Args:
            policy: parameters of the policy that learns, float [T, B, P].
            behaviour: of the policy that acted, likewise.
            targets: with what `lagged_policy` gave.
        """
        divergence = self._distribution.kl(targets.get("lagged_policy", policy), behaviour)
        return (divergence < self._section.threshold).to(behaviour.dtype)

    def follow(self, network: Network) -> None:
        """Call it after each optimizer step: the lagged policy follows."""
        self._average.follow(network, self._section.target_decay)

    def state_dict(self) -> dict[str, Tensor]:
        """That of the lagged network; empty where there is none."""
        return self._average.state_dict()

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from what `state_dict` gave."""
        self._average.load_state_dict(state)
