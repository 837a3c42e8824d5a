"""CartPole by onnxruntime alone, after `kartrl export RUN --onnx -o cartpole.onnx`."""

import sys

import gymnasium
import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession(sys.argv[1])
env = gymnasium.make("CartPole-v1")
observation, _ = env.reset(seed=1)
total, over = 0.0, False
while not over:
    action, _policy, _value = session.run(None, {"observation": observation[None].astype(np.float32)})
    observation, reward, terminated, truncated, _ = env.step(int(action[0]))
    total, over = total + float(reward), terminated or truncated
print(f"return {total:.0f}")
