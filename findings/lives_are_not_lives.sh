#!/usr/bin/env bash
# ale-py 0.12.1 (gymnasium 1.4.0, numpy 2.4.6).
#
# Behaviour: `info["lives"]` is a byte of the game's memory, not a count that begins at the most and is 0 at the end. At
# `reset` it may hold something else still (Amidar: 0, then 11 in play; Demon Attack: 1, then 4), and it is 0 during the
# whole last life of some games, in which points are scored (Bank Heist, Mr. Do, Sir Lancelot, Turmoil).
# Guess: `reset` returns the lives of the new game, they fall from there, and 0 means that the game is over.
# Harm: code that ends an episode for the learner at a lost life and takes 0 for the end of the game is tested on
# Breakout, where both are right. Elsewhere "0 lives: reset" throws away the last life, which evaluation then plays with
# a policy that never saw it; in Amidar it is true before the first step, and a share of lives left divides by 0.
# Remedy: the game ends by `terminated` only; take the number at the start from the first steps in play; a fall to 0
# while not terminated may be a lost life or the first frame of an animation at the end: look at the game at hand.
#
# Seen (four games of random actions each, of four frames a step):
#   Breakout     lives [5, 4, 3, 2, 1, 0]         4 steps and 0 points with 0 lives
#   Amidar       lives [0, 11, 10, 9, 8, 0]       4 steps and 0 points with 0 lives
#   DemonAttack  lives [1, 4, 3, 2, 1, 0]         4 steps and 0 points with 0 lives
#   BankHeist    lives [4, 3, 2, 1, 0]            431 steps and 10 points with 0 lives
#   MrDo         lives [4, 3, 2, 1, 0]            616 steps and 3850 points with 0 lives
#   SirLancelot  lives [3, 2, 1, 0]               434 steps and 1250 points with 0 lives
#   Turmoil      lives [3, 4, 3, 2, 1, 0]         800 steps and 550 points with 0 lives
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check ale-py==0.12.1 gymnasium==1.4.0 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" - <<'EOF'
import itertools
import sys

import ale_py
import gymnasium

gymnasium.register_envs(ale_py)


def play(game):
    """The lives that the first of four games shows, without repetitions; steps and points with 0 lives in all four."""
    shown, steps, points = [], 0, 0.0
    for seed in range(1, 5):
        env = gymnasium.make(f"ALE/{game}-v5", repeat_action_probability=0.0)
        _, info = env.reset(seed=0)
        env.action_space.seed(seed)
        lives, ended = [info["lives"]], False
        while not ended:
            _, reward, ended, _, info = env.step(env.action_space.sample())
            lives.append(info["lives"])
            if info["lives"] == 0 and any(lives):
                steps, points = steps + 1, points + reward
        shown.append([number for number, _ in itertools.groupby(lives)])
    print(f"{game:12} lives {shown[0]!s:26} {steps} steps and {points:.0f} points with 0 lives")
    return shown[0], steps, points


lives, steps, points = play("Breakout")
if lives != [5, 4, 3, 2, 1, 0] or steps != 4:
    sys.exit("CHANGED: Breakout no longer counts 5 lives down to 0 at its end")
for game, start in {"Amidar": [0, 11], "DemonAttack": [1, 4]}.items():
    if play(game)[0][:2] != start:
        sys.exit(f"CHANGED: {game} no longer shows {start[0]} at reset and {start[1]} in play")
for game in ("BankHeist", "MrDo", "SirLancelot", "Turmoil"):
    _, steps, points = play(game)
    if steps < 100 or points <= 0:
        sys.exit(f"CHANGED: {game} no longer plays its last life with 0 lives")
EOF
