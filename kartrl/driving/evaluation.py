"""Evaluation of a policy: episodes on each level, each with a seed of its own."""

from collections.abc import Callable

from kartrl.driving.driver import Driver
from kartrl.driving.episodes import Start
from kartrl.driving.levels import drive_levels
from kartrl.envs.episode import Drive, Result
from kartrl.envs.world import Env


class Evaluation:
    """This many episodes on each of the driver's levels, with the seeds from 0 on."""

    def __init__(self, driver: Driver, episodes: int) -> None:
        world, levels = driver.world, driver.levels or ("",)
        self._driver, self._seeds = driver, range(episodes)
        self._names = {level: world.name_level(level) if level else "" for level in levels}
        uses = world.find_uses([name for name in self._names.values() if name])
        self._uses = {level: uses.get(name, "none") if level else "train" for level, name in self._names.items()}
        self.driven: dict[str, dict[int, Drive]] = {level: {} for level in levels}
        """Level -> seed -> the drive, of the episodes that have ended, in any order."""

    @property
    def total(self) -> int:
        """Number of episodes."""
        return len(self._names) * len(self._seeds)

    @property
    def done(self) -> int:
        """Number of episodes that have ended."""
        return sum(map(len, self.driven.values()))

    @property
    def results(self) -> list[Result]:
        """Those of the episodes that have ended, for each level that has any."""
        done = [(level, sorted(drives)) for level, drives in self.driven.items() if drives]
        return [
            Result(self._names[level], self._uses[level], [self.driven[level][seed].episode for seed in seeds], seeds)
            for level, seeds in done
        ]

    def run(
        self,
        *,
        greedy: bool,
        on_step: Callable[[Env], None] | None = None,
        on_end: Callable[[], None] = lambda: None,
    ) -> list[Result]:
        """Drive all episodes; returns the results.

        Args:
            greedy: take the most likely actions instead of sampling.
            on_step: called at the start of each episode and after each of its steps in this process.
            on_end: called when an episode has ended, from any thread, one at a time.
        """

        def keep(start: Start, drive: Drive) -> None:
            self.driven[start.level][start.seed] = drive
            on_end()

        starts = [Start(level, seed, use, on_step) for level, use in self._uses.items() for seed in self._seeds]
        drive_levels(self._driver, starts, greedy=greedy, on_end=keep)
        return self.results
