#!/usr/bin/env bash
# Ray 2.60.0 (numpy 2.4.6).
#
# Behaviour: of several results that are ready, `ray.wait(references, num_returns=1)` returns neither the first in the
# list nor the one that was ready first. The choice depends on the references themselves, and a new call of an actor
# that was chosen is mostly chosen again: of four actors with results waiting, one delivers up to 79 of 80, whether its
# new reference takes the old one's place in the list, or goes to the end.
# Guess: the ready one that comes first in the list, as the documentation keeps the list's order, so that appending new
# references to the end serves all actors in turn.
# Harm: it is the loop of asynchronous actor-learners: wait for one rollout, learn, call that actor again. Wherever the
# learner is the slower part, one actor's environments make the training data, the others' rollouts grow old in the
# object store (and are dropped, or are corrected as hopelessly off-policy), and 64 actors train like one. With a slow
# actor or a fast learner all is well, so small tests show nothing.
# Remedy: `ray.wait(references, num_returns=len(references), timeout=0)` after the first is ready, and of those the one
# that was called first.
#
# Seen (80 picks among four actors, all of which have a result ready at each; the counts differ from run to run):
#   new reference in its place:              actors served [2, 3, 0, 75]
#   new reference at the end:                actors served [79, 1, 0, 0]
#   at the end, first of all that are ready: actors served [20, 20, 20, 20]
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check ray==2.60.0 numpy==2.4.6
cd "$work"
HOME=$work RAY_USAGE_STATS_ENABLED=0 "$work/venv/bin/python" -W ignore - <<'EOF'
import os
import sys

import ray

ACTORS, PICKS = 4, 80

ray.init(num_cpus=ACTORS, include_dashboard=False, log_to_driver=False, logging_level="ERROR", _temp_dir=os.getcwd())


@ray.remote
class Actor:
    def __init__(self, number):
        self.number = number

    def rollout(self):
        return self.number


actors = [Actor.remote(number) for number in range(ACTORS)]


def serve(text, place, choose):
    """How often each actor's result was taken."""
    references, served = [actor.rollout.remote() for actor in actors], [0] * ACTORS
    for _ in range(PICKS):
        ray.wait(references, num_returns=ACTORS)  # all have one ready
        chosen = choose(references)
        number, index = ray.get(chosen), references.index(chosen)
        served[number] += 1
        references.remove(chosen)
        references.insert(place(index), actors[number].rollout.remote())
    print(f"{text:41}actors served {served}", flush=True)
    return served


def one(references):
    return ray.wait(references, num_returns=1)[0][0]


def first_of_all(references):
    ready = set(ray.wait(references, num_returns=len(references), timeout=0)[0])
    return next(reference for reference in references if reference in ready)


in_place = serve("new reference in its place:", lambda index: index, one)
at_end = serve("new reference at the end:", lambda index: ACTORS, one)
fair = serve("at the end, first of all that are ready:", lambda index: ACTORS, first_of_all)
ray.shutdown()
if max(at_end) < PICKS / 2 and max(in_place) < PICKS / 2:
    sys.exit("CHANGED: ray.wait for one result no longer prefers one actor")
if fair != [PICKS // ACTORS] * ACTORS:
    sys.exit("CHANGED: taking the first of all ready results no longer serves all actors in turn")
EOF
