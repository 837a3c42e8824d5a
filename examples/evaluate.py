"""Evaluate a trained policy, with greedy and with sampled actions: python examples/evaluate.py RUN."""

import sys
from statistics import fmean

import kartrl

if __name__ == "__main__":  # many episodes are driven by several processes
    for greedy in (True, False):
        for result in kartrl.evaluate(sys.argv[1], episodes=10, greedy=greedy):
            returns = [episode.episodic_return for episode in result.episodes]
            print(f"{result.level or 'all'}: {fmean(returns):.1f} ({'greedy' if greedy else 'sampled'})")
