"""The kart by onnxruntime, without PyTorch: python examples/onnx_kart.py kart.onnx MarioCircuit.Act1.

The file comes from `kartrl export RUN --onnx -o kart.onnx`, with kart.json, its card, beside it.
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime

import kartrl

session = onnxruntime.InferenceSession(sys.argv[1])
card = json.loads(Path(sys.argv[1]).with_suffix(".json").read_text())
env = kartrl.make_env(kartrl.read_config(overrides=card["environment"]["settings"]), [sys.argv[2]])
image, info = env.reset(seed=1)
sizes = {given["name"]: given["shape"][1] for given in card["inputs"]}
state = {"state": np.zeros((1, sizes["state"]), np.float32)} if "state" in sizes else {}
over = False
while not over:
    action, _policy, _value, *after = session.run(None, {"observation": image[None], **state})
    state = dict(zip(state, after, strict=True))
    image, _, terminated, truncated, info = env.step(action[0])
    over = terminated or truncated
env.close()
print(f"{info['progress']:.2f} laps in {info['race_seconds']:.1f} s")
