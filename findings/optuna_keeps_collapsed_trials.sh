#!/usr/bin/env bash
# Optuna 5.0.0 (numpy 2.4.6).
#
# Behaviour: MedianPruner and PercentilePruner compare the BEST value that a trial has reported so far with the others'
# values, not its present one. A trial that was good once and then collapses, even to nan, is never pruned;
# HyperbandPruner and SuccessiveHalvingPruner look at the present value, but only at their rungs.
# Guess: at each step, the trial's value at that step against the median of the others' at that step.
# Harm: collapse after a good start is how reinforcement learning fails (a policy that lost its entropy, a diverged
# value function). Exactly these trials keep their machine to the end, while slow starters, which may yet learn, are
# pruned.
# Remedy: report the mean of the last k evaluations, and prune collapses oneself: nan, or far below the trial's own best
# (`optuna.TrialPruned`).
#
# Seen (five earlier trials reported 0 to 19; 20 steps, maximized; the first step at which it would be pruned):
#                                       30, then -100   30, then nan   -1 throughout
#   MedianPruner                        never           never          0
#   PercentilePruner(50.0)              never           never          0
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check optuna==5.0.0 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" -W ignore - <<'EOF'
import math
import sys

import optuna

optuna.logging.set_verbosity(optuna.logging.ERROR)
STEPS = 20


def pruned_at(pruner, values):
    """The first step at which a trial with these values would be pruned, after five healthy trials."""
    study = optuna.create_study(direction="maximize", pruner=pruner)
    for _ in range(5):
        trial = study.ask()
        for step in range(STEPS):
            trial.report(float(step), step)
        study.tell(trial, float(STEPS - 1))
    trial = study.ask()
    for step, value in enumerate(values):
        trial.report(value, step)
        if trial.should_prune():
            return step
    return "never"


CASES = {
    "30, then -100": [30.0] + [-100.0] * (STEPS - 1),
    "30, then nan": [30.0] + [math.nan] * (STEPS - 1),
    "-1 throughout": [-1.0] * STEPS,
}
print(f"{'':24}" + "".join(f"{name:16}" for name in CASES))
for pruner in (
    optuna.pruners.MedianPruner(n_startup_trials=1),
    optuna.pruners.PercentilePruner(50.0, n_startup_trials=1),
):
    steps = [pruned_at(pruner, values) for values in CASES.values()]
    print(f"{type(pruner).__name__:24}" + "".join(f"{step!s:16}" for step in steps))
    if steps != ["never", "never", 0]:
        sys.exit(f"CHANGED: {type(pruner).__name__} prunes a collapsed trial, or no longer one that was always bad")
EOF
