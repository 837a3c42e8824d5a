"""Stable-Baselines3's PPO on stable-retro's Airstriker, as a peer of `kartrl bench -c airstriker --peer ...`.

    python sb3_airstriker.py [--envs 8]
    python sb3_airstriker.py --minutes 10 --seed 1        (then the mean score of 100 episodes)

The environment is that of `-c airstriker`: the same six actions, held for 4 frames, the first of which holds the last
action's buttons with a probability of 0.25; up to 30 frames without buttons at the start; 84 x 84 grey x 4 frames;
rewards clipped to [-1, 1]. The network is SB3's CnnPolicy, the convolutions and the layer of 512 units of DQN's Nature
paper. Prints `@B steps=<agent steps> upd=<optimizer steps> sk=<frames per agent step> score=<mean of the last 100
episodes> seconds=<since the start>` twice a second.
"""

import argparse
import math
import time
from typing import Any

import gymnasium
import numpy as np
import stable_retro
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import SubprocVecEnv, VecFrameStack

FRAME_SKIP, NOOP_MAX, STICKY = 4, 30, 0.25
REPORT_SECONDS = 0.5
ENDLESS = 1_000_000_000  # agent steps
TIME_LIMIT = 4500  # agent steps: 300 seconds of play
ACTIONS: tuple[tuple[str, ...], ...] = ((), ("LEFT",), ("RIGHT",), ("B",), ("LEFT", "B"), ("RIGHT", "B"))
START = time.monotonic()
Env = gymnasium.Env[Any, Any]


class Play(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The actions, held for some frames, and the frames at the start."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        buttons = env.unwrapped.buttons  # type: ignore[attr-defined]
        self._held = [np.array([name in action for name in buttons], np.int8) for action in ACTIONS]
        self.action_space = gymnasium.spaces.Discrete(len(ACTIONS))
        self._last: np.ndarray | None = None
        self._random = np.random.default_rng()

    def reset(self, **options: Any) -> Any:
        result = self.env.reset(**options)
        self._last = None
        for _ in range(self._random.integers(NOOP_MAX + 1)):
            observation, _, _, _, info = self.env.step(self._held[0])
            result = observation, info
        return result

    def step(self, action: Any) -> Any:
        total, now = 0.0, self._held[action]
        for frame in range(FRAME_SKIP):
            if frame or self._last is None or self._random.random() >= STICKY:
                self._last = now
            observation, reward, terminated, truncated, info = self.env.step(self._last)
            total += float(reward)
            if terminated or truncated:
                break
        return observation, total, terminated, truncated, info


def make_airstriker() -> Env:
    """Observations uint8 [84, 84, 1]; scores are counted before rewards are clipped."""
    made = stable_retro.make(
        "Airstriker-Genesis-v0", use_restricted_actions=stable_retro.Actions.ALL, render_mode="rgb_array"
    )
    env: Env = gymnasium.wrappers.TimeLimit(Play(made), TIME_LIMIT)
    env = gymnasium.wrappers.TransformReward(Monitor(env), lambda reward: float(np.clip(float(reward), -1, 1)))
    env = gymnasium.wrappers.ResizeObservation(env, (84, 84))
    return gymnasium.wrappers.GrayscaleObservation(env, keep_dim=True)


class Report(BaseCallback):
    """Prints the counters, first at the first update; ends after some seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._due, self._end = -math.inf, time.monotonic() + seconds

    def _on_step(self) -> bool:
        model, now = self.model, time.monotonic()
        assert isinstance(model, PPO)
        updates = model._n_updates * math.ceil(model.n_steps * model.n_envs / model.batch_size)
        if updates > 0 and now >= self._due:
            self._due = now + REPORT_SECONDS
            scores = [episode["r"] for episode in model.ep_info_buffer or ()]  # of the last 100 episodes
            score = np.mean(scores) if scores else math.nan
            line = f"@B steps={self.num_timesteps} upd={updates} sk={FRAME_SKIP} score={score:.1f}"
            print(f"{line} seconds={now - START:.1f}", flush=True)
        return now < self._end


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", type=int, default=8, help="environments, a process each (default 8)")
    parser.add_argument("--minutes", type=float, default=math.inf, help="end then, and play 100 episodes")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    # not make_vec_env, whose own Monitor would count clipped rewards
    envs = VecFrameStack(SubprocVecEnv([make_airstriker] * options.envs), 4)
    envs.seed(options.seed)
    model = PPO(
        "CnnPolicy", envs, n_steps=128, batch_size=256, n_epochs=4, learning_rate=2.5e-4, clip_range=0.1, ent_coef=0.01,
        vf_coef=0.5, device="cpu", seed=options.seed,
    )  # fmt: skip
    model.learn(ENDLESS, callback=Report(60 * options.minutes))
    found, _ = evaluate_policy(model, envs, 100, deterministic=True, return_episode_rewards=True)
    print(f"{model.num_timesteps:,} agent steps: mean score {np.mean(found):.1f} of {len(found)} episodes")


if __name__ == "__main__":
    main()
