"""Who plays beside a person, from the same start: a policy, step by step as in a show."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from kartrl.driving.driver import Driver, open_driver
from kartrl.errors import UserError
from kartrl.learning import checkpoint
from kartrl.viewer.show import Image, Show


class PolicyRival:
    """A policy that plays one episode at a time, on a level and from a seed.

    Args:
        driver: used by this alone; its environment must render.
    """

    def __init__(self, driver: Driver, greedy: bool) -> None:
        self.name = f"policy, {driver.agent_steps:,} agent steps"
        self._show = Show(driver, driver.path, None, greedy, 0, lambda _: None)

    @property
    def total(self) -> float:
        """Its return so far."""
        return self._show.moments[-1].total

    @property
    def steps(self) -> int:
        """Its agent steps so far."""
        return len(self._show.moments) - 1

    @property
    def picture(self) -> Image:
        """Its screen, uint8 [H, W, 3]."""
        return self._show.picture

    @property
    def ended(self) -> bool:
        """Whether its episode has."""
        return self._show.episode is not None

    @property
    def over(self) -> bool:
        """Whether it plays no more."""
        return self.ended

    def begin(self, level: str, seed: int = 0) -> None:
        """Begin again on a level; "" if there are none.

        Raises:
            UserError: it is not one of the driver's.
        """
        if level not in self._show.levels:
            raise UserError(f"the policy does not begin at {level!r}, only at {', '.join(self._show.levels)}")
        self._show.begin(self._show.levels.index(level), seed)

    def tick(self) -> None:
        """Advance by a frame, until its episode has ended."""
        if not self.ended:
            self._show.tick()


@contextlib.contextmanager
def policy_rival(
    path: Path,
    levels: Sequence[str],
    *,
    fits: Callable[[str], bool],
    greedy: bool,
    device: str,
    overrides: Sequence[str] = (),
) -> Iterator[PolicyRival]:
    """Context manager: the policy of a checkpoint.

    Args:
        levels, device, overrides: see `open_driver`.
        fits: whether an environment, by its id, is what the person plays.

    Raises:
        UserError: see `open_driver`, or the policy is for another environment.
    """
    if not fits(name := checkpoint.load(path).config.environment.id):
        raise UserError(f"{path}: a policy for {name}; choose the game with --game {name}")
    with open_driver(path, levels, device, render=True, overrides=overrides) as driver:
        yield PolicyRival(driver, greedy)
