"""The crew of several learners: the first one's crew, in this process, and the others' processes."""

import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kartrl.acting.messages import ActingState, EpisodeEnd, Failure
from kartrl.acting.sizes import Sizes
from kartrl.config import Config
from kartrl.envs.spec import EnvSpec
from kartrl.errors import RunFailed, UserError
from kartrl.hardware.shared_tensors import SharedTensors
from kartrl.learners import learner_process
from kartrl.processes.child import LOOK_SECONDS, ChildProcess, tell_exit
from kartrl.processes.pipes import Inbox
from kartrl.processes.spawn import spawn
from kartrl.training.central import Central
from kartrl.training.crew import Team
from kartrl.training.trainer import Trainer

GONE_SECONDS = 10.0  # for a process whose connections have broken to be seen to have ended


class Other(NamedTuple):
    """A further learner."""

    name: str
    process: ChildProcess
    messages: Inbox


class AllAgents(NamedTuple):
    """The agents of all learners; see `Team`."""

    own: Team
    others: Collection[ActingState]  # as they are now
    where: str = ""

    @property
    def alive(self) -> int:
        return self.own.alive + sum(other.alive for other in self.others)

    @property
    def deaths(self) -> int:
        return self.own.deaths + sum(other.deaths for other in self.others)

    @property
    def signs(self) -> int:
        return self.own.signs + sum(other.predictions for other in self.others)

    def rest(self, now: float) -> None:
        """See `Team`; the other learners' processes do this by themselves."""
        self.own.rest(now)


class DataParallel(Central):
    """The first of several learners, and the others' processes.

    If one learner ends, so does the run: none can make an update without the others.

    Args:
        place: path of a file that does not exist yet, through which learners find each other.
    """

    def __init__(
        self,
        config: Config,
        sizes: Sizes,
        spec: EnvSpec,
        context: Any,
        trainer: Trainer,
        say: Callable[[str], None],
        place: Path,
    ) -> None:
        super().__init__(config, sizes, spec, context, trainer, say)
        self._spec, self._context, self._place = spec, context, place
        self._others: list[Other] = []
        self._states: dict[str, ActingState] = {}  # the newest, by the learner's name
        self.supervisor = AllAgents(self._acting.supervisor, self._states.values())

    @property
    def predictions(self) -> int:
        return super().predictions + sum(state.predictions for state in self._states.values())

    @property
    def batches(self) -> int:
        return super().batches + sum(state.batches for state in self._states.values())

    def counts(self) -> dict[str, float]:
        every = [super().counts(), *(state.counts for state in self._states.values())]
        return {tag: sum(counts[tag] for counts in every) for tag in every[0]}

    def start(self) -> None:
        state = tuple(SharedTensors(part) for part in self.trainer.learner.state())
        before = self.trainer.counters
        for rank in range(1, self._config.system.learners):
            ours, theirs = self._context.Pipe()
            arguments = self._config, self._sizes, self._spec, rank, state, before, self._place, theirs
            process = spawn(self._context, f"learner-{rank}", learner_process.run, *arguments)
            theirs.close()
            self._others.append(Other(f"learner {rank}", process, Inbox(ours)))
        super().start()

    def receive(self, timeout: float) -> Iterator[EpisodeEnd]:
        yield from super().receive(timeout)
        for other in self._others:
            yield from self._take_in(other)

    def _take_in(self, other: Other) -> Iterator[EpisodeEnd]:
        try:
            messages = other.messages.receive()
        except (EOFError, OSError):  # it is gone, or its pipe was closed; `watch` handles it
            return
        for message in messages:
            if isinstance(message, EpisodeEnd):
                yield message
            elif isinstance(message, ActingState):
                self._states[other.name] = message
            elif not isinstance(message, Failure):
                self._say(f"{other.name}: {message}")
            elif message.user_error:
                raise UserError(message.reason)
            else:
                lines = message.reason.splitlines()
                raise RunFailed(f"{other.name} has ended: {'; '.join(dict.fromkeys((lines[0], lines[-1])))}")

    def watch(self, now: float) -> None:
        super().watch(now)
        lost = self.trainer.learner.reducer.lost
        while lost is not None and all(other.process.is_alive() for other in self._others):
            if time.monotonic() - now > GONE_SECONDS:
                raise RunFailed(f"the learners lost contact: {lost}")
            time.sleep(LOOK_SECONDS)
        for other in self._others:
            if not other.process.is_alive():
                for _ in self._take_in(other):  # it may have said why
                    pass
                raise RunFailed(f"{other.name} has ended: {tell_exit(other.process.exitcode)}")

    def stop(self, timeout: float) -> None:
        """See `Crew`: the others complete the update in progress with this one, then end."""
        super().stop(timeout)
        for other in self._others:
            other.messages.reader.close()
        self._place.unlink(missing_ok=True)
