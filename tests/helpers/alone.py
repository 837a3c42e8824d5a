"""A whole run in this process: one agent that runs the network itself, and learns whenever blocks are finished."""

import contextlib
import multiprocessing

import torch
from looks import describe_env

from kartrl.acting.agent import play
from kartrl.acting.agent_group import Mailbox, Stopped
from kartrl.acting.own_predictor import OwnNetwork, OwnPredictor
from kartrl.acting.recording import record
from kartrl.acting.slab import Slab, SlabShape
from kartrl.algorithms import heads_of
from kartrl.config import Config
from kartrl.envs.spec import EnvSpec
from kartrl.learning.counters import Counters
from kartrl.learning.learner import make_learner
from kartrl.learning.schedules import Progress
from kartrl.metrics.stopwatch import AGENT_STAGES, TRAINER_STAGES, Stopwatch
from kartrl.models import ActorCritic, make_network
from kartrl.training.trainer import Trainer
from kartrl.trajectory import Trajectory, decision_size

ENVS, STEPS = 8, 8  # environments, and steps of an unroll


class Alone:
    """Trains with `config` until its last step.

    Attributes:
        returns: of all episodes, in the order in which they ended.
        network: the learner's.
        spec: the environment's.
    """

    def __init__(self, config: Config) -> None:
        torch.set_num_threads(1)
        self.spec, self.returns = describe_env(config), []
        action = self.spec.action
        self.network = self.network_of(config, self.spec)
        self._slab = Slab(
            multiprocessing.get_context("spawn"),
            SlabShape(
                *(1, 1, ENVS, 2, STEPS, self.spec.observation.shape, self.spec.observation.dtype),
                decision_size(action.columns, action.parameter_size),
                self.network.state_size,
                action.parameter_size * action.masked,
            ),
        )
        learner = make_learner(config, self.network, action)
        self._trainer = Trainer(learner, config.optimizer, Progress(config.run, Counters()), Counters())
        stopwatch = Stopwatch(AGENT_STAGES)
        programs = record(config.model, self.spec.observation, action, heads_of(config), [ENVS])
        own = OwnNetwork(self._trainer.weights.share(), programs)
        self._predictor = OwnPredictor(config, self.spec, self._slab, 0, config.run.seed, own, stopwatch)
        mailbox = Mailbox(self._slab, self._slab.waker(0), self._serve, self._predictor.request)
        with contextlib.suppress(Stopped):
            play(config, action, self._slab, 0, config.run.seed, mailbox, stopwatch, self, self._slab.calls)

    @staticmethod
    def network_of(config: Config, spec: EnvSpec) -> ActorCritic:
        """The network before training."""
        torch.manual_seed(config.run.seed)
        return make_network(config.model, spec.observation, spec.action, heads_of(config))

    def _serve(self):
        for block in self._slab.take_finished(1, 0.0):
            batch = self._slab.gather([block])
            self._trainer.update(Trajectory(*map(torch.from_numpy, batch)), batch, Stopwatch(TRAINER_STAGES))
            self._slab.release([block])
        if self._trainer.finished:
            raise Stopped
        return self._predictor.serve()

    def send(self, end) -> None:
        """As the server's pipe: takes the end of an episode."""
        self.returns.append(end.episode.episodic_return)
