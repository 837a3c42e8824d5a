#!/usr/bin/env bash
# Gymnasium 1.4.0, ale-py 0.12.1 (opencv-python-headless 5.0.0.93, numpy 2.4.6).
#
# Behaviour: Gymnasium has two greys. `GrayscaleObservation` weighs red, green and blue by 0.2125, 0.7154 and 0.0721 and
# cuts off the fraction; AtariPreprocessing takes ALE's grey, which is OpenCV's: 0.299, 0.587 and 0.114, rounded. On
# Atari's colours they are up to 15 of 255 apart, other pairs of colours become one grey, and some swap their order of
# brightness. Even pure greys are not all kept: 8 of the 256 come out one darker.
# Guess: grey is grey; two wrappers of one library, both for frames of games, agree up to rounding.
# Harm: a policy trained behind AtariPreprocessing and evaluated behind GrayscaleObservation and ResizeObservation (or
# the other way, or against EnvPool and ALE's vector, which use ALE's) sees other pictures, with no error and equal
# shapes; results of the two chains are not comparable; objects vanish before one background in one of them.
# Remedy: one chain for training and evaluation; `cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY)` where ALE's grey is wanted.
#
# Seen (colours of 150 steps of random actions; ALE's greys -> the wrapper's):
#   Seaquest: up to 15 apart; brightness swapped: 85, 90 -> 79, 78; (nearly) one grey: 85, 95 -> 79, 80
#   Qbert: up to 13 apart; brightness swapped: 60, 68 -> 58, 55; 101, 107 -> 109, 94; (nearly) one grey: 85, 85 -> 73, 84
#   MsPacman: up to 14 apart; brightness swapped: 131, 132 -> 128, 118; (nearly) one grey: 150, 151 -> 148, 160
#   pure greys that the wrapper changes: 8 of 256
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check \
    gymnasium==1.4.0 ale-py==0.12.1 opencv-python-headless==5.0.0.93 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" - <<'EOF'
import sys

import ale_py
import cv2
import gymnasium
import numpy as np

gymnasium.register_envs(ale_py)


class Picture(gymnasium.Env):
    """Shows one picture."""

    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, picture):
        self.picture = picture
        self.observation_space = gymnasium.spaces.Box(0, 255, picture.shape, np.uint8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.picture, {}


def wrapped(picture):
    return gymnasium.wrappers.GrayscaleObservation(Picture(picture)).reset()[0]


def show(one, other):
    return f"{one[0]}, {other[0]} -> {one[1]}, {other[1]}"


def greys(game):
    """ALE's grey and the wrapper's of each colour that random play shows."""
    env = gymnasium.make(f"ALE/{game}-v5")
    env.reset(seed=0)
    env.action_space.seed(0)
    pairs = set()
    for step in range(150):
        frame, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if step % 10 == 0:
            grey = env.unwrapped.ale.getScreenGrayscale()
            if not (grey == cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY)).all():
                sys.exit("CHANGED: ALE's grey is no longer OpenCV's")
            pairs |= set(zip(grey.ravel().tolist(), wrapped(frame).ravel().tolist(), strict=True))
        if terminated or truncated:
            env.reset()
    return sorted(pairs)


apart, swapped = 0, 0
for game in ("Seaquest", "Qbert", "MsPacman"):
    pairs = greys(game)
    two = [(p, q) for p in pairs for q in pairs if p < q]
    apart = max(apart, *(abs(ale - other) for ale, other in pairs))
    swaps = [show(p, q) for p, q in two if (q[0] - p[0]) * (q[1] - p[1]) < 0]
    swapped += len(swaps)
    lost = [show(p, q) for p, q in two if q[0] - p[0] >= 8 and abs(q[1] - p[1]) <= 1]
    found = [show(p, q) for p, q in two if q[0] - p[0] <= 1 and abs(q[1] - p[1]) >= 8]
    most = max(abs(ale - other) for ale, other in pairs)
    texts = "; ".join(swaps[:2]), "; ".join((lost + found)[:2])
    print(f"{game}: up to {most} apart; brightness swapped: {texts[0]}; (nearly) one grey: {texts[1]}")
ramp = np.repeat(np.arange(256, dtype=np.uint8)[None, :, None], 3, axis=2)
darker = int((wrapped(ramp)[0] != np.arange(256)).sum())
print(f"pure greys that the wrapper changes: {darker} of 256")
if apart < 10 or not swapped:
    sys.exit("CHANGED: GrayscaleObservation's grey is near ALE's")
if not darker:
    sys.exit("CHANGED: GrayscaleObservation keeps pure greys")
EOF
