"""Environments that change the working directory, to which the paths of a command are relative."""

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any, SupportsFloat

import gymnasium

Env = gymnasium.Env[Any, Any]


@contextlib.contextmanager
def same_folder() -> Iterator[None]:
    """Context manager: the working directory is afterwards as it was, even if it has been moved."""
    here = _open()
    try:
        yield
    finally:
        os.fchdir(here)
        os.close(here)


class OwnFolder(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment with a working directory of its own: changing it changes no other's.

    Args:
        make: makes the environment.
    """

    def __init__(self, make: Callable[[], Env]) -> None:
        with same_folder():
            super().__init__(make())
            self._folder: int | None = _open()

    @contextlib.contextmanager
    def _there(self) -> Iterator[None]:
        with same_folder():
            if self._folder is not None:
                os.fchdir(self._folder)
            try:
                yield
            finally:
                self._leave()
                self._folder = _open()

    def _leave(self) -> None:
        folder, self._folder = self._folder, None  # first: a signal may come in between
        if folder is not None:
            os.close(folder)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        with self._there():
            return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        with self._there():
            return self.env.step(action)

    def render(self) -> Any:
        with self._there():
            return self.env.render()

    def close(self) -> None:
        with self._there():
            self.env.close()
        self._leave()


def _open() -> int:
    """The working directory."""
    return os.open(".", os.O_RDONLY | os.O_DIRECTORY)
