"""Train on CartPole until ten episodes in a row were long, then act: python examples/train.py."""

from collections import deque

import kartrl

returns: deque[float] = deque(maxlen=10)


def long_enough(episode: kartrl.Episode) -> bool:
    """End the run, by returning False, when the mean return of ten episodes is 50."""
    returns.append(episode.episodic_return)
    return sum(returns) < 10 * 50


if __name__ == "__main__":
    config = kartrl.read_config("cartpole", {"run.agent_steps": 300_000, "evaluation.minutes": 0})
    run = kartrl.train(config, on_episode=long_enough, progress=False)
    print(f"Ended by {run.ended_by}: {run.folder}, {run.agent_steps:,} agent steps")
    (result,) = kartrl.evaluate(run.policy(), episodes=5)
    print(f"returns {[episode.episodic_return for episode in result.episodes]}")
