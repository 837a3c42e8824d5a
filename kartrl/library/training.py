"""Training from another program."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch

from kartrl.config import Config, dump
from kartrl.envs.episode import Episode
from kartrl.errors import UserError
from kartrl.library.configuration import checked_config, settings_of
from kartrl.library.policy import Policy, load_policy
from kartrl.metrics.tables import make_console
from kartrl.processes.child import is_ours
from kartrl.processes.end_request import handlers_kept
from kartrl.run import training
from kartrl.run.callbacks import Callbacks, Evaluation, Update


class TrainingRun(NamedTuple):
    """A run that has ended."""

    folder: Path  # its checkpoints, metrics and configuration
    agent_steps: int
    updates: int
    episodes: int
    seconds: float  # of training
    ended_by: str  # the limit, the rule or the callback, as in its last line

    def policy(self) -> Policy:
        """Its best policy, else its newest.

        Raises:
            UserError: it ended before its first checkpoint.
        """
        return load_policy(self.folder)


def train(
    config: Config | None = None,
    *,
    overrides: Mapping[str, Any] | None = None,
    resume: str | Path | None = None,
    progress: bool = True,
    on_update: Callable[[Update], bool | None] | None = None,
    on_episode: Callable[[Episode], bool | None] | None = None,
    on_evaluation: Callable[[Evaluation], bool | None] | None = None,
) -> TrainingRun:
    """Train until the run ends, as `kartrl train` does, with the same folder, files and output.

    Callbacks are called in this thread, in the order of what they tell, within half a second. One that returns False
    ends the run as a limit does: its state is saved and its last checkpoint evaluated. An exception in one ends the
    run, which saves its state first, and is raised here; so is KeyboardInterrupt, on Ctrl-C.

    Args:
        config: of a new run, from `read_config`; by default `default.cfg`'s.
        overrides: "section.key" -> value, on top of that, or of the resumed run's.
        resume: continue this run, by its name or folder, instead of a new one.
        progress: whether to show how training goes.
        on_update: called after each update, also one that ends while the run does; in hogwild, where workers count
            together, in the order in which they are heard of.
        on_episode: called after each training episode.
        on_evaluation: called after each evaluation.

    Raises:
        UserError: bad input; nothing is left behind.
        RunFailed: a fault ended the run.
    """
    if is_ours():
        raise UserError(
            "train: this is one of kartrl's own processes, which imports this file for a function in it: put the call "
            'under `if __name__ == "__main__":`'
        )
    if resume is not None and config is not None:
        raise UserError("train: resume continues a run with its own configuration: leave config out")
    given = {"on_update": on_update, "on_episode": on_episode, "on_evaluation": on_evaluation}
    for name, callback in given.items():
        if callback is not None and not callable(callback):
            raise UserError(f"train: {name} must be a function (got {str(callback)[:80]!r})")
    callbacks = Callbacks(on_update, on_episode, on_evaluation)
    console = make_console(quiet=not progress)
    run = None if resume is None else str(resume)
    with handlers_kept(), _settings_kept():
        try:
            base = "" if config is None else dump(checked_config(config, "train"))
            ended = training.train([], settings_of(overrides), run, console, base=base, callbacks=callbacks)
        except SystemExit as error:
            if error.code == 130:
                raise KeyboardInterrupt from error
            raise
    if ended.status:
        raise KeyboardInterrupt if ended.status == 130 else SystemExit(ended.status)
    counters = ended.counters
    numbers = counters.agent_steps, counters.updates, counters.episodes, counters.seconds
    return TrainingRun(ended.folder, *numbers, ended.ended_by)


@contextmanager
def _settings_kept() -> Iterator[None]:
    """Context manager: PyTorch's settings of this process, which a run changes, are as before afterwards."""
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(deterministic)
