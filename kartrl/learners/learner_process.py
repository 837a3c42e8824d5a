"""A further learner, with its own agents, predictors and trainers; it makes each update together with the others."""

import threading
import time
import traceback
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from kartrl.acting.agent import telling
from kartrl.acting.messages import ActingState
from kartrl.acting.recorded_work import capture_for
from kartrl.acting.sizes import Sizes
from kartrl.algorithms import heads_of
from kartrl.config import Config
from kartrl.envs.spec import EnvSpec
from kartrl.errors import RunFailed
from kartrl.hardware.devices import learner_device
from kartrl.hardware.machine import keep_freed_memory
from kartrl.hardware.shared_tensors import SharedTensors
from kartrl.learning.counters import Counters
from kartrl.learning.gradient_reducer import SeveralLearners
from kartrl.learning.learner import LearnerState, make_learner
from kartrl.learning.schedules import Progress
from kartrl.learning.update_threads import UpdateThreads
from kartrl.models import make_network
from kartrl.models.mirror_symmetry import symmetry_of
from kartrl.processes.child import end_children, resume_fork_server
from kartrl.processes.spawn import allow_children, start_method
from kartrl.processes.watchdog import Suspension
from kartrl.sizing.preloading import preloaded
from kartrl.training.central import Central
from kartrl.training.trainer import Trainer

TELL_SECONDS = 1.0  # between two reports about the agents
END_SECONDS = 3.0  # for agents to end before they are killed
SEEDS = 15_485_863  # between the seeds of two learners


def run(
    config: Config,
    sizes: Sizes,
    spec: EnvSpec,
    rank: int,
    state: tuple[SharedTensors, ...],
    before: Counters,
    place: Path,
    server: Connection,
) -> None:
    """Body of a learner's process.

    Args:
        rank: rank of this learner, from 1.
        state: the first learner's initial state, see `LearnerState`.
        place: path of the file through which learners find each other.
        server: receives an `EpisodeEnd` at the end of each episode, an `ActingState` every second, lines for the user,
            and a `Failure` if the learner cannot continue; the learner ends when it is closed.
    """
    with telling(server):
        allow_children()
        keep_freed_memory()
        torch.set_num_threads(sizes.torch_threads)
        own = {"seed": (config.run.seed + rank * SEEDS) % 2**32, "minutes": 0}  # only the first learner limits the time
        config = config.model_copy(update={"run": config.run.model_copy(update=own)})
        torch.manual_seed(config.run.seed)
        device = learner_device(config.system, rank)
        network = make_network(config.model, spec.observation, spec.action, heads_of(config)).to(device)
        reducer = SeveralLearners(rank, config.system.learners, place, device)
        learner = make_learner(
            config,
            network,
            spec.action,
            reducer=reducer,
            threads=UpdateThreads(sizes.torch_threads),
            capture=capture_for(network),
            symmetry=symmetry_of(network, spec),
        )
        learner.load_state(LearnerState(*state))
        trainer = Trainer(learner, config.optimizer, Progress(config.run, before), before)
        context = start_method(*preloaded(config))
        _work(Central(config, sizes, spec, context, trainer, server.send), server)


def _work(crew: Central, server: Connection) -> None:
    """Run until the server ends it, also after losing the other learners, as the server knows which has ended."""
    failures: list[str] = []
    threading.excepthook = lambda failure: failures.append(
        "".join(traceback.format_exception_only(failure.exc_type, failure.exc_value)).strip()
    )
    crew.start()
    crew.begin()
    suspension, told = Suspension(time.monotonic()), 0.0
    try:
        while not server.poll():
            for end in crew.receive(timeout=0.5):
                server.send(end)
            if time.monotonic() - told >= TELL_SECONDS:
                told, team = time.monotonic(), crew.supervisor
                server.send(ActingState(team.alive, team.deaths, crew.predictions, crew.batches, crew.counts()))
            if failures:
                raise RunFailed(failures[0])
            resume_fork_server()
            now = time.monotonic()
            if suspension.is_over(now):
                crew.supervisor.rest(now)
            crew.watch(now)
    finally:
        crew.stop(0.0)
        end_children(END_SECONDS)
