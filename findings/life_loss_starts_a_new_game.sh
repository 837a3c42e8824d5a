#!/usr/bin/env bash
# Gymnasium 1.4.0, ale-py 0.12.1, EnvPool 1.2.5 (numpy 2.4.6, opencv-python-headless 5.0.0.93).
#
# Behaviour: three implementations of "an episode per life" on Breakout. After a lost life Gymnasium's
# AtariPreprocessing(terminal_on_life_loss=True) and ALE's AtariVectorEnv(episodic_life=True) begin a NEW GAME with all
# five lives; EnvPool's episodic_life=True goes on with the same game, as the wrapper of OpenAI Baselines did, and
# begins a new one when the last life is lost.
# Guess: all three hide the end of the life from the game, which goes on: that is what the option has meant since DQN.
# Harm: with two of the three, the agent never sees anything behind its first lost life: later waves, half-cleared
# walls, the faster ball, one life left. Training's states differ from those of evaluation on whole games, scores of
# training are those of a first life, and "the same" experiment with EnvPool is another task.
# Remedy: detect the lost life oneself (`info["lives"]`), end the episode for the learner, and reset the game only when
# the environment terminates.
#
# Seen (lives at the start of each of seven consecutive episodes; 5 is a new game):
#   AtariPreprocessing  [5, 5, 5, 5, 5, 5, 5]
#   AtariVectorEnv      [5, 5, 5, 5, 5, 5, 5]
#   EnvPool             [5, 4, 3, 2, 1, 5, 4]
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check \
    gymnasium==1.4.0 ale-py==0.12.1 envpool==1.2.5 numpy==2.4.6 opencv-python-headless==5.0.0.93
cd "$work"
TMPDIR=$work MPLCONFIGDIR=$work "$work/venv/bin/python" - <<'EOF'
import sys

import ale_py
import envpool
import gymnasium
import numpy as np
from ale_py.vector_env import AtariVectorEnv

EPISODES = 7
gymnasium.register_envs(ale_py)


def action(step):
    """FIRE now and then, RIGHT otherwise: it loses life after life."""
    return 1 if step % 10 == 0 else 2


def starts_of_one():
    env = gymnasium.make("ALE/Breakout-v5", frameskip=1, repeat_action_probability=0.0)
    env = gymnasium.wrappers.AtariPreprocessing(env, terminal_on_life_loss=True)
    lives, step = [], 0
    for episode in range(EPISODES):
        _, info = env.reset(seed=0 if episode == 0 else None)
        lives.append(int(info["lives"]))
        ended = False
        while not ended:
            *_, terminated, truncated, _ = env.step(action(step))
            ended, step = terminated or truncated, step + 1
    return lives


def starts_of_many(envs, info):
    """For both vectors: the step after an end begins the next episode."""
    lives, ended, step = [int(info["lives"][0])], False, 0
    while len(lives) < EPISODES:
        _, _, terminated, truncated, info = envs.step(np.array([action(step)]))
        if ended:
            lives.append(int(info["lives"][0]))
        ended, step = terminated[0] or truncated[0], step + 1
    return lives


ale = AtariVectorEnv("breakout", 1, episodic_life=True)
pool = envpool.make("Breakout-v5", "gymnasium", num_envs=1, episodic_life=True)
found = {
    "AtariPreprocessing": starts_of_one(),
    "AtariVectorEnv": starts_of_many(ale, ale.reset(seed=0)[1]),
    "EnvPool": starts_of_many(pool, pool.reset()[1]),
}
for name, lives in found.items():
    print(f"{name:20}{lives}")
if found["AtariPreprocessing"] != [5] * EPISODES or found["AtariVectorEnv"] != [5] * EPISODES:
    sys.exit("CHANGED: a lost life no longer begins a new game in AtariPreprocessing or AtariVectorEnv")
if found["EnvPool"] != [5, 4, 3, 2, 1, 5, 4]:
    sys.exit("CHANGED: a lost life no longer goes on with the same game in EnvPool")
EOF
