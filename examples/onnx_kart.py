"""The kart by onnxruntime, without PyTorch, after `kartrl export RUN --onnx -o kart.onnx`.

python examples/onnx_kart.py kart.onnx kart.json MarioCircuit.Act1; a network without memory has no state.
"""

import sys

import numpy as np
import onnxruntime

import kartrl

session = onnxruntime.InferenceSession(sys.argv[1])
env = kartrl.make_env(kartrl.read_config(sys.argv[2]), [sys.argv[3]])
image, info = env.reset(seed=1)
state = [np.zeros((1, *memory.shape[1:]), np.float32) for memory in session.get_inputs()[1:]]
terminated = truncated = False
while not (terminated or truncated):
    inputs = dict(zip(["observation", "state"], [image[None], *state], strict=False))
    action, _policy, _value, *state = session.run(None, inputs)
    image, _, terminated, truncated, info = env.step(action[0])
print(f"{info['progress']:.2f} laps in {info['race_seconds']:.1f} s")
