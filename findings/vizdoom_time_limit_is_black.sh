#!/usr/bin/env bash
# ViZDoom 1.3.2 (Gymnasium 1.4.0, numpy 2.4.6).
#
# Behaviour: an episode that ends by the time limit is reported as both terminated and truncated, and its last
# observation, like that of any end, is all zeros: a black screen, no health, no ammunition.
# Guess: by default (`treat_episode_timeout_as_truncation`) a time limit is truncated alone, with the screen at the end.
# Harm: whoever bootstraps unless terminated takes the limit for a failure, whatever the option says; whoever bootstraps
# if truncated takes the value of a black screen, which deaths show too.
# Remedy: a wrapper that returns the observation before the end, and terminated = terminated and not truncated.
#
# Seen, with and without the option:
#   option True:  terminated True, truncated True, largest number observed 0 (one step before: 255)
#   option False: terminated True, truncated False, largest number observed 0 (one step before: 255)
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check vizdoom==1.3.2 gymnasium==1.4.0 numpy==2.4.6
cd "$work"
PYGAME_HIDE_SUPPORT_PROMPT=1 "$work/venv/bin/python" -W ignore - <<'EOF'
import sys

import gymnasium
from vizdoom import gymnasium_wrapper  # noqa: F401  # registers its environments

changed = False
for option in (True, False):
    env = gymnasium.make("VizdoomBasic-v1", treat_episode_timeout_as_truncation=option)
    seen, _ = env.reset(seed=0)
    terminated = truncated = False
    while not (terminated or truncated):
        before = int(seen["screen"].max())
        seen, _, terminated, truncated, _ = env.step(0)  # no button: only the limit of 300 steps ends it
    last = float(max(part.max() for part in seen.values()))
    env.close()
    print(
        f"option {option}: terminated {terminated}, truncated {truncated}, largest number observed {last:g} "
        f"(one step before: {before})"
    )
    changed |= not (terminated and truncated == option and last == 0 and before > 0)
if changed:
    sys.exit("CHANGED: a time limit is reported otherwise, or its last observation is not zeros")
EOF
