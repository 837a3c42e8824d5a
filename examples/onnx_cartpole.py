"""CartPole by onnxruntime alone, after `kartrl export RUN --onnx -o cartpole.onnx`."""

import sys

import gymnasium
import onnxruntime

session = onnxruntime.InferenceSession(sys.argv[1])
env = gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make("CartPole-v1"))
observation, info = env.reset(seed=1)
while "episode" not in info:
    action, _policy, _value = session.run(None, {"observation": observation[None]})
    observation, _, _, _, info = env.step(action[0])
print(f"return {info['episode']['r']:.0f}")
