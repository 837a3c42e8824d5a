"""`kartrl tune`: searches the values of some keys with which training scores best."""

import argparse
import math
from typing import TYPE_CHECKING

from kartrl.commands.shared.arguments import Parser
from kartrl.commands.shared.results import add_formats, console_for, print_results
from kartrl.config import read
from kartrl.errors import UserError
from kartrl.files import safe_name, shown
from kartrl.launch import typed
from kartrl.metrics.tables import say
from kartrl.options import add_config, config_files, positive, whole_number

if TYPE_CHECKING:
    from kartrl.tuning.plan import Plan

TRIALS, CONFIRM = 20, 5  # unless given
MOST_SEEDS = 2**32
SHOWN = 10  # trials in the table that is printed


def add_arguments(parser: Parser) -> None:
    parser.runs(
        run,
        "tune -c cartpole --minutes 0.5 --search 'optimizer.learning_rate=linear log:1e-4:1e-2 1e-5' appo.epochs=1..8",
        "tune -c cartpole --steps 50000 --seeds 3 --grid model.core=lstm,none model.hidden_size=32,64,128",
        "tune -c cartpole --steps 2e5 --reach 450 --search space.toml --trials 40 --pruner hyperband",
    )
    add_config(parser)
    space = parser.add_mutually_exclusive_group(required=True)
    space.add_argument(
        "--search",
        nargs="+",
        action="extend",
        metavar="KEY=VALUES",
        help="keys to search, each with LOW..HIGH, log:LOW:HIGH or choices A,B,C; or TOML files of such lines",
    )
    space.add_argument(
        "--grid",
        nargs="+",
        action="extend",
        metavar="KEY=A,B,C",
        help="the same with choices only: train every combination, in order",
    )
    parser.add_argument(
        "--trials", type=positive, metavar="N", help=f"trials in all (default {TRIALS}; with --grid every combination)"
    )
    parser.add_argument("--seeds", type=_seeds, default=1, metavar="N", help="trainings of each trial (default 1)")
    parser.add_argument(
        "--metric",
        default="episodic_return",
        help="what to maximise: a column of episodes.csv or a tag of scalars.csv, over the last tenth of the budget "
        "(default episodic_return, the return of training episodes)",
    )
    parser.add_argument("--minimise", action="store_true", help="low values of the metric are good")
    parser.add_argument(
        "--reach",
        type=_finite,
        metavar="VALUE",
        help="minimise the agent steps (with --minutes: the minutes) until the metric (for episodes: the mean of 100) "
        "reaches this value; a training that never does counts as twice its budget",
    )
    parser.add_argument(
        "--sampler", choices=("tpe", "random"), default="tpe", help="how --search chooses values (default tpe)"
    )
    parser.add_argument(
        "--pruner",
        choices=("none", "median", "halving", "hyperband"),
        default="median",
        help="which trials end early, by their curves: those below the median (default), or all but the best third "
        "after each of several budgets (successive halving, Hyperband)",
    )
    parser.add_argument(
        "--parallel",
        type=positive,
        metavar="N",
        help="trainings at a time, which share the cores equally (default: as many as cores and memory hold)",
    )
    parser.add_argument(
        "--confirm",
        type=_seeds_or_none,
        default=CONFIRM,
        metavar="N",
        help=f"at the end, train the best trial and the defaults with N fresh seeds each (default {CONFIRM}; 0: not)",
    )
    parser.add_argument(
        "--storage",
        default="",
        metavar="URL",
        help="Optuna's storage: a URL such as sqlite:///study.db, or a journal file (default: in the study's folder)",
    )
    add_formats(parser, "trial")


def run(options: argparse.Namespace) -> int:
    """Search, or continue a study of the same name; returns the exit status: 1 if no trial has come to its end."""
    try:
        import optuna  # noqa: F401
    except ImportError as error:
        raise UserError("tune needs Optuna: pip install 'kartrl[tune]'") from error

    from kartrl.comparison.experiment import resumable
    from kartrl.tuning.report import Result
    from kartrl.tuning.slots import make_slots
    from kartrl.tuning.space import scored_apart
    from kartrl.tuning.storage import Store
    from kartrl.tuning.study import Tuning

    console = console_for(options)
    plan = make_plan(options)
    if "return" in plan.objective.metric and (changing := scored_apart(plan.space)):
        say(
            console,
            f"{' and '.join(changing)} may change what {plan.objective.metric} counts, so that higher is not better: "
            "--metric names another measure",
        )
    slots = make_slots(plan.config, options.parallel, console)
    folder = plan.folder
    with resumable(folder, console):
        store = Store(folder, options.storage)
        tuning = Tuning(plan, store, slots, console)
        each = f"{len(slots)} at a time on {len(slots[0])} core{'s' * (len(slots[0]) > 1)} each"
        say(console, f"Study in {shown(folder)}: {plan.trials} trials, {each}")
        tuning.run()
        with store.failures():
            result = Result(plan, tuning.studies, store.place)
            files = result.write(folder)
    say(console, f"\n{result.table(SHOWN)}\n{result.sentence()}")
    say(console, f"Written to {shown(folder)}: {', '.join(file.name for file in files)}")
    if result.best is not None:
        say(console, f"Train the best: {typed('train')} -c {shown(folder / 'best.cfg')}")
    fields = result.as_json()
    print_results(options, fields["trials"], **fields)
    return 0 if result.best is not None else 1


def make_plan(options: argparse.Namespace) -> "Plan":
    """The plan of a command line, checked as far as that is possible without training.

    Raises:
        UserError: something is not valid.
    """
    from kartrl.tuning.objective import Objective
    from kartrl.tuning.plan import Plan
    from kartrl.tuning.space import check_effect, grid, read_space

    files = config_files(options)
    config = read(files, options.set)
    space = read_space(options.search or options.grid, "--search" if options.search else "--grid", config)
    check_effect(space, config)
    every = options.grid is not None
    name = f"tune-{safe_name(config.environment.id)}" if config.run.name == "auto" else config.run.name
    most = len(grid(space)) if every else None
    if config.run.seed + options.seeds + options.confirm > MOST_SEEDS:
        raise UserError(f"run.seed: {config.run.seed} leaves too few seeds above it, as a seed is below {MOST_SEEDS}")
    trials = options.trials or most or TRIALS
    return Plan(
        name=name,
        folder=config.run.logs_folder / name,
        files=files,
        given=options.set,
        config=config,
        space=space,
        every=every,
        objective=Objective.of(config.run, options.metric, options.minimise, options.reach),
        sampler=options.sampler,
        pruner=options.pruner,
        trials=trials if most is None else min(trials, most),
        seeds=options.seeds,
        confirm=options.confirm,
    )


def _seeds(text: str, least: int = 1) -> int:
    return whole_number(text, least, 1000)


def _seeds_or_none(text: str) -> int:
    return _seeds(text, 0)


def _finite(text: str) -> float:
    try:
        if math.isfinite(number := float(text)):
            return number
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"must be a finite number (got {text[:40]!r})")
