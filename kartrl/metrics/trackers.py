"""Trackers that a run's scalars can go to as well: Weights & Biases and MLflow, where they are installed."""

import contextlib
import importlib
import importlib.util
import queue
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from kartrl.config import Config, settings
from kartrl.errors import UserError

PROJECT = "kartrl"  # of W&B, and experiment of MLflow; their own environment variables go first
STEP = "agent_steps"
WAITING = 1000  # sets of scalars that wait for a tracker; more are lost
END_SECONDS = 60.0  # that a tracker has to end its run; the server may end the logger sooner


class Tracker(Protocol):
    """Where scalars go; any of its methods may raise what its library raises."""

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Log tag -> value at this many agent steps."""

    def close(self) -> None:
        """End the run there."""


def check_tracker(config: Config) -> None:
    """See that `run.tracker` is installed.

    Raises:
        UserError: it is not.
    """
    name = config.run.tracker
    if name != "none" and importlib.util.find_spec(name) is None:
        raise UserError(f"run.tracker = {name}: it is not installed; pip install 'kartrl[{name}]'")


def make_tracker(config: Config, run_folder: Path, on_failure: Callable[[Exception], None]) -> Tracker | None:
    """The tracker that `run.tracker` names, in the background; None for "none". See `Background`."""
    makers: dict[str, Callable[[Config, Path], Tracker]] = {"wandb": _WandB, "mlflow": _MLflow}
    make = makers.get(config.run.tracker)
    return None if make is None else Background(lambda: make(config, run_folder), on_failure)


class Background:
    """A tracker in a thread of its own, as it may wait long for a network that does not answer.

    Args:
        make: gives it, with a run begun.
        on_failure: called once if it fails; it gets nothing after that.
    """

    def __init__(self, make: Callable[[], Tracker], on_failure: Callable[[Exception], None]) -> None:
        self._make, self._on_failure = make, on_failure
        self._waiting: queue.Queue[tuple[int, Mapping[str, float]] | None] = queue.Queue(WAITING)
        self._thread = threading.Thread(target=self._run, name="tracker", daemon=True)
        self._thread.start()

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """See `Tracker`."""
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait((step, values))

    def close(self) -> None:
        """See `Tracker`; waits for that, but no longer than `END_SECONDS`."""
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(None)
        self._thread.join(END_SECONDS)

    def _run(self) -> None:
        try:
            tracker = self._make()
            while (waiting := self._waiting.get()) is not None:
                tracker.scalars(*waiting)
            tracker.close()
        except Exception as error:  # a stranger's code may raise anything, and must not end the logger
            self._on_failure(error)


class _WandB:
    """A run of Weights & Biases; a resumed run goes on in it."""

    def __init__(self, config: Config, run_folder: Path) -> None:
        wandb: Any = importlib.import_module("wandb")
        given = wandb.Settings()
        self._run = wandb.init(
            project=given.project or PROJECT,
            name=run_folder.name,
            id=given.run_id or run_folder.name,
            resume="allow",
            dir=run_folder,
            config=settings(config),
        )
        self._run.define_metric("*", step_metric=STEP)  # evaluations come at earlier steps than what was logged before

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log({STEP: step, **values})

    def close(self) -> None:
        self._run.finish()


class _MLflow:
    """A run of MLflow; a resumed run begins another there, with the same name."""

    def __init__(self, config: Config, run_folder: Path) -> None:
        self._mlflow: Any = importlib.import_module("mlflow")
        if not self._mlflow.environment_variables.MLFLOW_EXPERIMENT_NAME.get():
            self._mlflow.set_experiment(PROJECT)
        self._mlflow.start_run(run_name=run_folder.name)
        self._mlflow.log_params(settings(config))

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        self._mlflow.log_metrics(dict(values), step=step)

    def close(self) -> None:
        self._mlflow.end_run()
