"""Hogwild workers: one alone is a sequential learner; what they count and skip; lengths and devices in turn."""

import itertools
import multiprocessing

import pytest
import torch
from gymnasium.spaces import Discrete

from kartrl.acting.agent import play
from kartrl.acting.agent_group import Mailbox, Stopped
from kartrl.config import read
from kartrl.envs.observation_spec import plain
from kartrl.envs.spec import ActionSpec, EnvSpec
from kartrl.hogwild.board import HogwildBoard
from kartrl.hogwild.crew import HogwildTrainer, worker_setup
from kartrl.hogwild.worker import Worker
from kartrl.learning.counters import Counters
from kartrl.learning.divergence_guard import Diverged
from kartrl.learning.learner import make_learner
from kartrl.learning.optimizers import first_state, get_state, hold_state
from kartrl.learning.schedules import Progress
from kartrl.metrics.stopwatch import TRAINER_STAGES, Stopwatch
from kartrl.models import make_network
from kartrl.sizing.auto import choose_sizes
from kartrl.training.trainer import Made, Trainer
from kartrl.trajectory import Trajectory, split_decision

SPEC = EnvSpec("CartPole", plain(4), ActionSpec.of(Discrete(2)), 0.0)
BEFORE = Counters()


def configured(*overrides):
    base = ["environment.id=CartPole-v1", "algorithm.name=a3c", "a3c.hogwild=true", "model.hidden_size=8"]
    base += ["system.device=cpu", "system.agents=1", "algorithm.unroll_length=7"]
    return read(overrides=[*base, "run.agent_steps=1000", *overrides])


def network_of(config):
    torch.manual_seed(1)
    return make_network(config.model, SPEC.observation, SPEC.action)


def board_of(config):
    network = network_of(config)
    statistics = first_state(config.optimizer, network.parameters()) if config.a3c.share_statistics else {}
    return HogwildBoard(config.system.agents, network.state_dict(), statistics)


class Ring:
    """A worker in this process, which ends after some unrolls."""

    def __init__(self, config, board, number=0, poisoned=()):
        self.reader, writer = multiprocessing.Pipe(duplex=False)
        config, sizes = worker_setup(config, choose_sizes(config, SPEC), number)
        self.worker = Worker(config, sizes, SPEC, board, number, 5, BEFORE, writer)
        self._config, self._writer, self._poisoned = config, writer, poisoned
        self.batches: list[Trajectory] = []

    def run(self, unrolls):
        slab = self.worker.slab

        def serve():
            for block in filter(slab.is_finished, range(slab.num_blocks)):
                if len(self.batches) in self._poisoned:
                    slab.reward[block] = float("nan")
                self.batches.append(Trajectory(*map(torch.from_numpy, slab.gather([block]))))
            answered = self.worker.serve()
            if len(self.batches) == unrolls:
                raise Stopped
            return answered

        mailbox = Mailbox(slab, slab.waker(0), serve)
        with pytest.raises(Stopped):
            play(self._config, SPEC.action, slab, 0, 5, mailbox, self.worker.stopwatch, self._writer, slab.calls)


def sequential(config, batches, before_each=lambda network, batch: None):
    """The same network and algorithm, in one place, one update after the other."""
    network = network_of(config)
    learner = make_learner(config, network, SPEC.action)
    trainer = Trainer(learner, config.optimizer, Progress(config.run, BEFORE), BEFORE)
    for batch in batches:
        before_each(network, batch)
        trainer.update(batch, Trajectory(*(tensor.numpy() for tensor in batch)), Stopwatch(TRAINER_STAGES))
    return trainer


