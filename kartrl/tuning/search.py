"""How a study chooses values, and which trials it ends early."""

import optuna
from optuna.pruners import BasePruner, HyperbandPruner, NopPruner, SuccessiveHalvingPruner
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from kartrl.tuning.plan import PARTS, Plan

STARTUP = 5  # random trials before those that TPE chooses, and complete ones before any is pruned
REDUCTION = 3  # of successive halving: one in this many trials continues


class PresentMedian(BasePruner):
    """Prunes a trial whose value at this step is worse than the median of the complete trials at the same step.

    Optuna's own median pruner takes a trial's best value so far, and so never ends one that has collapsed.
    """

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        """Whether to end the trial, after its newest report."""
        step = trial.last_step
        others = study.get_trials(deepcopy=False, states=[TrialState.COMPLETE])
        values = sorted(other.intermediate_values[step] for other in others if step in other.intermediate_values)
        if step is None or step <= PARTS // 5 or len(values) < STARTUP:
            return False
        median = (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2
        own = trial.intermediate_values[step]
        return own > median if study.direction == StudyDirection.MINIMIZE else own < median


def make_pruner(plan: Plan) -> BasePruner:
    """The pruner that the plan names."""
    match plan.pruner:
        case "median":
            return PresentMedian()
        case "halving":
            return SuccessiveHalvingPruner(min_resource=1, reduction_factor=REDUCTION)
        case "hyperband":
            return HyperbandPruner(min_resource=1, max_resource=PARTS * plan.seeds, reduction_factor=REDUCTION)
    return NopPruner()


def make_sampler(plan: Plan, count: int) -> optuna.samplers.BaseSampler:
    """The sampler that the plan names, for the next trial of a study with so many.

    It is seeded by that number: a study that continues in another process would else begin with the same values again.
    """
    seed = (plan.config.run.seed + count) % 2**32
    if plan.sampler == "random":
        return optuna.samplers.RandomSampler(seed=seed)
    return optuna.samplers.TPESampler(n_startup_trials=STARTUP, constant_liar=True, seed=seed)
