#!/usr/bin/env bash
# Gymnasium 1.4.0 (numpy 2.4.6).
#
# Behaviour: RecordEpisodeStatistics begins a new count in its own `reset` only. Around `Autoreset`, which resets the
# environment below it without calling that, each episode's return and length are those of ALL episodes so far. A
# TimeLimit there truncates the first episode at its limit and every step after it.
# Guess: a count ends with the episode whose `terminated` it reports; Gymnasium's own wrappers fit together in either
# order, and its vector wrapper of the same name does count each episode.
# Harm: the curve of returns rises in a straight line from the first episode on, whatever the agent does: it looks like
# learning, with episode lengths to match, until someone watches the agent.
# Remedy: Autoreset outermost, statistics and limits inside it.
#
# Seen (four episodes of five steps, reward 1):
#   Autoreset(RecordEpisodeStatistics(env)): returns [5.0, 5.0, 5.0, 5.0], lengths [5, 5, 5, 5]
#   RecordEpisodeStatistics(Autoreset(env)): returns [5.0, 10.0, 15.0, 20.0], lengths [5, 11, 17, 23]
#   TimeLimit(Autoreset(env), 7): truncated from step 7 on, in every step: True
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check gymnasium==1.4.0 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" - <<'EOF'
import sys

import gymnasium
import numpy as np
from gymnasium.wrappers import Autoreset, RecordEpisodeStatistics, TimeLimit


class Five(gymnasium.Env):
    """Reward 1 in each of five steps."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 5
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.left -= 1
        return np.zeros(1, np.float32), 1.0, self.left == 0, False, {}


def episodes(text, env):
    env.reset()
    ends = [info["episode"] for *_, info in (env.step(0) for _ in range(23)) if "episode" in info]
    returns, lengths = [float(end["r"]) for end in ends], [int(end["l"]) for end in ends]
    print(f"{text}: returns {returns}, lengths {lengths}")
    return returns


inside = episodes("Autoreset(RecordEpisodeStatistics(env))", Autoreset(RecordEpisodeStatistics(Five())))
outside = episodes("RecordEpisodeStatistics(Autoreset(env))", RecordEpisodeStatistics(Autoreset(Five())))
limited = TimeLimit(Autoreset(Five()), 7)
limited.reset()
truncated = [limited.step(0)[3] for _ in range(30)]
for_ever = truncated == [False] * 6 + [True] * 24
print("TimeLimit(Autoreset(env), 7): truncated from step 7 on, in every step:", for_ever)
if inside != [5.0] * 4:
    sys.exit("CHANGED: statistics inside Autoreset no longer count each episode")
if outside != [5.0, 10.0, 15.0, 20.0] or not for_ever:
    sys.exit("CHANGED: statistics, or a limit, around Autoreset begin anew with each episode")
EOF
