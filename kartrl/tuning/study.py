"""A study: as many trials side by side as there are slots; then the best one and the defaults again.

The defaults, where the search space does not contain them, and the confirmations with fresh seeds are trials of a
second study, beside the first one in its storage, so that they do not take part in the search.
"""

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import optuna
from optuna.trial import FrozenTrial, TrialState
from rich.console import Console
from rich.progress import Progress, TaskID

from kartrl.comparison.experiment import make_progress
from kartrl.comparison.training import LOOK_SECONDS
from kartrl.errors import RunFailed, UserError
from kartrl.metrics.tables import say
from kartrl.tuning.job import REASON, Job
from kartrl.tuning.plan import Plan
from kartrl.tuning.search import make_pruner, make_sampler
from kartrl.tuning.slots import Cores
from kartrl.tuning.space import defaults_in, grid, shortly
from kartrl.tuning.storage import Store, abandoned, take

DEFAULTS = "defaults"  # a trial's attribute, and the name of the base configuration's trainings
RECORD = "kartrl"  # the study's attribute: what it was begun with
OF, SEED = "of", "seed"  # attributes of a trial of the second study: DEFAULTS or a trial's number, and its seed
PATIENCE_SECONDS = 5.0  # between two looks for work while other processes train the last trials


class Studies(NamedTuple):
    """The two studies."""

    search: optuna.Study
    checks: optuna.Study

    @property
    def best(self) -> FrozenTrial | None:
        """The best trial of the search; None while there is none."""
        return self.search.best_trial if trials_of(self.search, TrialState.COMPLETE) else None

    def scores(self, of: str, seeds: Sequence[int]) -> np.ndarray:
        """Scores of the second study with these seeds, float64 [N]; `of`: as its attribute."""
        found = {
            int(trial.user_attrs[SEED]): trial.value
            for trial in trials_of(self.checks, TrialState.COMPLETE)
            if trial.user_attrs[OF] == of
        }
        return np.array([found[seed] for seed in seeds if seed in found], np.float64)


def trials_of(study: optuna.Study, *states: TrialState) -> list[FrozenTrial]:
    """The study's trials, of these states if any are given; not to be changed."""
    return study.get_trials(deepcopy=False, states=states or None)


def open_studies(plan: Plan, store: Store) -> Studies:
    """The studies; new ones begin with the trials that are known from the start.

    Raises:
        UserError: the study was begun with something else.
    """
    minimises = plan.objective.minimises
    with store.failures(), store.claiming():
        search = store.study(plan.name, minimises)
        begun, now = search.user_attrs.get(RECORD), plan.record()
        if begun is None and trials_of(search):
            raise UserError(f"{store.place}: its study {plan.name} is not kartrl's; choose another --name")
        checks = store.study(f"{plan.name} (checks)", minimises)
        if begun is None:
            base = defaults_in(plan.space, plan.files, plan.given)
            for seed in plan.own_seeds if base is None else []:
                checks.enqueue_trial({}, {OF: DEFAULTS, SEED: seed})
            for params in grid(plan.space) if plan.every else [base] if base is not None else []:
                search.enqueue_trial(params, {DEFAULTS: True} if params == base else None)
            search.set_user_attr(RECORD, now)
        elif changed := [key for key in (*begun, *now) if begun.get(key) != now.get(key)]:
            before, after = begun.get(changed[0], "none"), now.get(changed[0], "none")
            raise UserError(
                f"{plan.name}: was begun with {changed[0]} = {before}, not {after}; choose another --name for another "
                "study"
            )
    return Studies(search, checks)


