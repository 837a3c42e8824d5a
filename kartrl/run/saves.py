"""Saves a run's checkpoints; whatever prevents that does not end the run."""

from collections.abc import Callable, Mapping

from torch import Tensor

from kartrl.config import Config
from kartrl.envs.spec import EnvSpec
from kartrl.envs.worlds import load_world
from kartrl.files import shown
from kartrl.learning import checkpoint
from kartrl.learning.checkpoint import Checkpoint
from kartrl.learning.counters import Counters
from kartrl.run.resuming import command
from kartrl.run.run_folder import CHECKPOINTS, RunFolder
from kartrl.training.replay_saves import ReplaySaves
from kartrl.training.trainer import State


class Saves:
    """The checkpoints of a run.

    Args:
        replays: saved with them.

    Attributes:
        problem: why the newest state could not be saved; None if it was.
    """

    def __init__(
        self,
        config: Config,
        folder: RunFolder,
        spec: EnvSpec,
        replays: ReplaySaves,
        resume: Checkpoint | None,
        provenance: Mapping[str, str],
        say: Callable[[str], None],
    ) -> None:
        self._config, self._folder, self._spec, self._replays, self._say = config, folder, spec, replays, say
        self._provenance = provenance
        self._contents = load_world(config).contents()
        self._newest = (Counters(), config) if resume is None else (resume.counters, resume.config)
        self.problem: str | None = None

    @property
    def newest(self) -> Counters:
        """The counters of the newest checkpoint; zeros if there is none."""
        return self._newest[0]

    def move(self) -> None:
        """The folder has been moved or replaced: save anew what is not in it."""
        self._replays.move(self._folder.path)
        if checkpoint.newest(self._folder.path) is None:
            self._newest = Counters(), self._config

    def save(self, state: State, counters: Counters, random: Mapping[str, Tensor], more: str) -> None:
        """Save a checkpoint, unless nothing was learned since the newest one, and delete the oldest ones.

        Args:
            counters: as of `state`, complete.
            random: states of the random generators.
            more: what follows the message if this fails.
        """
        if counters.updates == self.newest.updates:  # and what was saved may be more: its replays, for instance
            return
        name = name_of(counters)
        path = self._folder.path / CHECKPOINTS / f"{name}.pt"
        content = Checkpoint(
            self._config,
            state.network,
            state.optimizer,
            counters,
            self._spec.observation,
            self._spec.action,
            random=random,
            algorithm=state.algorithm,
            contents=self._contents,
            provenance=self._provenance,
            most_envs=self._spec.most_envs,
        )
        self._replays.save(name)
        try:
            checkpoint.save(path, content)
            self._newest, self.problem = (counters, self._config), None
            self._replays.remove_others(name)
            checkpoint.remove_oldest(self._folder.path, self._config.run.keep_checkpoints)
        except (OSError, checkpoint.NotFinite) as error:
            self.problem = (error.strerror if isinstance(error, OSError) else None) or str(error)
            self._say(f"failed to save {shown(path)} ({self.problem}){more}")

    def fail(self, problem: str) -> None:
        """Tell that there is no state to save."""
        self.problem = problem
        self._say(f"failed to save: {problem}")

    def losses(self, agent_steps: int) -> str:
        """What would be lost if the process ended now, after so many agent steps."""
        counters, config = self._newest
        lost = agent_steps - counters.agent_steps
        words = f"{lost:,} agent steps are lost" if lost else "nothing is lost"
        if counters.agent_steps:
            words += f"; resume from {counters.agent_steps:,} with: {command(self._folder.path, config, counters)}"
        return words


def name_of(counters: Counters) -> str:
    return f"{counters.agent_steps:010d}"