OPTIONS = {
    "adam": [],
    "lstm, 3 environments, amsgrad": ["model.core=lstm", "system.envs_per_agent=3", "optimizer.amsgrad=true"],
    "rmsprop, normalised observations": [
        "optimizer.name=rmsprop",
        "optimizer.centered=true",
        "optimizer.momentum=0.5",
        "model.normalise_observations=true",
    ],
    "normalised returns": ["model.normalise_returns=true", "a3c.normalise_advantages=true"],
    "statistics of its own": ["a3c.share_statistics=false"],
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_one_worker_equals_a_sequential_learner_bit_for_bit(options):
    config = configured("a3c.gae_lambda=0.9", *options)
    board = board_of(config)
    ring = Ring(config, board)
    ring.run(unrolls=6)

    def acted_with(network, batch):
        with torch.no_grad():
            output, _ = network(batch.observation, batch.first, batch.initial_state)
        value = split_decision(batch.decision, 1).value
        torch.testing.assert_close(value, output.value[:-1], atol=1e-5, rtol=1e-5)

    expected = sequential(config, ring.batches, acted_with)
    envs = 3 if config.model.core == "lstm" else 1
    assert all(batch.reward.shape == (7, envs) for batch in ring.batches)
    for name, tensor in expected.learner.network.state_dict().items():
        assert torch.equal(board.network[name], tensor), name
    if board.statistics:
        for name, tensor in get_state(expected.learner.optimizer).items():
            assert torch.equal(board.statistics[name], tensor), name
    counted = board.counters(BEFORE)
    assert (counted.agent_steps, counted.updates) == (expected.counters.agent_steps, 6)
    assert counted.agent_steps == sum(int(batch.valid.sum()) for batch in ring.batches)
    assert board.unrolls.sum() == 6 * envs


def test_updates_of_a_worker_are_told_with_counters_after_them():
    config = configured("system.agents=2")
    board = board_of(config)
    board.steps[1], board.updates[1] = 50, 2  # of another worker
    ring = Ring(config, board)
    ring.worker.trainer.keeps = True
    ring.run(unrolls=3)
    sent = [ring.reader.recv() for _ in iter(ring.reader.poll, False)]
    told = [message.counters for message in sent if isinstance(message, Made)]
    steps = itertools.accumulate((int(batch.valid.sum()) for batch in ring.batches), initial=50)
    assert [each.agent_steps for each in told] == [*steps][1:]
    assert [each.updates for each in told] == [3, 4, 5]


def test_two_workers_share_parameters_with_own_unroll_lengths():
    config = configured("a3c.unroll_lengths=4 9", "system.agents=2")
    board = board_of(config)
    rings = [Ring(config, board, number) for number in range(2)]
    for ring in rings:
        ring.run(unrolls=3)
    assert [ring.batches[0].reward.shape for ring in rings] == [(4, 1), (9, 1)]
    assert rings[1].batches[1].version.unique().tolist() == [4], "begun with the updates of both"
    assert board.updates.tolist() == [3, 3]
    for key in [key for key in board.statistics if key.endswith("/step")]:
        assert board.statistics[key].item() == 6, "one count of steps for all"
    assert board.steps.tolist() == [sum(int(batch.valid.sum()) for batch in ring.batches) for ring in rings]


def test_the_lag_of_a_workers_first_unroll_is_that_of_later_ones():
    config = configured("system.agents=2")
    board = board_of(config)
    board.updates[0] = 3  # of another worker, after those before a resume
    ring = Ring(config, board, 1)
    ring.run(unrolls=2)
    assert [batch.version.unique().tolist() for batch in ring.batches] == [[3], [4]]


def test_two_workers_share_return_statistics_in_their_own_units():
    """The second one's unroll is in the unit of the beginning, which the first has changed meanwhile."""
    config = configured("model.normalise_returns=true", "system.agents=2", "optimizer.learning_rate=0.0001")
    board = board_of(config)
    first, second = (Ring(config, board, number) for number in range(2))
    first.run(unrolls=5)
    changed = board.network["returns.var"].clone()
    second.run(unrolls=1)
    assert changed != 1
    alone = board_of(config)
    late = Ring(config, alone, 1)
    late.run(unrolls=1)  # the same unroll with the same network, so the same returns
    assert torch.equal(late.batches[0].decision, second.batches[0].decision)
    counts = [int(returns["returns.count"]) for returns in (board.network, alone.network)]
    of_late = _moments(alone.network)
    of_first = [(whole - share) for whole, share in zip(_moments(board.network), of_late, strict=True)]
    mean, square = (moment / (counts[0] - counts[1]) for moment in of_first)
    assert float(square - mean**2) == pytest.approx(float(changed), rel=1e-3)


def _moments(network):
    """Sums of all returns and of their squares, which add up over what has been counted."""
    count, mean = network["returns.count"], (network["returns.mean"] + network["returns.mean_rest"]).double()
    return count * mean, count * (network["returns.var"].double() + mean**2)


def test_non_finite_update_changes_nothing_and_is_reported():
    config = configured("model.normalise_observations=true", "model.normalise_returns=true")
    board = board_of(config)
    ring = Ring(config, board, poisoned=(2, 3))
    ring.run(unrolls=4)
    assert (board.skipped.tolist(), board.in_a_row.tolist(), board.updates.tolist()) == ([2], [2], [2])
    good = sequential(config, ring.batches[:2]).learner.network.state_dict()
    for name, tensor in good.items():
        assert torch.equal(board.network[name], tensor), name
    ring.run(unrolls=5)
    assert (board.skipped.tolist(), board.in_a_row.tolist(), board.updates.tolist()) == ([2], [0], [3])


def test_nothing_is_learned_beyond_the_limit():
    config = configured("run.agent_steps=10")
    board = board_of(config)
    Ring(config, board).run(unrolls=5)
    assert board.updates.tolist() == [2], "7 steps are not the limit, those of two unrolls are"


def server_of(config, board):
    learner = make_learner(config, network_of(config), SPEC.action)
    board.network.take_place(learner.network)
    hold_state(learner.optimizer, board.statistics)
    return HogwildTrainer(board, learner, config, Progress(config.run, BEFORE), BEFORE)


def test_server_rolls_back_once_and_then_gives_up():
    config = configured("optimizer.max_skipped_updates=3")
    board = board_of(config)
    server = server_of(config, board)
    Ring(config, board).run(unrolls=2)
    server.look()
    good = server.state()
    assert good.counters.updates == 2
    with torch.no_grad():
        for tensor in (*board.network.values(), *board.statistics.values()):
            tensor.fill_(float("nan"))
    ring = Ring(config, board)
    ring.run(unrolls=2)
    server.guard_against_divergence()
    assert not server.messages
    ring.run(unrolls=3)
    server.guard_against_divergence()
    assert f"rolling back weights and optimizer to {good.counters.agent_steps} agent steps" in server.messages[0]
    for kept, shared in ((good.network, board.network), (good.optimizer, board.statistics)):
        assert all(torch.equal(tensor, shared[name]) for name, tensor in kept.items())
    ring.run(unrolls=5)
    assert board.in_a_row.tolist() == [0], "the worker has fetched them"
    board.in_a_row[0] = 3
    with pytest.raises(Diverged, match="again after a rollback"):
        server.guard_against_divergence()


def test_lengths_and_devices_alternate_over_the_workers():
    config = configured("a3c.unroll_lengths=16 32 64", "a3c.devices=cpu auto", "system.agents=4")
    sizes = choose_sizes(config, SPEC)
    assert [worker_setup(config, sizes, number)[1].unroll_length for number in range(4)] == [16, 32, 64, 16]
    config = read(overrides=["algorithm.name=a3c", "a3c.hogwild=true", "a3c.devices=cuda:0 cuda:1 auto"])
    assert [worker_setup(config, sizes, number)[0].system.device for number in range(4)] == [
        "cuda:0",
        "cuda:1",
        "auto",
        "cuda:0",
    ]
