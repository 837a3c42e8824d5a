"""Studies without trainings: what they begin with, scores of finished runs, pruning, and the verdict."""

import json

import numpy as np
import optuna
import pytest
from finished_runs import write_run
from optuna.trial import TrialState
from policies import make_checkpoint

from kartrl.comparison.experiment import Cell, record
from kartrl.config import read
from kartrl.errors import RunFailed, UserError
from kartrl.learning import checkpoint
from kartrl.tuning.job import Job
from kartrl.tuning.objective import Objective
from kartrl.tuning.plan import Plan
from kartrl.tuning.report import Result
from kartrl.tuning.search import make_pruner, make_sampler
from kartrl.tuning.space import read_space
from kartrl.tuning.storage import Store
from kartrl.tuning.study import DEFAULTS, OF, SEED, open_studies, trials_of

SEARCH = ("model.hidden_size=8..64",)


def make_plan(folder, search=SEARCH, given=("run.agent_steps=20000",), seeds=1, option="--search", **objective):
    config = read(["cartpole"], given)
    space = read_space(search, option, config)
    goal = Objective.of(config.run, **{"metric": "episodic_return", "lower": False, "least": None, **objective})
    return Plan(
        name="study",
        folder=folder,
        files=["cartpole"],
        given=list(given),
        config=config,
        space=space,
        every=option == "--grid",
        objective=goal,
        sampler="tpe",
        pruner="median",
        trials=4,
        seeds=seeds,
        confirm=5,
    )


def test_the_defaults_are_the_first_trial(tmp_path):
    search, checks = open_studies(make_plan(tmp_path), Store(tmp_path, ""))
    (first,) = search.trials
    assert (first.state, first.user_attrs) == (TrialState.WAITING, {DEFAULTS: True})
    assert search.ask().suggest_int("model.hidden_size", 8, 64) == 64
    assert checks.trials == []


def test_defaults_outside_the_space_are_trained_beside_it(tmp_path):
    plan = make_plan(tmp_path, ("model.hidden_size=8..16",), seeds=2)
    search, checks = open_studies(plan, Store(tmp_path, ""))
    assert search.trials == []
    assert [trial.user_attrs for trial in checks.trials] == [{OF: DEFAULTS, SEED: seed} for seed in (1, 2)]
    again = open_studies(plan, Store(tmp_path, ""))
    assert len(again.checks.trials) == 2, "they are there once"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"seeds": 2}, "begun with seeds = 1, not 2"),
        ({"search": ("model.hidden_size=8..32",)}, "begun with search of model.hidden_size"),
        ({"given": ("run.agent_steps=20000", "model.core=lstm")}, "begun with model.core = none, not lstm"),
        ({"least": 100.0}, "not agent steps until episodic_return reaches 100"),
    ],
)
def test_another_study_of_the_same_name_is_refused(tmp_path, changes, said):
    open_studies(make_plan(tmp_path), Store(tmp_path, ""))
    with pytest.raises(UserError, match=said):
        open_studies(make_plan(tmp_path, **changes), Store(tmp_path, ""))


def test_a_study_of_another_program_is_refused(tmp_path):
    Store(tmp_path, "").study("study", minimises=False).ask()
    with pytest.raises(UserError, match="is not kartrl's"):
        open_studies(make_plan(tmp_path), Store(tmp_path, ""))


def test_scores_are_of_the_metric_or_the_time_to_reach_it(tmp_path):
    folder = write_run(tmp_path / "run", returns=[float(number) for number in range(200)])
    limits = read(overrides=["run.agent_steps=20000"]).run
    objective = Objective.of(limits, "episodic_return", lower=False, least=None)
    assert objective.score(folder) == 189.5, "the last tenth"
    assert objective.so_far(folder, 0.5) == 94.5
    reach = Objective.of(limits, "episodic_return", lower=False, least=100.0)
    assert (reach.score(folder), reach.has_reached(folder)) == (15100, True), "the mean of 51 to 150 is above 100"
    assert reach.so_far(folder, 0.5) == -94.5, "low is good"
    never = Objective.of(limits, "episodic_return", lower=False, least=300.0)
    assert (never.score(folder), never.has_reached(folder)) == (40000, False), "twice the budget"
    minutes = Objective.of(limits.model_copy(update={"minutes": 20.0}), "episodic_return", lower=True, least=99.5)
    assert minutes.score(folder) == pytest.approx(10.0), "the mean of the first 100"
    late = write_run(tmp_path / "late", scalars={"loss": [3.0]})
    beyond = Objective.of(read(overrides=["run.agent_steps=900"]).run, "loss", lower=True, least=None)
    assert (beyond.score(late), beyond.so_far(late, 1.0)) == (3.0, None), "its only value is after the budget"
    with pytest.raises(UserError, match="has no chart/none yet"):
        Objective.of(limits, "chart/none", lower=False, least=None).score(folder)


