"""A trial that is being trained: one seed after another, reported to its study as it learns, and pruned by it."""

import time
from collections.abc import Sequence

import numpy as np
import optuna
from optuna.trial import TrialState

from kartrl.comparison.experiment import Cell, record
from kartrl.comparison.statistics import interquartile_mean
from kartrl.comparison.training import Training, trained
from kartrl.errors import RunFailed, UserError
from kartrl.launch import config_options
from kartrl.run.run_folder import is_training
from kartrl.tuning.plan import PARTS, Plan
from kartrl.tuning.slots import Cores
from kartrl.tuning.space import Params
from kartrl.tuning.storage import SEEN_SECONDS, frozen, show_life

GLANCE = 0.01  # of the budget, between two looks whether the value has been reached
SCORES, REASON = "scores", "reason"  # a trial's attributes: of its trainings so far, and why it failed


class Job:
    """A trial in a slot of cores.

    Args:
        name: of its trainings, with their seeds behind it.
        params: its own values; none: the defaults.
        seeds: one training each.
        prunes: whether its study may end it early.
    """

    def __init__(
        self,
        plan: Plan,
        trial: optuna.Trial,
        name: str,
        params: Params,
        seeds: Sequence[int],
        cores: Cores,
        prunes: bool,
    ) -> None:
        self.trial, self.name, self.params, self.seeds, self.cores = trial, name, params, seeds, cores
        self._plan, self._prunes = plan, prunes
        self.scores: list[float] = list(trial.user_attrs.get(SCORES, []))
        self._reported = max(frozen(trial).intermediate_values, default=0)
        self._cell: Cell | None = None  # the training under way
        self._training: Training | None = None
        self._glanced, self._seen = 0.0, time.monotonic()

    @property
    def share(self) -> float:
        """Fraction that is done."""
        current = self._training.share if self._training is not None else 0.0
        return (len(self.scores) + current) / len(self.seeds)

    @property
    def value(self) -> float:
        """Of the trial: the interquartile mean of its scores."""
        return float(interquartile_mean(np.array(self.scores)))

    def step(self) -> TrialState | None:
        """Do what is due; the trial's state if it has ended.

        Raises:
            RunFailed: a training failed, or was refused.
            UserError: a training has no value of the metric.
        """
        if time.monotonic() - self._seen > SEEN_SECONDS:
            self._seen = time.monotonic()
            show_life(self.trial)
        if self._cell is None:
            self._cell = self._make_cell()
        objective, folder = self._plan.objective, self._cell.folder
        if self._training is None:
            if is_training(folder):  # a process that has ended started it, and it still saves
                return None
            self._begin(self._cell)
        if self._training is not None:
            if not self._training.ended:
                if self._has_reached(self._training.share):
                    self._training.request_end()
                return TrialState.PRUNED if self._report(folder.name, self._training.share) else None
            if not objective.has_reached(folder):
                self._training.result()
        score = objective.score(folder)
        pruned = self._report(folder.name, 1.0)
        self.scores.append(score)
        self.trial.set_user_attr(SCORES, self.scores)
        self._cell = self._training = None
        self._glanced = 0.0
        if len(self.scores) == len(self.seeds):
            return TrialState.COMPLETE
        return TrialState.PRUNED if pruned else None

    def request_end(self) -> None:
        """Have its training save its state and end."""
        if self._training is not None:
            self._training.request_end()

    def wait(self) -> None:
        """Wait until its training has ended."""
        if self._training is not None:
            self._training.wait()

    def _make_cell(self) -> Cell:
        seed, folder = self.seeds[len(self.scores)], self._plan.folder
        name = self._run(seed)
        try:
            ours = f"run.seed={seed}", f"run.logs={folder}", f"run.name={name}"
            return Cell(self.name, self._plan.config_of(self.params, *ours), folder / name)
        except UserError as error:
            raise RunFailed(f"refused: {error}") from error

    def _run(self, seed: int) -> str:
        return f"{self.name}__{seed}"

    def _begin(self, cell: Cell) -> None:
        """Start the training, unless it has come to its end."""
        try:
            file = record(cell)
        except UserError as error:
            raise RunFailed(str(error)) from error
        if not self._plan.objective.has_reached(cell.folder) and trained(cell.folder, cell.config.run) is None:
            options = config_options([str(file)], [])
            self._training = Training(cell.folder, options, cell.config.run, cores=self.cores)

    def _has_reached(self, share: float) -> bool:
        if self._cell is None or share - self._glanced < GLANCE:
            return False
        self._glanced = share
        return self._plan.objective.has_reached(self._cell.folder)

    def _report(self, run: str, share: float) -> bool:
        """Report each part of this training that is complete; whether the study prunes the trial."""
        objective, before = self._plan.objective, PARTS * len(self.scores)
        steps = range(max(before, self._reported) + 1, before + int(share * PARTS) + 1)
        if not steps or not self._prunes:
            return False
        done = [self._run(seed) for seed in self.seeds[: len(self.scores)]]
        ended = [objective.so_far(self._plan.folder / name, 1.0) for name in done]
        for step in steps:
            values = [*ended, objective.so_far(self._plan.folder / run, (step - before) / PARTS)]
            known = np.array([value for value in values if value is not None])
            if len(known):
                self.trial.report(float(interquartile_mean(known)), step)
            self._reported = step
        return self.trial.should_prune()
