"""Uniform replay, as in ACER (arXiv:1611.01224) and in DQN (Nature 518)."""

import numpy as np

from kartrl.replay.replay import Replay


class UniformReplay(Replay):
    """Samples uniformly, with replacement, from the unrolls held."""

    def _draw(self, unrolls: int) -> tuple[np.ndarray, np.ndarray]:
        return self._evenly(unrolls), np.ones(unrolls, np.float32)
