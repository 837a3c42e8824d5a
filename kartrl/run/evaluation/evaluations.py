"""The server's side of the evaluator: starts and watches its process, receives its results, and ends it."""

import contextlib
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from kartrl import faults
from kartrl.acting.program import Program
from kartrl.config import Config
from kartrl.errors import UserError
from kartrl.files import shown, write_whole
from kartrl.learning import checkpoint
from kartrl.metrics.records import Confirmation, EpisodeRecord, Scalars, Video
from kartrl.processes.backoff import STILL_SECONDS, Helper
from kartrl.processes.child import ChildProcess
from kartrl.processes.pipes import Inbox
from kartrl.processes.spawn import spawn
from kartrl.run.run_folder import RunFolder

LAST_SECONDS = 120.0  # for the next results of the evaluation of a finished run's last checkpoint
MOST_SECONDS = 600.0  # for all of it


class Evaluations:
    """Evaluates a run's checkpoints in a separate process.

    Args:
        first_step: agent steps of the checkpoint that is resumed.
        most_envs: see `EnvSpec`.
        programs: the network's, if agents have them.
    """

    def __init__(
        self,
        config: Config,
        folder: RunFolder,
        context: Any,
        say: Callable[[str], None],
        first_step: int = 0,
        most_envs: int = 0,
        programs: Mapping[int, Program] | None = None,
    ) -> None:
        self._most_envs, self._programs = most_envs, programs
        self._config, self._folder, self._context, self._say = config, folder, context, say
        self._evaluated = first_step  # agent steps of the newest checkpoint of which there is an evaluation
        self._asked = 0  # episodes that are to confirm the newest checkpoint's return
        self._heard = 0.0  # when the process last sent something
        self._inbox: Inbox | None = None
        self._helper = Helper("evaluator", self._start, say, STILL_SECONDS + config.system.step_timeout)

    def _start(self, signs: Connection) -> ChildProcess:
        from kartrl.run.evaluation import evaluator  # here: it loads for 0.2 s, and a run's start does not need it

        faults.reach("evaluator")
        ours, theirs = self._context.Pipe()
        self._inbox = Inbox(ours)
        most = self._most_envs or evaluator.MOST_ENVS
        arguments = self._folder.path, self._config, theirs, signs, self._evaluated, most, self._programs
        process = spawn(self._context, "evaluator", evaluator.run, *arguments)
        theirs.close()
        self._ask()
        return process

    def watch(self, now: float) -> None:
        """Check that the process is alive, and replace it if not, if evaluations are enabled or one is asked for."""
        if self._config.evaluation.minutes > 0 or self._asked:
            self._helper.watch(now)

    def confirm(self, episodes: int) -> None:
        """Ask for a `Confirmation` by so many greedy episodes of the newest checkpoint."""
        self._asked = episodes
        self._ask()

    def _ask(self) -> None:
        if self._asked and self._inbox is not None:
            with contextlib.suppress(OSError):  # it has died; the next one is asked when it starts
                self._inbox.reader.send(self._asked)

    def move(self) -> None:
        """Have another process evaluate in the folder where the run is now."""
        self.terminate()
        self._helper.replace(0.0)

    def rest(self, now: float) -> None:
        self._helper.rest(now)

    def receive(self) -> list[EpisodeRecord | Scalars | Video | Confirmation | str]:
        """What the process has sent since the last call: results, and lines for the user."""
        try:
            messages = self._inbox.receive() if self._inbox is not None else []
        except EOFError:  # it is gone; `watch` handles it
            return []
        for message in messages:
            self._heard = time.monotonic()
            if isinstance(message, Scalars):
                self._evaluated = message.agent_steps
            elif isinstance(message, Confirmation):
                self._asked = 0
        return messages

    def finish(self, take_in: Callable[[], None], skipped: Callable[[], bool]) -> None:
        """Have the newest checkpoint evaluated, within `MOST_SECONDS`, after training has ended.

        Args:
            take_in: called meanwhile; receives results.
        """
        if not self._config.evaluation.minutes:
            return
        begun = self._heard = time.monotonic()
        self._asked = 0
        self.watch(begun)
        process = self._helper.process
        if process is None or self._inbox is None:
            self._say("The last checkpoint is not evaluated")
            return
        self._say("Evaluating the last checkpoint (Ctrl-C skips this) ...")
        with contextlib.suppress(OSError):  # it has died
            self._inbox.reader.send("training has ended")
        while process.is_alive() and not skipped():
            now = time.monotonic()
            if now - self._heard > LAST_SECONDS or now - begun > MOST_SECONDS:
                self._say(f"Stopped evaluating it after {now - begun:.0f} s")
                return
            process.join(0.5)
            take_in()
        take_in()

    def terminate(self) -> None:
        if self._helper.process is not None:
            self._helper.process.terminate()

    def leave_best(self) -> None:
        """If no evaluation has chosen a best checkpoint, copy the newest; the process must have ended."""
        best, newest = self._folder.path / "best.pt", checkpoint.newest(self._folder.path)
        if newest is not None and not _chosen(best):
            try:
                write_whole(best, newest.read_bytes())
            except OSError as error:
                self._say(f"failed to save {shown(best)} ({error.strerror or error})")


def _chosen(best: Path) -> bool:
    """Whether an evaluation chose this checkpoint; otherwise it is missing or damaged, or a copy of a newest one."""
    try:
        return checkpoint.load(best).score is not None
    except UserError:
        return False
