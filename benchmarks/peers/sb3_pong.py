"""Stable-Baselines3's A2C or PPO on Pong, as a peer of `kartrl bench -c pong --peer ...`.

    python sb3_pong.py a2c [--envs 16] [--vec subproc]

The environment is that of `-c pong`: ALE/Pong-v5, 4 frames per action, 84 x 84 grey x 4 frames; the network is
SB3's CnnPolicy, the convolutions and the layer of 512 units of DQN's Nature paper. Prints `@B steps=<agent steps>
upd=<optimizer steps> sk=<frames per agent step>` twice a second, until it is stopped.
"""

import argparse
import math
import time

import ale_py
import gymnasium
import torch
from gymnasium.wrappers import AtariPreprocessing
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv, VecFrameStack

FRAME_SKIP = 4
REPORT_SECONDS = 0.5
ENDLESS = 1_000_000_000  # agent steps
VEC_ENVS = {"subproc": SubprocVecEnv, "dummy": DummyVecEnv}


def make_pong() -> gymnasium.Env:
    """Pong, observations uint8 [84, 84, 1]."""
    gymnasium.register_envs(ale_py)
    # AtariPreprocessing skips frames itself, and reads the screen directly from the emulator
    env = gymnasium.make("ALE/Pong-v5", frameskip=1, obs_type="grayscale")
    return AtariPreprocessing(env, noop_max=30, frame_skip=FRAME_SKIP, screen_size=84, grayscale_newaxis=True)


def make_a2c(envs: VecEnv) -> OnPolicyAlgorithm:
    """The Atari settings of the A3C paper, as in RL Zoo; 5 steps of each environment per update."""
    optimizer = {"optimizer_class": torch.optim.RMSprop, "optimizer_kwargs": {"eps": 1e-5}}
    return A2C("CnnPolicy", envs, n_steps=5, ent_coef=0.01, vf_coef=0.25, policy_kwargs=optimizer, device="cpu")


def make_ppo(envs: VecEnv) -> OnPolicyAlgorithm:
    """The Atari settings of the PPO paper, as in RL Zoo; 4 passes over 128 steps of each environment."""
    return PPO(
        "CnnPolicy", envs, n_steps=128, batch_size=256, n_epochs=4, learning_rate=2.5e-4, clip_range=0.1, ent_coef=0.01,
        vf_coef=0.5, device="cpu",
    )  # fmt: skip


ALGORITHMS = {"a2c": make_a2c, "ppo": make_ppo}


class Report(BaseCallback):
    """Prints the counters, first at the first update."""

    def __init__(self) -> None:
        super().__init__()
        self._due = -math.inf

    def _on_step(self) -> bool:
        model, now = self.model, time.monotonic()
        assert isinstance(model, A2C | PPO)
        minibatches = math.ceil(model.n_steps * model.n_envs / model.batch_size) if isinstance(model, PPO) else 1
        updates = model._n_updates * minibatches  # SB3 counts passes of PPO
        if updates > 0 and now >= self._due:
            self._due = now + REPORT_SECONDS
            print(f"@B steps={self.num_timesteps} upd={updates} sk={FRAME_SKIP}", flush=True)
        return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("algorithm", choices=ALGORITHMS)
    parser.add_argument("--envs", type=int, default=16, help="environments (default 16)")
    parser.add_argument(
        "--vec", choices=VEC_ENVS, default="subproc", help="a process each (default), or all in this one"
    )
    parser.add_argument("--threads", type=int, help="torch's threads (default: torch's own choice)")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    envs = VecFrameStack(make_vec_env(make_pong, options.envs, seed=0, vec_env_cls=VEC_ENVS[options.vec]), 4)
    model = ALGORITHMS[options.algorithm](envs)
    parameters = sum(parameter.numel() for parameter in model.policy.parameters())
    print(f"{options.algorithm}: {parameters:,} parameters, {torch.get_num_threads()} threads", flush=True)
    model.learn(ENDLESS, callback=Report())


if __name__ == "__main__":
    main()
