#!/usr/bin/env bash
# Gymnasium 1.4.0 (box2d 2.3.10, pygame-ce 2.5.8, numpy 2.4.6).
#
# Behaviour: CarRacing-v3 is documented to count a lap as completed once `lap_complete_percent` of its tiles (0.95) have
# been visited and the car is back at the start. It never is: the check runs where tile 0 is visited for the first time,
# and the car stands on tile 0 when the episode begins. Only 100 % of the tiles end an episode, whatever the percentage.
# Guess: an agent that cuts a corner and misses a few tiles of 300 ends its lap at the line, as the default allows.
# Harm: one missed tile costs the rest of the 1,000 frames, 20 to 30 points and a quarter of a training's steps, and
# nothing shows it: an agent that laps in 720 frames scores 870 instead of 900. Lowering the percentage, say for a
# curriculum, changes nothing, and lengths near 1,000 frames look like slow driving.
# Remedy: read `env.unwrapped.tile_visited_count / len(env.unwrapped.track)` beside the return, and end episodes in a
# wrapper if laps with missing tiles are to count; a longer horizon (discount) makes an agent collect all tiles.
#
# Seen, a car that leaves the road for 15 tiles of 275:
#   lap_complete_percent 0.95  tile 0 visited before the first action: True  crosses the line with 96 %, not ended
#   lap_complete_percent 0.5   tile 0 visited before the first action: True  crosses the line with 96 %, not ended
#   the same car that stays on the road: ended with 100 %
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check --only-binary :all: \
    gymnasium==1.4.0 box2d==2.3.10 pygame-ce==2.5.8 numpy==2.4.6
cd "$work"
SDL_VIDEODRIVER=dummy "$work/venv/bin/python" - <<'EOF' 2>/dev/null
import math
import sys

import gymnasium
import numpy as np


def lap(percent, leaves_at):
    """Whether tile 0 was visited at first, the share of tiles at the line, and whether the episode has ended."""
    env = gymnasium.make("CarRacing-v3", lap_complete_percent=percent, max_episode_steps=3000)
    env.reset(seed=1)
    game = env.unwrapped
    at_once = game.road[0].road_visited
    track = np.array([(x, y) for *_, x, y in game.track])
    turned = [direction for _, direction, _, _ in game.track]
    place, ended = 0, False
    while not ended:
        position = np.array(game.car.hull.position)
        close = [(place + step) % len(track) for step in range(-2, 6)]
        near = min(close, key=lambda index: np.hypot(*(track[index] - position)))
        if near < place - len(track) // 2:
            break
        place, goal = near, (near + 4) % len(track)
        aside = 12.0 * (goal in leaves_at) * np.array([math.cos(turned[goal]), math.sin(turned[goal])])
        x, y = track[goal] + aside - position
        error = (math.atan2(y, x) - math.pi / 2 - game.car.hull.angle + math.pi) % (2 * math.pi) - math.pi
        speed = np.hypot(*game.car.hull.linearVelocity)
        action = [np.clip(-2 * error, -1, 1), 0.3 * (speed < 30), 0.3 * (speed > 40)]
        ended = env.step(np.array(action, np.float32))[2]
    return at_once, game.tile_visited_count / len(track), ended


changed = False
for percent in (0.95, 0.5):
    at_once, share, ended = lap(percent, range(60, 75))
    what = "ended" if ended else "not ended"
    begun = f"tile 0 visited before the first action: {at_once}"
    print(f"lap_complete_percent {percent:<5} {begun}  crosses the line with {share:.0%}, {what}")
    changed |= not at_once or share < 0.95 or ended
_, share, ended = lap(0.95, ())
print(f"the same car that stays on the road: {'ended' if ended else 'not ended'} with {share:.0%}")
if changed or not ended or share < 1:
    sys.exit("CHANGED: laps end at another share of the tiles")
EOF