def finished(plan, name, params, seed, value):
    """A run as a trial leaves it."""
    ours = f"run.seed={seed}", f"run.logs={plan.folder}", f"run.name={name}__{seed}"
    cell = Cell(name, plan.config_of(params, *ours), plan.folder / f"{name}__{seed}")
    record(cell)
    write_run(cell.folder, returns=[value] * 200)
    state = make_checkpoint(20000, f"model.hidden_size={cell.config.model.hidden_size}")
    checkpoint.save(cell.folder / "checkpoints" / "0000020000.pt", state._replace(config=cell.config))


def test_a_trial_is_pruned_after_the_seeds_that_it_had(tmp_path):
    plan = make_plan(tmp_path, seeds=3)
    search = open_studies(plan, Store(tmp_path, "")).search
    search.pruner = optuna.pruners.ThresholdPruner(lower=10.0)
    complete, pruned = TrialState.COMPLETE, TrialState.PRUNED
    for name, values, states in (
        ("trial0", (20.0, 4.0, 30.0), [None, None, complete]),
        ("trial1", (20.0, -9.0, 30.0), [None, pruned]),
    ):
        trial = search.ask()
        params = {one.key: one.suggest(trial) for one in plan.space}
        for seed, value in zip(plan.own_seeds, values, strict=True):
            finished(plan, name, params, seed, value)
        job = Job(plan, trial, name, params, plan.own_seeds, [], prunes=True)
        assert [job.step() for _ in states] == states, name


def test_median_pruner_ends_trials_that_collapse(tmp_path):
    plan = make_plan(tmp_path)
    study = optuna.create_study(direction="maximize", pruner=make_pruner(plan))
    for _ in range(5):
        trial = study.ask()
        for step in range(1, 11):
            trial.report(float(step), step)
        study.tell(trial, 10.0)
    trial = study.ask()
    pruned = []
    for step, value in enumerate((0.0, 0.0, 30.0, 30.0, 4.9, 6.1), 1):
        trial.report(value, step)
        pruned.append(trial.should_prune())
    assert pruned == [False, False, False, False, True, False], "as it is now, not as it was at best"


def test_a_continued_study_draws_new_values(tmp_path):
    plan = make_plan(tmp_path)
    drawn = []
    for count in range(3):
        study = optuna.create_study(sampler=make_sampler(plan, count))
        drawn.append(study.ask().suggest_float("x", 0, 1))
    assert len(set(drawn)) == 3


def test_a_refused_trial_fails_by_itself(tmp_path):
    plan = make_plan(tmp_path, ("optimizer.centered=true,false",), option="--grid")
    trial = open_studies(plan, Store(tmp_path, "")).search.ask()
    job = Job(plan, trial, "trial0", {"optimizer.centered": "true"}, [1], [], prunes=False)
    with pytest.raises(RunFailed, match=r"refused: .*centered is a variant of rmsprop"):
        job.step()


@pytest.mark.parametrize(
    ("best", "defaults", "minimised", "verdict"),
    [
        ((10, 11, 12, 13, 14), (1, 2, 3, 4, 5), False, "beats the defaults by more than noise"),
        ((1, 2, 3, 4, 5), (10, 11, 12, 13, 14), False, "is worse than the defaults by more than noise"),
        ((1, 2, 3, 4, 5), (10, 11, 12, 13, 14), True, "beats the defaults by more than noise"),
        ((1, 9, 2, 8, 5), (2, 8, 1, 9, 4), False, "does not beat the defaults by more than noise"),
        ((10, 11, 12), (1, 2, 3), False, "fresh seeds tell, 4 or more"),
    ],
)
def test_verdict_is_by_fresh_seeds_and_their_noise(tmp_path, best, defaults, minimised, verdict):
    plan = make_plan(tmp_path, least=100.0 if minimised else None)
    search, checks = studies = open_studies(plan, Store(tmp_path, ""))
    for value in (50.0, 40.0 if minimised else 60.0):
        trial = search.ask()
        trial.suggest_int("model.hidden_size", 8, 64)
        trial.set_user_attr("scores", [value])
        search.tell(trial, value)
    for of, values in ((DEFAULTS, defaults), ("1", best)):
        for seed, value in zip(plan.fresh_seeds, values, strict=False):
            checks.enqueue_trial({}, {OF: of, SEED: seed})
            checks.tell(checks.ask(), float(value))
    result = Result(plan, studies, "study.journal")
    assert result.best is not None
    assert result.best.number == 1
    assert verdict in result.sentence()
    assert json.loads(json.dumps(result.as_json()))["confirmed"]["best"]["scores"] == [float(value) for value in best]
    assert np.array_equal(studies.scores("1", plan.fresh_seeds), best)
    assert len(trials_of(search, TrialState.COMPLETE)) == 2