class Tuning:
    """Trains the trials of a plan.

    Args:
        slots: the cores of each training that runs at the same time.

    Raises:
        UserError: as `open_studies`.
    """

    def __init__(self, plan: Plan, store: Store, slots: Sequence[Cores], console: Console) -> None:
        self._plan, self._store, self._console = plan, store, console
        self.studies = open_studies(plan, store)
        self.studies.search.pruner = make_pruner(plan)
        self._free = list(slots)
        self._jobs: dict[Job, TaskID] = {}
        self._confirmed: set[str] = set()  # whose confirmations this process has asked for
        self._due = 1.0  # when to look for work again; 0: all is done

    def run(self) -> None:
        """Until all trials are done, here and elsewhere.

        Raises:
            UserError: no training has the metric, or the storage fails.
        """
        with make_progress(self._console) as progress, self._store.failures(), self._ending():
            whole = progress.add_task("")
            while self._jobs or self._due:
                self._fill(progress)
                for job, task in list(self._jobs.items()):
                    self._step(job)
                    progress.update(task, completed=job.share)
                    if job not in self._jobs:
                        progress.remove_task(task)
                self._show(progress, whole)
                if self._jobs or self._due:
                    time.sleep(LOOK_SECONDS)

    @contextlib.contextmanager
    def _ending(self) -> Iterator[None]:
        """Context manager: trainings end with it, and save what they have learned."""
        try:
            yield
        finally:
            for job in self._jobs:
                job.request_end()
            for job in self._jobs:
                job.wait()

    def _fill(self, progress: Progress) -> None:
        """Begin trials in free slots."""
        while self._free and self._due and time.monotonic() >= self._due:
            with self._store.claiming():
                job = self._next(self._free[-1])
            if job is None:
                running = any(trials_of(study, TrialState.RUNNING) for study in self.studies)
                self._due = time.monotonic() + PATIENCE_SECONDS if running else 0.0
                return
            self._free.pop()
            self._jobs[job] = progress.add_task(f"  {_title(job)}", total=1.0)
            values = shortly(self._plan.space, job.params)
            say(self._console, f"{_title(job)}: training{f' with {values}' * bool(values)}")

    def _next(self, cores: Cores) -> Job | None:
        """The next trial, now this process's; None if there is nothing to do for now."""
        search, checks = self.studies
        for study in self.studies:
            if (left := abandoned(study)) is not None:
                return self._job(left, cores)
        if not trials_of(checks, TrialState.WAITING):
            trials = trials_of(search)
            if sum(trial.state != TrialState.WAITING for trial in trials) < self._plan.trials:
                search.sampler = make_sampler(self._plan, len(trials))
                return self._job(search.ask(), cores)
            if trials_of(search, TrialState.RUNNING):
                return None
            self._enqueue_confirmations()
        return self._job(checks.ask(), cores) if trials_of(checks, TrialState.WAITING) else None

    def _job(self, trial: optuna.Trial, cores: Cores) -> Job:
        take(trial)
        plan, attrs = self._plan, trial.user_attrs
        if OF not in attrs:
            params = {one.key: one.suggest(trial) for one in plan.space}
            prunes = DEFAULTS not in attrs and plan.pruner != "none"
            return Job(plan, trial, f"trial{trial.number}", params, plan.own_seeds, cores, prunes)
        name, params = DEFAULTS, {}
        if attrs[OF] != DEFAULTS:
            best = trials_of(self.studies.search)[int(attrs[OF])]
            name, params = f"trial{best.number}", best.params
        return Job(plan, trial, name, params, [int(attrs[SEED])], cores, prunes=False)

    def _enqueue_confirmations(self) -> None:
        """Those of the best trial and the defaults that are missing, once; none if the defaults are the best."""
        best, checks = self.studies.best, self.studies.checks
        if best is None or DEFAULTS in best.user_attrs:
            return
        there = [trial.user_attrs for trial in trials_of(checks) if trial.state != TrialState.FAIL]
        for of in (DEFAULTS, str(best.number)):
            for seed in self._plan.fresh_seeds if of not in self._confirmed else ():
                if not any(attrs[OF] == of and attrs[SEED] == seed for attrs in there):
                    checks.enqueue_trial({}, {OF: of, SEED: seed})
            self._confirmed.add(of)

    def _step(self, job: Job) -> None:
        """Continue a trial; tell the study of its end."""
        trial = job.trial
        try:
            state = job.step()
        except (RunFailed, UserError) as failure:
            if isinstance(failure, UserError) and not trials_of(self.studies.search, TrialState.COMPLETE):
                raise UserError(f"{failure}; give another --metric, and another --name for this study") from failure
            state = TrialState.FAIL
            trial.set_user_attr(REASON, str(failure))
            say(self._console, f"{_title(job)}: failed: {failure}", "red")
        if state is None:
            return
        trial.study.tell(trial, job.value if state == TrialState.COMPLETE else None, state, skip_if_finished=True)
        if state == TrialState.COMPLETE:
            best = self.studies.best if trial.study is self.studies.search else None
            mine = best is not None and best.number == trial.number
            say(self._console, f"{_title(job)}: {job.value:.4g}{', the best so far' * mine}")
        elif state == TrialState.PRUNED:
            say(self._console, f"{_title(job)}: pruned after {job.share:.0%}")
        job.request_end()
        job.wait()
        self._free.append(job.cores)
        del self._jobs[job]
        self._due = 1.0

    def _show(self, progress: Progress, whole: TaskID) -> None:
        search, checks = map(trials_of, self.studies)
        total = max(self._plan.trials, len(search)) + len(checks)
        done = sum(trial.state.is_finished() for trial in (*search, *checks))
        best = self.studies.best
        text = f"{done} of {total} trials" + (f", best: {best.number} with {best.value:.4g}" if best else "")
        progress.update(whole, description=text, total=total, completed=done + sum(job.share for job in self._jobs))


def _title(job: Job) -> str:
    return f"{job.name}, seed {job.seeds[0]}" if len(job.seeds) == 1 else job.name
