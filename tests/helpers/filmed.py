"""Environments to film: `filmed:Filmed-v0`, whose `render` returns its picture in any form."""

import signal
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from PIL import Image

GREY = np.add.outer(np.arange(0, 101, 10), np.arange(0, 151, 10)).astype(np.uint8)  # its picture, [11, 16]
COLOUR = np.dstack([GREY, GREY // 2, 255 - GREY])  # or this, [11, 16, 3]
ALPHA = np.full((11, 16, 1), 128, np.uint8)
OF_GREY = {
    "grey": GREY,
    "one channel": GREY[..., None],
    "grey, alpha": np.dstack([GREY, ALPHA]),
    "grey first": GREY[None],
    "grey shares": GREY / 255,
    "grey frames": [GREY * 0, GREY * 0, GREY],
    "int64": GREY.astype(np.int64),
    "uint16": GREY.astype(np.uint16) * 257,
    "half": (GREY / np.float32(255)).astype(np.float16),
    "signed shares": GREY / 127.5 - 1,
}
OF_COLOUR = {
    "bytes": COLOUR,
    "shares": (COLOUR / 255).astype(np.float32),
    "a little more": COLOUR / 255 * 1.02,
    "floats": COLOUR.astype(np.float64),
    "int32": COLOUR.astype(np.int32),
    "alpha": np.dstack([COLOUR, ALPHA]),
    "first": COLOUR.transpose(2, 0, 1),
    "lists": COLOUR.tolist(),
    "rows": list(COLOUR),
    "list": [COLOUR * 0, COLOUR],
    "frames": np.stack([COLOUR * 0, COLOUR]),
    "mirrored twice": COLOUR[::-1, ::-1].copy()[::-1, ::-1],
    "PIL": Image.fromarray(COLOUR),
}
OF_HALVES = {  # black and white
    "bool": GREY > 100,
    "uint8 of 0 and 1": (GREY > 100).astype(np.uint8),
    "int64 of 0 and 1": (GREY > 100).astype(np.int64),
    "not finite": np.where(GREY > 100, np.inf, np.nan),
}
NONE = {
    "None": None,
    "text": "a picture",
    "texts": np.array([["a", "b"]]),
    "a vector": GREY[0],
    "nothing": np.zeros((0, 5, 3), np.uint8),
    "empty": [],
    "seven": np.zeros((9, 9, 7), np.uint8),
    "rows of different lengths": [[1, 2], [3]],
    "complex": GREY * 1j,
}
LOOKS: dict[str, Any] = {**OF_GREY, **OF_COLOUR, **OF_HALVES, **NONE}


class Filmed(gymnasium.Env):
    """One number to see, and no end.

    Args:
        look: what `render` returns, of `LOOKS`.
        stopped: which call of `reset` or `step`, from 0, somebody interrupts by Ctrl-C; -1: none.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 25}  # noqa: RUF012  # Gymnasium's own type
    observation_space, action_space = spaces.Box(-1, 1, (1,), np.float32), spaces.Discrete(2)

    def __init__(self, look: str = "bytes", stopped: int = -1, render_mode: str | None = None) -> None:
        self.look, self.stopped, self.render_mode, self.calls = look, stopped, render_mode, -1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._count()
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self._count()
        return np.zeros(1, np.float32), 1.0, False, False, {}

    def _count(self):
        self.calls += 1
        if self.calls == self.stopped:
            signal.raise_signal(signal.SIGINT)

    def render(self):
        return LOOKS[self.look]


gymnasium.register("Filmed-v0", Filmed)
