"""A3C (Mnih et al. 2016, arXiv:1602.01783) as GA3C runs it (Babaeizadeh et al. 2017, arXiv:1611.06256).

One network acts and learns, in asynchronous batches, without a correction for the policy lag.
"""

from typing import ClassVar

import torch
from torch import Tensor

from kartrl.algorithms.a2c import AdvantageActorCritic
from kartrl.algorithms.algorithm import Batch, Loss
from kartrl.config.algorithms import A3C as Section
from kartrl.models import ActorCritic, Output
from kartrl.trajectory import Trajectory, split_decision


class A3C(AdvantageActorCritic[Section]):
    """A2C's loss, without waiting. The paper sums over an unroll; with the mean, learning rates do not depend on T.

    Advantages and value targets use the values predicted while acting, as a worker of the paper does and as GA3C's
    returns bootstrap; only V(x_T) is the learner's, because no action has been taken there yet. GA3C's baseline is the
    learner's newer value: the same without lag, and an uncorrected gradient tolerates little lag anyway. It is the one
    here with normalised returns: values predicted with older statistics are in another unit than today's rewards.
    """

    synchronous: ClassVar[bool] = False

    def _values(self, network: ActorCritic, trajectory: Trajectory[Tensor]) -> tuple[Tensor, Tensor]:
        """See `AdvantageActorCritic`; with normalised returns, all are the learner's."""
        if not network.normalises_returns:
            return super()._values(network, trajectory)
        value = network(trajectory.observation, trajectory.first, trajectory.initial_state)[0].value
        return value[:-1], value[-1]

    def loss(self, output: Output, batch: Batch) -> Loss:
        """See `AdvantageActorCritic`; also logs the uncorrected difference from the policy that acted."""
        loss, columns = super().loss(output, batch), self.distribution.action_columns
        behaviour = split_decision(batch.trajectory.decision, columns)
        with torch.no_grad():
            policy = output.policy[:-1]
            log_prob = self.distribution.log_prob(policy, behaviour.action)
            divergence = self.distribution.kl(behaviour.parameters, policy)
        loss.terms["behaviour_kl"] = (loss.valid / batch.steps * divergence).sum()  # KL(mu || pi): 0 on-policy
        loss.steps["importance_weight"] = (log_prob - behaviour.log_prob).exp()
        return loss
