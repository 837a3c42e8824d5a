"""A user's script that trains in an environment of its own, but not under `if __name__ == "__main__"`."""

import gymnasium

import kartrl


def make_cartpole() -> gymnasium.Env:
    return gymnasium.make("CartPole-v1")


kartrl.train(kartrl.read_config(overrides={"environment.id": make_cartpole}))
