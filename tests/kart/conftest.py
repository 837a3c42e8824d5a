"""Fixtures of several tests of the kart."""

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture
def console() -> Iterator[Any]:
    """The bundled game's console, without a circuit loaded."""
    from karts import FOLDER

    from kartrl.kart.console import KartConsole

    console = KartConsole(FOLDER)
    yield console
    console.close()
