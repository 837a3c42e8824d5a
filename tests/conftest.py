"""Fixtures for several test modules."""

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import pytest


@pytest.fixture
def make_kart() -> Iterator[Callable[..., Any]]:
    """Makes the unwrapped kart environment on the bundled game, 4 ticks a step, with these settings; closed when the test ends."""
    import kartrl.envs  # noqa: F401  # registers it

    made: list[Any] = []

    def new(**settings: Any) -> Any:
        made.append(gymnasium.make("kartrl/Kart-v0", **{"game": "bundled", "frame_skip": 4, **settings}).unwrapped)
        return made[-1]

    yield new
    for env in made:
        env.close()
