"""A node's life and the next one in its place, without Ray: python -m lives FOLDER.

Prints in how many processes each made environments; each must end with its node.
"""

import sys
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
import psutil
import torch
from commands import titled, wait_for
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

from kartrl.acting.published_weights import PublishedWeights
from kartrl.algorithms import heads_of
from kartrl.config import dump, read
from kartrl.models import make_network
from kartrl.nodes.host import Host
from kartrl.nodes.identity import identity
from kartrl.nodes.node import Node


class Counted(CartPoleEnv):
    """Leaves a file in a folder, named after its process."""

    def __init__(self, render_mode: str | None = None, folder: str = "") -> None:
        super().__init__(render_mode=render_mode)
        Path(folder, str(psutil.Process().pid)).touch()


gymnasium.register("Counted-v0", Counted, max_episode_steps=500)


def _has(folder: Path, files: int) -> bool:
    return len(list(folder.iterdir())) >= files


def main(folder: Path) -> None:
    overrides = ["environment.id=lives:Counted-v0", f"environment.kwargs.folder={folder}", "system.agents=2"]
    config, host, known, made = read(overrides=[*overrides, "model.hidden_size=16"]), Host(), None, 0
    for seed in range(2):
        node = Node()
        greeting = node.greet(host.start(identity(), dump(config), "node 0", 2, seed, False, known), has_gpu=False)
        network = make_network(config.model, greeting.spec.observation, greeting.spec.action, heads_of(config))
        flat, version = PublishedWeights(network).flat()
        unrolls = node.next_unrolls(flat, version, 1).unrolls
        assert torch.isfinite(torch.from_numpy(unrolls.observation)).all()
        assert np.array_equal(unrolls.version, np.zeros_like(unrolls.version))
        inspections = int(known is None)
        wait_for(partial(_has, folder, made + inspections + greeting.agents), 60, "all agents")
        known, before, made = greeting.known, made, len(list(folder.iterdir()))
        print(made - before)
        if seed == 0:
            node.end()
        else:
            del node  # as if it were killed
        children = psutil.Process().children(recursive=True)
        wait_for(lambda children=children: not titled(children, "kartrl "), 60, "its processes to end")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
