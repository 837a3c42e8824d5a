"""Trackers that can have a run's settings, scalars and films too: Weights & Biases, MLflow, Trackio, if installed."""

import contextlib
import importlib
import importlib.util
import io
import queue
import re
import secrets
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from kartrl.config import Config, settings
from kartrl.errors import UserError
from kartrl.files import write_whole
from kartrl.metrics.records import Video

PROJECT = "kartrl"  # of W&B, and experiment of MLflow; their own environment variables take precedence
STEP = "agent_steps"
PARAMETER = re.compile(r"[^\w./:\- ]")  # what MLflow refuses in the name of one, such as the * of a level's glob
WAITING = 1000  # sets of scalars, and films, queued for a tracker; more are lost
MOST_FILMS = 100  # of these, more than which are lost too: a film may have a megabyte
END_SECONDS = 60.0  # for a tracker to end its run; the server may end the logger sooner


class Tracker(Protocol):
    """A destination for scalars and films; all methods may raise any exception of the library."""

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Log tag -> value at this many agent steps."""

    def video(self, video: Video) -> None:
        """Log a film."""

    def close(self) -> None:
        """End the tracker's run."""


def check_tracker(config: Config) -> None:
    """Check that `run.tracker` is installed.

    Raises:
        UserError: it is not.
    """
    name = config.run.tracker
    if name != "none" and importlib.util.find_spec(name) is None:
        raise UserError(f"run.tracker = {name}: it is not installed; pip install 'kartrl[{name}]'")


def make_tracker(config: Config, run_folder: Path, on_failure: Callable[[Exception], None]) -> Tracker | None:
    """The tracker that `run.tracker` names, in the background; None for "none". See `Background`."""
    makers: dict[str, Callable[[Config, Path], Tracker]] = {"wandb": _WandB, "mlflow": _MLflow, "trackio": _Trackio}
    make = makers.get(config.run.tracker)
    return None if make is None else Background(lambda: make(config, run_folder), on_failure)


class Background:
    """A tracker in its own thread, as it may wait long for an unresponsive network.

    Args:
        on_failure: called once if it fails; nothing is sent to it after that.
    """

    def __init__(self, make: Callable[[], Tracker], on_failure: Callable[[Exception], None]) -> None:
        self._make, self._on_failure = make, on_failure
        self._waiting: queue.Queue[Callable[[Tracker], None] | None] = queue.Queue(WAITING)
        self._thread = threading.Thread(target=self._run, name="tracker", daemon=True)
        self._thread.start()

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(lambda tracker: tracker.scalars(step, values))

    def video(self, video: Video) -> None:
        """See `Tracker`; lost if much is waiting."""
        if self._waiting.qsize() < MOST_FILMS:
            self._waiting.put_nowait(lambda tracker: tracker.video(video))

    def close(self) -> None:
        """See `Tracker`; waits at most `END_SECONDS`."""
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(None)
        self._thread.join(END_SECONDS)

    def _run(self) -> None:
        try:
            tracker = self._make()
            while (send := self._waiting.get()) is not None:
                send(tracker)
            tracker.close()
        except Exception as error:  # third-party code may raise anything, and must not end the logger
            self._on_failure(error)


class _WandB:
    """A run of Weights & Biases; a resumed run continues it."""

    def __init__(self, config: Config, run_folder: Path) -> None:
        wandb: Any = importlib.import_module("wandb")
        given = wandb.setup().settings  # with those of the environment
        self._run = wandb.init(
            project=given.project or PROJECT,
            name=run_folder.name,
            id=given.run_id or _own_id(run_folder / "wandb.id"),
            resume="allow",
            dir=run_folder,
            config=settings(config),
        )
        self._run.define_metric("*", step_metric=STEP)  # evaluations have earlier steps than what was logged before

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log({STEP: step, **values})

    def video(self, video: Video) -> None:
        film = importlib.import_module("wandb").Video(io.BytesIO(video.gif), format="gif")
        self._run.log({STEP: video.agent_steps, video.tag: film})

    def close(self) -> None:
        self._run.finish()


def _own_id(file: Path) -> str:
    """An id for the run in this file's folder, which no other run of the project has, whatever its name."""
    if not file.exists():
        write_whole(file, secrets.token_hex(8).encode())
    return file.read_text(encoding="utf-8")


@contextlib.contextmanager
def _as_file(video: Video) -> Iterator[Path]:
    """Context manager: a file with this film, named after its steps."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{video.agent_steps:012}.gif"
        file.write_bytes(video.gif)
        yield file


class _MLflow:
    """A run of MLflow; a resumed run begins another there, with the same name."""

    def __init__(self, config: Config, run_folder: Path) -> None:
        self._mlflow: Any = importlib.import_module("mlflow")
        given = self._mlflow.environment_variables
        if not (given.MLFLOW_EXPERIMENT_NAME.get() or given.MLFLOW_EXPERIMENT_ID.get()):
            self._mlflow.set_experiment(PROJECT)
        self._mlflow.start_run(run_name=run_folder.name)
        self._mlflow.log_params({PARAMETER.sub("-", key): value for key, value in settings(config).items()})

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        self._mlflow.log_metrics(dict(values), step=step)

    def video(self, video: Video) -> None:
        with _as_file(video) as file:
            self._mlflow.log_artifact(str(file), video.tag)

    def close(self) -> None:
        self._mlflow.end_run()


class _Trackio:
    """A run of Trackio, in its database on this machine; a resumed run continues it."""

    def __init__(self, config: Config, run_folder: Path) -> None:
        self._trackio: Any = importlib.import_module("trackio")
        begun = run_folder / "trackio.id"
        resume = "allow" if begun.exists() else "never"  # another folder's run may have the same name
        _own_id(begun)
        with contextlib.redirect_stdout(io.StringIO()):  # it prints how to see them, below a run's panel
            self._trackio.init(
                project=PROJECT, name=run_folder.name, config=settings(config), resume=resume, embed=False
            )

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        self._trackio.log(dict(values), step=step)

    def video(self, video: Video) -> None:
        with _as_file(video) as file:
            self._trackio.log({video.tag: self._trackio.Video(file)}, step=video.agent_steps)

    def close(self) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            self._trackio.finish()
