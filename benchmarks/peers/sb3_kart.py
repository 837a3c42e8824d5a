"""Stable-Baselines3's PPO on kartrl/Kart-v0: time until it finishes its first race, and most races.

    python sb3_kart.py --seed 1 --steps 60000 --output sb3_1.csv

Observations, actions, rewards and train circuits are those of default.cfg. The file has a row per episode, like a
run's `episodes.csv`: `benchmarks/time_to_drive.py` reads both.
"""

import argparse
import csv
import time
from pathlib import Path

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import SubprocVecEnv

CIRCUITS = ("MarioCircuit.Act1", "MarioCircuit.Act2", "MarioCircuit.Act3", "random:3:asphalt")  # as in default.cfg
COLUMNS = ("time", "agent_steps", "level", "episodic_return", "episodic_length", "finished")


class Episodes(BaseCallback):
    """Writes a row for each episode."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = path.open("w", encoding="utf-8", newline="")
        self._rows = csv.writer(self._file, lineterminator="\n")
        self._rows.writerow(COLUMNS)

    def _on_step(self) -> bool:
        for done, info in zip(self.locals["dones"], self.locals["infos"], strict=True):
            if done:
                episode, finished = info["episode"], int(info["finished"])
                row = [time.time(), self.num_timesteps, info["circuit"], episode["r"], episode["l"], finished]
                self._rows.writerow(row)
                self._file.flush()
        return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=60_000, help="agent steps (default 60000)")
    parser.add_argument("--envs", type=int, default=4, help="environments, a process each (default 4)")
    parser.add_argument("--rate", type=float, default=5e-4, help="learning rate (default 5e-4)")
    parser.add_argument("--epochs", type=int, default=4, help="passes over each batch (default 4)")
    parser.add_argument("--output", type=Path, default=Path("sb3.csv"), help="file for the episodes (default sb3.csv)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    envs = make_vec_env(
        "kartrl.envs:kartrl/Kart-v0", options.envs, seed=options.seed, vec_env_cls=SubprocVecEnv,
        env_kwargs={"circuit": CIRCUITS},
    )  # fmt: skip
    model = PPO(
        "CnnPolicy", envs, n_steps=1024 // options.envs, batch_size=256, n_epochs=options.epochs,
        learning_rate=options.rate, ent_coef=0.005, gamma=0.99, gae_lambda=0.95, clip_range=0.2, seed=options.seed,
        device="cpu",
    )  # fmt: skip
    model.learn(options.steps, callback=Episodes(options.output))
    envs.close()


if __name__ == "__main__":
    main()
