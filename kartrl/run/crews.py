"""What a run trains with: its learner, the symmetry of its network, and who acts and learns."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from kartrl.acting.recorded_work import capture_for
from kartrl.acting.sizes import Sizes
from kartrl.config import Config
from kartrl.envs.spec import EnvSpec
from kartrl.errors import UserError
from kartrl.hogwild.crew import Hogwild
from kartrl.learners.data_parallel import DataParallel
from kartrl.learning.checkpoint import Checkpoint
from kartrl.learning.counters import Counters
from kartrl.learning.gradient_reducer import SeveralLearners
from kartrl.learning.learner import make_learner
from kartrl.learning.optimizers import set_state
from kartrl.learning.schedules import Progress
from kartrl.learning.update_threads import UpdateThreads
from kartrl.models import ActorCritic
from kartrl.models.mirror_symmetry import MirrorSymmetry, symmetry_of
from kartrl.nodes.crew import Nodes
from kartrl.run.run_folder import LEARNERS
from kartrl.sizing.compatibility import is_hogwild
from kartrl.training.central import Central
from kartrl.training.crew import Crew
from kartrl.training.trainer import Trainer

Say = Callable[[str], None]


def tied(
    config: Config, network: ActorCritic, spec: EnvSpec, resume: Checkpoint | None, say: Say
) -> MirrorSymmetry | None:
    """Make a new network symmetric if the environment is; None if it is not, or the network cannot be.

    Raises:
        UserError: it cannot be, although `environment.mirrored_actions` is given.
    """
    try:
        symmetry = symmetry_of(network, spec)
    except UserError:
        if config.environment.mirrored_actions != "auto":
            raise
        return None
    if symmetry is None:
        return None
    parameters = [*network.parameters()]
    if resume is None:
        symmetry.tie(parameters)
    elif not symmetry.holds(parameters):
        say("these weights are not mirror-symmetric: environment.mirrored_actions has no effect")
        return None
    return symmetry


def make_crew(
    config: Config,
    sizes: Sizes,
    spec: EnvSpec,
    context: Any,
    network: ActorCritic,
    symmetry: MirrorSymmetry | None,
    resume: Checkpoint | None,
    progress: Progress,
    folder: Path,
    say: Say,
) -> Crew:
    """The crew that the configuration asks for, with the learner of this network.

    Args:
        context: starts processes.
        network: with the weights to begin with, on its device.
        resume: the states of the algorithm and the optimizer to begin with.
        folder: of the run.
    """
    number, place = config.system.learners, folder / LEARNERS
    device, before = next(network.parameters()).device, resume.counters if resume is not None else Counters()
    reducer = SeveralLearners(0, number, place, device) if number > 1 else None
    threads = UpdateThreads(sizes.torch_threads, sizes.most_threads)
    learner = make_learner(
        config,
        network,
        spec.action,
        reducer=reducer,
        threads=threads,
        capture=capture_for(network),
        symmetry=symmetry,
    )
    if resume is not None:
        learner.algorithm.load_state_dict(dict(resume.algorithm))
        if resume.optimizer:  # empty before the first step
            set_state(learner.optimizer, resume.optimizer)
    if is_hogwild(config):
        return Hogwild(config, sizes, spec, context, learner, progress, before, say)
    trainer = Trainer(learner, config.optimizer, progress, before)
    if reducer is not None:
        return DataParallel(config, sizes, spec, context, trainer, say, place)
    if config.cluster.ray != "none":
        return Nodes(config, sizes, spec, trainer, say)
    return Central(config, sizes, spec, context, trainer, say)


def generators_of(crew: Crew) -> dict[str, torch.Generator]:
    """All random generators of this process, by name."""
    device = next(crew.trainer.learner.network.parameters()).device
    ours = {"cuda": torch.cuda.default_generators[device.index or 0]} if device.type == "cuda" else {}
    return {"torch": torch.default_generator, **ours, **crew.generators}


def restore_generators(crew: Crew, config: Config, resume: Checkpoint | None) -> None:
    """Restore the random generators from the resumed checkpoint; call it before anything is drawn."""
    # How much a predictor has drawn since the last update depends on timing: reproducible runs use new seeds.
    resumed = None if config.run.reproducible else resume
    for name, state in (resumed.random if resumed is not None else {}).items():
        with contextlib.suppress(KeyError, RuntimeError):  # a predictor that no longer exists, or another device
            generators_of(crew)[name].set_state(state)
