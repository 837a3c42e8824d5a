#!/usr/bin/env bash
# Optuna 5.0.0 (numpy 2.4.6).
#
# Behaviour: a study continued from its storage with `load_if_exists=True` and the same seeded sampler draws the SAME
# points again: the storage keeps the trials, not the sampler's random numbers. During TPE's ten start-up trials each
# restart repeats them exactly; so do two workers with one seed. And the `direction` given on continuing is not compared
# with the study's own, but ignored.
# Guess: a sampler that is handed a study with trials goes on from there, at least never proposes an evaluated point; a
# different direction is an error.
# Harm: a search over RL hyper-parameters, where a trial takes hours and machines come and go, spends its first trials
# on copies: two starts of five trials are five points, each evaluated twice, after which TPE takes its ten start-up
# trials for done. Fixing the seed is what makes a search reproducible, so that is the usual case. With a changed
# direction it goes on looking for the worst.
# Remedy: seed the sampler with `seed + len(study.trials)` (and the worker's number); compare `study.direction`.
#
# Seen:
#   three starts of 5 trials: 10 different points of 15; the first 5 and the second 5 equal: True
#   seeds 1 + number of trials: 15 different points of 15
#   a study of direction minimize, loaded as maximize: minimize
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check optuna==5.0.0 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" - <<'EOF'
import sys

import optuna

optuna.logging.set_verbosity(optuna.logging.ERROR)
STARTS, TRIALS = 3, 5


def load(name, seed, direction="minimize"):
    sampler = optuna.samplers.TPESampler(seed=seed)
    return optuna.create_study(
        study_name=name, storage="sqlite:///studies.db", sampler=sampler, direction=direction, load_if_exists=True
    )


def search(name, seed):
    """The points of several starts of one study, each with the seed for the trials that it finds."""
    for start in range(STARTS):
        study = load(name, seed(start * TRIALS))
        study.optimize(lambda trial: (trial.suggest_float("x", 0.0, 1.0) - 0.3) ** 2, n_trials=TRIALS)
    return [trial.params["x"] for trial in study.trials]


same, moved = search("same", lambda trials: 1), search("moved", lambda trials: 1 + trials)
repeated = same[:TRIALS] == same[TRIALS : 2 * TRIALS]
print(
    f"three starts of {TRIALS} trials: {len(set(same))} different points of {len(same)};"
    f" the first {TRIALS} and the second {TRIALS} equal: {repeated}"
)
print(f"seeds 1 + number of trials: {len(set(moved))} different points of {len(moved)}")
direction = load("same", 1, direction="maximize").direction.name.lower()
print(f"a study of direction minimize, loaded as maximize: {direction}")
if not repeated:
    sys.exit("CHANGED: a continued study no longer repeats its first points")
if len(set(moved)) != len(moved):
    sys.exit("CHANGED: other seeds repeat points too")
if direction != "minimize":
    sys.exit("CHANGED: the direction on loading counts")
EOF
