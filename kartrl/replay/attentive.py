"""Attentive replay (Sun et al. 2020, arXiv:2002.08396, here of unrolls): what resembles the present state."""

import numpy as np

from kartrl.replay.candidates import CandidateReplay


class AttentiveReplay(CandidateReplay):
    """Far is what has other states than the last one of the newest unroll, as the network sees both now.

    Each of an unroll's T states is held against that one state.
    """

    def insert(self, serials: np.ndarray) -> np.ndarray:
        """See `Replay`."""
        if len(serials):
            self._state = self._memory.observations(serials[-1:])[-1]  # [1, ...]
        return super().insert(serials)

    def _measure(self, slots: np.ndarray) -> np.ndarray:
        """See `CandidateReplay`."""
        features = self._embed(self._serials[slots])
        present = np.broadcast_to(self._choice.embed(self._state), features.shape)
        return self._choice.distance(features, present)
