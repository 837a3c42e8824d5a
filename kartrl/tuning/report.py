"""What a study has found: its table, the best configuration, pictures, and whether the best beats the defaults."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from optuna.trial import FrozenTrial, TrialState

from kartrl.comparison.picture import save_png
from kartrl.comparison.report import SEED, estimate, interval, markdown_table
from kartrl.comparison.statistics import estimate_gain
from kartrl.config import dump
from kartrl.files import json_text, whole_file, write_whole
from kartrl.tuning.job import REASON, SCORES
from kartrl.tuning.plan import Plan
from kartrl.tuning.space import short
from kartrl.tuning.study import DEFAULTS, Studies

MOST_CONTOURS = 4  # parameters, the most important ones: each pair of them is a picture
DPI = 80
REASON_LENGTH = 120  # characters of the reason of a failure in the table
LEAST = 4  # fresh seeds: of fewer, even a difference between all of them would be by chance in one case of twenty


class Result:
    """The result of a study so far."""

    def __init__(self, plan: Plan, studies: Studies, storage: str) -> None:
        self._plan, self._studies, self._storage = plan, studies, storage
        self._trials = studies.search.get_trials(deepcopy=False)
        self.best = studies.best
        own = next((trial for trial in self._trials if DEFAULTS in trial.user_attrs), None)
        self._defaults = studies.scores(DEFAULTS, plan.own_seeds) if own is None else _scores(own)
        self._fresh = studies.scores(DEFAULTS, plan.fresh_seeds)
        self._again = studies.scores("" if self.best is None else str(self.best.number), plan.fresh_seeds)

    def sentence(self) -> str:
        """Whether the best trial beats the defaults by more than noise."""
        best = self.best
        if best is None:
            return "No trial has come to its end"
        if DEFAULTS in best.user_attrs:
            return f"No trial scored better than the defaults, {estimate([self._defaults])}"
        name, count = f"Trial {best.number}", min(len(self._again), len(self._fresh))
        if count < LEAST:
            return (
                f"{name} scored best, {estimate([_scores(best)])}, but the best of many is partly luck: whether it "
                f"beats the defaults by more than noise, fresh seeds tell, {LEAST} or more: --confirm 5"
            )
        gain = estimate_gain(self._again, self._fresh, np.random.default_rng(SEED))
        bounds = f"the difference is {gain.value:.4g}, 95 % interval {gain.low:.4g} to {gain.high:.4g}"
        if gain.low <= 0 <= gain.high:
            verdict = "does not beat the defaults by more than noise"
        elif (gain.value < 0) == self._plan.objective.minimises:
            verdict = "beats the defaults by more than noise"
        else:
            verdict = "is worse than the defaults by more than noise"
        return (
            f"{name} {verdict}: with {count} fresh seeds each, it scored {estimate([self._again])} and the defaults "
            f"{estimate([self._fresh])}; {bounds}"
        )

    def table(self, most: int | None = None) -> str:
        """In Markdown: the defaults and the trials, the best first; `most`: at most so many."""
        keys = [one.key for one in self._plan.space]
        rows = []
        if len(self._defaults) and not any(DEFAULTS in trial.user_attrs for trial in self._trials):
            rows.append([DEFAULTS, *[""] * len(keys), estimate([self._defaults]), str(len(self._defaults)), ""])
        ranked = self._ranked()
        for trial in ranked[:most]:
            done, scores = trial.state == TrialState.COMPLETE, _scores(trial)
            name = f"{trial.number} ({DEFAULTS})" if DEFAULTS in trial.user_attrs else str(trial.number)
            score = estimate([scores]) if done else ""
            reason = trial.user_attrs.get(REASON, "").replace("|", "/")[:REASON_LENGTH]
            state = "" if done else f"failed: {reason}" if reason else trial.state.name.lower()
            values = [short(trial.params.get(key, "")) for key in keys]
            rows.append([name, *values, score, str(len(scores)), state])
        more = f"\n{len(ranked) - most} more trials\n" if most is not None and len(ranked) > most else ""
        return f"{self._plan.objective}\n\n{markdown_table(['trial', *keys, 'score', 'runs', ''], rows)}{more}"

    def _ranked(self) -> list[FrozenTrial]:
        """Complete trials, the best first, then others."""
        sign = 1 if self._plan.objective.minimises else -1
        order = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.RUNNING, TrialState.FAIL, TrialState.WAITING)

        def rank(trial: FrozenTrial) -> tuple[int, float]:
            return order.index(trial.state), sign * (trial.value or 0.0) if trial.state == TrialState.COMPLETE else 0.0

        return sorted((trial for trial in self._trials if trial.state != TrialState.WAITING), key=rank)

    def as_json(self) -> dict[str, Any]:
        """What docs/reference/json.md describes."""
        objective = self._plan.objective
        return {
            "study": self._plan.name,
            "storage": self._storage,
            "metric": objective.metric,
            "objective": str(objective),
            "minimised": objective.minimises,
            "seeds": self._plan.own_seeds,
            "best": None if self.best is None else self.best.number,
            "defaults": _with_interval(self._defaults),
            "confirmed": {"best": _with_interval(self._again), "defaults": _with_interval(self._fresh)},
            "sentence": self.sentence(),
            "trials": [
                {
                    "trial": trial.number,
                    "state": trial.state.name.lower(),
                    "defaults": DEFAULTS in trial.user_attrs,
                    "values": trial.params,
                    **(_with_interval(_scores(trial)) or {"scores": [], "iqm": None, "low": None, "high": None}),
                    "reason": trial.user_attrs.get(REASON),
                }
                for trial in self._trials
            ],
        }

    def write(self, folder: Path) -> list[Path]:
        """Write best.cfg, tuning.md, tuning.json and pictures; return the files.

        Raises:
            OSError: one cannot be written.
        """
        files = [folder / "tuning.md", folder / "tuning.json"]
        pictures = self._draw(folder)
        shown = "".join(f"\n![{file.stem}]({file.name})\n" for file in pictures)
        write_whole(files[0], f"{self.table()}\n{self.sentence()}\n{shown}".encode())
        write_whole(files[1], json_text(self.as_json()).encode())
        if self.best is not None:
            files.insert(0, folder / "best.cfg")
            write_whole(files[0], self._best_config(self.best).encode())
        return [*files, *pictures]

    def _best_config(self, best: FrozenTrial) -> str:
        config = self._plan.config_of(best.params, "run.name=auto", "run.logs=auto")
        about = {"study": self._plan.name, "trial": str(best.number), "score": estimate([_scores(best)])}
        return dump(config, about={**about, "objective": str(self._plan.objective)})

    def _draw(self, folder: Path) -> list[Path]:
        """Optuna's pictures; those for which there are too few trials or parameters are left out."""
        import matplotlib

        matplotlib.use("agg")  # Optuna draws by pyplot, which would look for a display
        from matplotlib import pyplot
        from optuna.importance import get_param_importances
        from optuna.visualization import matplotlib as pictures

        study, files, name = self._studies.search, [], str(self._plan.objective)
        complete = [trial for trial in self._trials if trial.state == TrialState.COMPLETE]
        varied = [one.key for one in self._plan.space if len({trial.params[one.key] for trial in complete}) > 1]
        drawn: dict[str, tuple[Any, tuple[float, float]]] = {}  # axes, one or several, and the size in inches
        with warnings.catch_warnings(), pyplot.style.context("default"):
            warnings.simplefilter("ignore")
            if complete:
                drawn["history"] = pictures.plot_optimization_history(study, target_name=name), (9, 4.5)
            if varied:
                most = list(get_param_importances(study, params=varied))[:MOST_CONTOURS]
                drawn["importance"] = pictures.plot_param_importances(study, params=varied), (7, 1 + 0.6 * len(varied))
                drawn["slices"] = pictures.plot_slice(study, params=varied, target_name=name), (1 + 3 * len(varied), 4)
            if len(varied) > 1:
                side = 2 + 3.2 * (len(most) if len(most) > 2 else 1.5)
                drawn["contours"] = pictures.plot_contour(study, params=most, target_name=name), (side, side)
            for stem, (axes, size) in drawn.items():
                figure = np.ravel(axes)[0].figure
                figure.set_size_inches(*size)
                if np.size(axes) > 1:  # of one with a colour bar, the layout divides by zero
                    figure.set_layout_engine("constrained")
                files.append(folder / f"{stem}.png")
                with whole_file(files[-1]) as temporary:
                    save_png(figure, temporary, dpi=DPI, bbox_inches="tight")
                pyplot.close(figure)
        return files


def _scores(trial: FrozenTrial) -> np.ndarray:
    return np.array(trial.user_attrs.get(SCORES, []), np.float64)


def _with_interval(scores: np.ndarray) -> dict[str, Any] | None:
    return {"scores": scores.tolist(), **interval([scores])} if len(scores) else None
