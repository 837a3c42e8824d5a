#!/usr/bin/env bash
# Gymnasium 1.4.0 (numpy 2.4.6).
#
# Behaviour: `spaces.Dict({"speed": ..., "camera": ...})` sorts its keys, `spaces.Dict(speed=..., camera=...)` and an
# OrderedDict keep their order. The two spaces are EQUAL (`==` is True), but `flatten`, FlattenObservation, the seeds of
# the parts and everything else that goes through the keys follow the order: one observation, two vectors.
# Guess: equal spaces are interchangeable; the order is that of the definition for all, or that of the alphabet for all.
# Harm: a rewritten environment (keywords in place of braces), or a second implementation of it for evaluation, passes
# the check that trained policies make, "its observation space equals the one in the checkpoint", and hands the network
# its inputs in another order: same shape, no error, a policy that acts at random.
# Remedy: compare `list(space.keys())` too, or the flattened sample of one observation; store the order with the policy.
#
# Seen (speed in {0, 1} is 1, camera in {0, 1, 2} is 2):
#   {"speed": ..., "camera": ...}  keys camera, speed  flattened [0, 0, 1, 0, 1]
#   speed=..., camera=...          keys speed, camera  flattened [0, 1, 0, 0, 1]
#   equal: True; samples with one seed equal: False
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check gymnasium==1.4.0 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" - <<'EOF'
import sys

from gymnasium.spaces import Box, Dict, Discrete, flatten

braces, keywords = Dict({"speed": Discrete(2), "camera": Discrete(3)}), Dict(speed=Discrete(2), camera=Discrete(3))
observation = {"speed": 1, "camera": 2}
vectors = {}
for name, space in {'{"speed": ..., "camera": ...}': braces, "speed=..., camera=...": keywords}.items():
    vectors[name] = flatten(space, observation).tolist()
    print(f"{name:31}keys {', '.join(space.keys())}  flattened {vectors[name]}")


def samples(make):
    space = make()
    space.seed(0)
    return [float(space.sample()["speed"][0]) for _ in range(3)]


def part():
    return Box(0.0, 1.0, (1,))


same = samples(lambda: Dict({"speed": part(), "camera": part()})) == samples(lambda: Dict(speed=part(), camera=part()))
print(f"equal: {braces == keywords}; samples with one seed equal: {same}")
if braces != keywords:
    sys.exit("CHANGED: the two spaces are no longer equal")
if list(vectors.values()) != [[0, 0, 1, 0, 1], [0, 1, 0, 0, 1]]:
    sys.exit("CHANGED: the two spaces flatten in another way")
EOF
