"""Act with a trained policy, in one environment: python examples/act.py RUN."""

import sys

import kartrl

policy = kartrl.load_policy(sys.argv[1])
env = policy.make_env()
observation, info = env.reset(seed=1)
state, total, over = None, 0.0, False  # no state: an episode begins
while not over:
    action, state = policy.act(observation, state, mask=info.get("action_mask"))
    observation, reward, terminated, truncated, info = env.step(action)
    total, over = total + float(reward), terminated or truncated
env.close()
print(f"return {total:.2f}")
