"""Stable-Baselines3's PPO on kartrl/Kart-v0: how soon it drives its first lap and its first race.

    python sb3_kart.py --seed 1 --steps 60000

Observations, actions, rewards and train circuits are those of default.cfg; PPO is untuned. Times are counted from the
start of the process. The figures to hold against it are in a run's scalars.csv: `benchmarks/learning.py` reads them.
"""

import argparse
import time
from collections import deque
from typing import NamedTuple

import psutil
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import SubprocVecEnv

CIRCUITS = ("MarioCircuit.Act1", "MarioCircuit.Act2", "MarioCircuit.Act3")  # trained on in default.cfg
REPORT_STEPS = 10_000
RECENT = 50  # episodes


class Ended(NamedTuple):
    """An episode in training."""

    episodic_return: float
    laps: float
    finished: bool


class Watch(BaseCallback):
    """Prints when the first lap and the first race were driven, and how the last episodes went."""

    def __init__(self) -> None:
        super().__init__()
        self._start = psutil.Process().create_time()
        self._told: set[str] = set()
        self._recent: deque[Ended] = deque(maxlen=RECENT)
        self._due = REPORT_STEPS

    def _on_step(self) -> bool:
        for done, info in zip(self.locals["dones"], self.locals["infos"], strict=True):
            if info["lap"] >= 1:
                self._tell_first("lap")
            if done:
                self._recent.append(Ended(info["episode"]["r"], info["progress"], info["finished"]))
                if info["finished"]:
                    self._tell_first("race")
        if self.num_timesteps >= self._due:
            self._due += REPORT_STEPS
            self.summary()
        return True

    def _tell_first(self, what: str) -> None:
        if what not in self._told:
            self._told.add(what)
            print(f"first {what}: {self._when()}", flush=True)

    def summary(self) -> None:
        """Means over the last episodes."""
        if self._recent:
            returns, laps, finished = (sum(values) / len(self._recent) for values in zip(*self._recent, strict=True))
            print(
                f"{self._when()}: of the last {len(self._recent)} episodes {finished:.0%} finished, {laps:.2f} laps, "
                f"return {returns:.1f}",
                flush=True,
            )

    def _when(self) -> str:
        return f"{time.time() - self._start:.0f} s, {self.num_timesteps:,} agent steps"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=60_000, help="agent steps (default 60000)")
    parser.add_argument("--envs", type=int, default=4, help="environments, a process each (default 4)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    envs = make_vec_env(
        "kartrl.envs:kartrl/Kart-v0", options.envs, seed=options.seed, vec_env_cls=SubprocVecEnv,
        env_kwargs={"circuit": CIRCUITS},
    )  # fmt: skip
    model = PPO(
        "CnnPolicy", envs, n_steps=1024 // options.envs, batch_size=256, n_epochs=4, learning_rate=5e-4, ent_coef=0.005,
        gamma=0.99, gae_lambda=0.95, clip_range=0.2, seed=options.seed, device="cpu",
    )  # fmt: skip
    watch = Watch()
    model.learn(options.steps, callback=watch)
    watch.summary()
    envs.close()


if __name__ == "__main__":
    main()
