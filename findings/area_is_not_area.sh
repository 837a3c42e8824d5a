#!/usr/bin/env bash
# PyTorch 2.13.0, OpenCV (opencv-python-headless) 5.0.0.93, ale-py 0.12.1 (numpy 2.4.6).
#
# Behaviour: `interpolate(mode="area")` is adaptive average pooling: each pixel of the result is the mean of whole pixels,
# and neighbours share those that a border cuts. OpenCV's INTER_AREA, which Atari's preprocessing uses, weighs the cut
# ones by their share. From 210 x 160 to 84 x 84, where nothing divides, a point of light has a constant total brightness
# in OpenCV's picture; in torch's it has one that depends on the row, one time in five twice the usual.
# Guess: "area" is the name of one method, and the two agree up to rounding, as they do where sizes divide.
# Harm: preprocessing that is moved to the GPU, or into an exported model, shows the policy other pictures: small fast
# objects (a ball) flicker, edges move by half a pixel. No error, equal shapes, nearly equal means.
# Remedy: resize by one library in training, evaluation and export; with torch, two small matrices of OpenCV's weights
# (rows @ image @ columns) are exact, and as fast.
#
# Seen:
#   a point of light, 210 rows to 84, total brightness by row: OpenCV 0.40 to 0.40, torch 0.33 to 0.67
#   Breakout, 84 x 84: 23.0 % of the pixels that are not black differ by more than 2 of 255, the most by 34
#   105 x 80, where the sizes divide: the most by 1
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check \
    torch==2.13.0 opencv-python-headless==5.0.0.93 gymnasium==1.4.0 ale-py==0.12.1 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" - <<'EOF'
import sys

import ale_py
import cv2
import gymnasium
import numpy as np
import torch
from torch.nn.functional import interpolate

gymnasium.register_envs(ale_py)


def by_opencv(image, height, width):
    return cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)


def by_torch(image, height, width):
    return interpolate(torch.from_numpy(image)[None, None].float(), (height, width), mode="area")[0, 0].numpy()


points = [np.zeros((210, 1), np.float32) for _ in range(210)]
for row, point in enumerate(points):
    point[row] = 1.0
totals = {name: [float(f(point, 84, 1).sum()) for point in points] for name, f in (("OpenCV", by_opencv), ("torch", by_torch))}
texts = (f"{name} {min(found):.2f} to {max(found):.2f}" for name, found in totals.items())
print(f"a point of light, 210 rows to 84, total brightness by row: {', '.join(texts)}")

env = gymnasium.make("ALE/Breakout-v5", obs_type="grayscale", repeat_action_probability=0.0)
env.reset(seed=0)
frame = env.step(1)[0]
apart = {}
for size in ((84, 84), (105, 80)):
    ours, theirs = by_opencv(frame, *size).astype(float), by_torch(frame, *size).round()
    apart[size] = np.abs(ours - theirs)
lit = by_opencv(frame, 84, 84) > 0
share, most = 100 * float((apart[84, 84][lit] > 2).mean()), apart[84, 84].max()
print(f"Breakout, 84 x 84: {share:.1f} % of the pixels that are not black differ by more than 2 of 255, the most by {most:g}")
print(f"105 x 80, where the sizes divide: the most by {apart[105, 80].max():g}")
if max(totals["torch"]) - min(totals["torch"]) < 0.1 or most < 10:
    sys.exit("CHANGED: torch's area is OpenCV's")
if max(totals["OpenCV"]) - min(totals["OpenCV"]) > 0.01 or apart[105, 80].max() > 1:
    sys.exit("CHANGED: the two differ where they agreed")
EOF
