"""Fixtures for several test modules."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest


def pytest_configure() -> None:
    """What a shell starts in the background ignores Ctrl-C, and so do its children: those of the tests must not."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def make_kart() -> Iterator[Callable[..., Any]]:
    """Makes the unwrapped kart environment on the bundled game, 4 ticks per step; closed when the test ends."""
    import kartrl.envs  # noqa: F401  # registers it

    made: list[Any] = []

    def new(**settings: Any) -> Any:
        made.append(gymnasium.make("kartrl/Kart-v0", **{"game": "bundled", "frame_skip": 4, **settings}).unwrapped)
        return made[-1]

    yield new
    for env in made:
        env.close()


@pytest.fixture(scope="module")
def movie_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten seconds on `players.CIRCUIT`."""
    from players import CIRCUIT, begun, drive, some_driving

    from kartrl.kart.play.movie import write_movie

    file = tmp_path_factory.mktemp("movie") / "drive.bk2"
    stage, session = begun(circuit=CIRCUIT)
    with stage:
        write_movie(file, drive(session, some_driving(600)).movie())
    return file
