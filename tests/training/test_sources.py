"""Which blocks make a batch, and when: agents are threads around a real slab and a real predictor."""

import itertools
import multiprocessing
import random
import threading
import time
from collections import Counter

import numpy as np
import pytest
import torch

from kartrl.acting.agent_group import AgentGroup, Mailbox, Stopped, take_turns
from kartrl.acting.predictor import ArrivalPacing, PredictorThread
from kartrl.acting.published_weights import ON_CPU, PublishedWeights
from kartrl.acting.slab import Slab, SlabShape
from kartrl.metrics.stopwatch import AGENT_STAGES, TRAINER_STAGES, Stopwatch
from kartrl.training.sources import ArrivalSource, Rounds, SynchronousSource

CONTEXT = multiprocessing.get_context("spawn")
SECONDS = 100  # in which all of this is long over


def make_slab(num_agents=2, groups_per_agent=1, ring=1, unroll_length=2):
    """One environment a group; it observes its group, its agent's life and the step of that."""
    sizes = (num_agents, groups_per_agent, 1, ring, unroll_length)
    return Slab(CONTEXT, SlabShape(*sizes, (3,), "float32", decision_size=3, state_size=0))


class ToyPolicy:
    """A policy whose decision is what it saw."""

    def __init__(self):
        self.network = torch.nn.Linear(1, 1)

    def act(self, requests):
        return requests.observation, np.zeros(((requests.step == 0).sum(), *requests.first.shape[1:], 0))


class Killed(Exception):
    pass


class MortalMailbox(Mailbox):
    """Of an agent that can be killed while it waits."""

    def __init__(self, slab, agent, dead):
        super().__init__(slab, slab.waker(agent))
        self.dead = dead

    def serve_until(self, ready):
        super().serve_until(lambda: self.dead.is_set() or ready())
        if self.dead.is_set():
            raise Killed


class Run:
    """All roles of a run as threads; a context manager that ends them.

    Args:
        make_order: from (slab, weights, stop) to a pacing and a source.
        pause: called by every role at each step, to delay it.
    """

    def __init__(self, slab, make_order, pause=lambda: None):
        self.slab, self.pause, self.stop = slab, pause, threading.Event()
        self.weights = PublishedWeights(ToyPolicy().network)
        pacing, self.source = make_order(slab, self.weights, self.stop)
        self.predictor = PredictorThread("predictor", slab, self, self.weights, pacing, self.stop)
        self.toy = ToyPolicy()
        self.network, self.stream = self.toy.network, ON_CPU
        self.lives = [0] * slab.num_agents
        self.agents = [None] * slab.num_agents
        self.dead = [threading.Event() for _ in range(slab.num_agents)]
        self.batches = []

    def act(self, requests):
        self.pause()
        return self.toy.act(requests)

    def __enter__(self):
        for agent in range(self.slab.num_agents):
            self.begin(agent)
        self.predictor.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.slab.stop()
        for thread in (self.predictor, *self.agents):
            thread.join(60)

    def begin(self, agent):
        """As the agents' supervisor does it."""
        self.slab.admit(agent)
        self.dead[agent].clear()
        self.lives[agent] += 1
        self.agents[agent] = threading.Thread(target=self.live, args=(agent, self.lives[agent]), daemon=True)
        self.agents[agent].start()

    def kill(self, agent):
        self.dead[agent].set()
        self.slab.wake(agent)
        self.agents[agent].join(SECONDS)
        self.pause()
        self.slab.retire(agent)
        with self.predictor.predicting:
            pass
        self.slab.recover(agent)

    def live(self, agent, life):
        slab, mailbox = self.slab, MortalMailbox(self.slab, agent, self.dead[agent])
        numbers = range(agent * slab.groups_per_agent, (agent + 1) * slab.groups_per_agent)
        groups = [AgentGroup(slab, number, mailbox, Stopwatch(AGENT_STAGES)) for number in numbers]
        false = np.zeros(1, bool)
        try:
            for number, group in zip(numbers, groups, strict=True):
                group.ask(np.array([[number, life, 0]]), ~false)
            steps = [itertools.count(1) for _ in groups]
            for index in take_turns(groups, mailbox):
                groups[index].answer()
                self.pause()
                groups[index].record(np.zeros(1), false, ~false, false)
                groups[index].ask(np.array([[numbers[index], life, next(steps[index])]]), false)
        except (Stopped, Killed):
            return

    def update(self):
        """One update; the batch that it was made from."""
        batch = self.source.next(Stopwatch(TRAINER_STAGES))
        assert batch is not None
        self.batches.append(batch)
        for unroll in batch.observation.swapaxes(0, 1):
            assert (unroll[:, :2] == unroll[0, :2]).all(), "of one group in one life"
            assert (np.diff(unroll[:, 2]) == 1).all(), "all steps in order"
        lag = self.weights.version - batch.version
        self.pause()
        self.weights.publish()
        self.source.published()
        return lag


def groups_of(batch):
    return batch.observation[0, :, 0].astype(int).tolist()


def by_arrival(blocks):
    def make_order(slab, weights, stop):
        return ArrivalPacing(slab, slab.num_groups, 1), ArrivalSource(slab, blocks, weights, 10**9, stop)

    return make_order


def synchronous(slab, weights, stop):
    return ArrivalPacing(slab, slab.num_groups, 1), SynchronousSource(slab, weights, stop)


def synchronous_in_rounds(slab, weights, stop):
    pacing = Rounds(slab, slab.num_groups, stop, paces_only=True)
    return pacing, SynchronousSource(slab, weights, stop)


def in_rounds(blocks):
    def make_order(slab, weights, stop):
        rounds = Rounds(slab, blocks, stop)
        return rounds, rounds

    return make_order


def finish(slab, block, version=0):
    """As if an agent had filled this block."""
    slab.observation[block] = block
    slab.version[block] = version
    slab.finish(block)


def next_of(source, released=True):
    """The blocks of the next batch."""
    batch = source.next(Stopwatch(TRAINER_STAGES))
    if batch is not None and released:
        source.published()
    return None if batch is None else groups_of(batch)


def in_background(function):
    """Call it in a thread; its result is appended to the list that comes with the thread."""
    results = []
    thread = threading.Thread(target=lambda: results.append(function()), daemon=True)
    thread.start()
    return thread, results


def weights():
    return PublishedWeights(ToyPolicy().network)


def test_blocks_are_trained_on_in_the_order_of_finishing():
    slab = make_slab(num_agents=3, ring=2)
    source = ArrivalSource(slab, 2, weights(), 10**9, threading.Event())
    for block in (3, 0, 4, 1):
        finish(slab, block)
        if block == 0:
            slab.recover(0)  # announces it again
    assert next_of(source, released=False) == [3, 0]
    assert slab.state.tolist() == [0, 1, 0, 0, 1, 0], "their memory is given back at once"
    assert next_of(source) == [4, 1]


def test_refilled_block_announced_twice_keeps_its_place():
    slab = make_slab(ring=2)
    source = ArrivalSource(slab, 1, weights(), 10**9, threading.Event())
    finish(slab, 0)
    slab.recover(0)
    assert next_of(source) == [0]
    finish(slab, 1)
    finish(slab, 0)
    assert next_of(source) == [1]
    assert next_of(source) == [0]


def test_blocks_begun_too_many_updates_ago_are_dropped():
    slab, published = make_slab(num_agents=3, ring=2), weights()
    source = ArrivalSource(slab, 2, published, 3, threading.Event())
    for _ in range(5):
        published.publish()
    for block, version in ((3, 1), (0, 2), (4, 5)):
        finish(slab, block)
        slab.version[block] = 5
        slab.version[block][0] = version  # of the first step
    assert next_of(source, released=False) == [0, 4]
    assert source.dropped == 1
    assert slab.state.tolist() == [0] * 6, "its memory is given back"


@pytest.mark.parametrize("make_order", [by_arrival(2), synchronous, in_rounds(2)])
def test_a_source_ends_when_the_run_stops(make_order):
    slab, stop = make_slab(num_agents=2, ring=2), threading.Event()
    _, source = make_order(slab, weights(), stop)
    thread, results = in_background(lambda: next_of(source))
    stop.set()
    thread.join(SECONDS)
    assert results == [None]


def test_a_synchronous_batch_has_a_block_of_all_agents_that_live():
    slab = make_slab(num_agents=3)
    source = SynchronousSource(slab, weights(), threading.Event())
    finish(slab, 2)
    thread, results = in_background(lambda: next_of(source))
    finish(slab, 0)
    thread.join(0.2)
    assert thread.is_alive(), "agent 1 is still at work"
    finish(slab, 1)
    thread.join(SECONDS)
    assert results == [[0, 1, 2]]


def test_synchronous_batch_does_not_wait_for_dead_agents():
    slab = make_slab(num_agents=3)
    source = SynchronousSource(slab, weights(), threading.Event())
    finish(slab, 2)
    slab.retire(2)  # what it finished before is used
    finish(slab, 0)
    slab.retire(1)
    assert next_of(source) == [0, 2]
    finish(slab, 0)
    assert next_of(source) == [0]
    slab.admit(1)
    finish(slab, 0)
    thread, results = in_background(lambda: next_of(source))
    thread.join(0.2)
    assert thread.is_alive(), "it lives again"
    finish(slab, 1)
    thread.join(SECONDS)
    assert results == [[0, 1]]


def test_synchronous_batch_has_nothing_of_older_weights():
    slab, published = make_slab(num_agents=2, unroll_length=3), weights()
    published.version = 5
    source = SynchronousSource(slab, published, threading.Event())
    finish(slab, 0, version=5)
    finish(slab, 1, version=5)
    slab.version[1, 0] = 4
    thread, results = in_background(lambda: next_of(source))
    deadline = time.monotonic() + SECONDS
    while slab.is_finished(1):
        assert time.monotonic() < deadline
    assert not results, "the agent is to fill it again"
    finish(slab, 1, version=5)
    thread.join(SECONDS)
    assert results == [[0, 1]]


@pytest.mark.parametrize("make_order", [synchronous, synchronous_in_rounds])
def test_agents_wait_until_the_update_is_published(make_order):
    with Run(make_slab(num_agents=2, groups_per_agent=2), make_order) as run:
        batch = run.source.next(Stopwatch(TRAINER_STAGES))
        assert groups_of(batch) == [0, 1, 2, 3]
        time.sleep(0.05)  # enough for many steps
        assert run.slab.state.all(), "the blocks are held"
        assert run.slab.requested.tolist() == [2, 2, 2, 2]
        run.weights.publish()
        run.source.published()
        assert (run.update() == 0).all()


@pytest.mark.parametrize("make_order", [synchronous, synchronous_in_rounds])
@pytest.mark.parametrize("seed", range(8))
def test_synchronous_lag_is_zero_for_any_death(make_order, seed):
    """Agents die and come back at random moments; every batch was acted with the published weights."""
    chance = random.Random(seed)
    slab = make_slab(chance.randint(1, 4), chance.randint(1, 2), 1, chance.randint(1, 4))
    with Run(slab, make_order, pauses(chance)) as run:
        deaths = threading.Thread(target=die_and_come_back, args=(run, chance, 6), daemon=True)
        deaths.start()
        deadline = time.monotonic() + SECONDS
        while deaths.is_alive():
            assert time.monotonic() < deadline
            assert (run.update() == 0).all()
        for _ in range(3):
            assert (run.update() == 0).all()
        assert groups_of(run.batches[-1]) == list(range(slab.num_groups)), "all are back"


def pauses(chance, longest=0.003):
    """Now and then, a moment of random length."""
    own = random.Random(chance.random())
    return lambda: time.sleep(own.random() * longest) if own.random() < 0.3 else None


def die_and_come_back(run, chance, deaths):
    for _ in range(deaths):
        time.sleep(chance.random() * 0.05)
        victims = chance.sample(range(run.slab.num_agents), chance.randint(1, run.slab.num_agents))
        for victim in victims:
            run.kill(victim)
        time.sleep(chance.random() * 0.03)
        for victim in victims:
            run.begin(victim)


@pytest.mark.parametrize(
    ("agents", "groups", "blocks", "unroll_length"),
    [(1, 1, 1, 1), (2, 2, 2, 3), (3, 2, 6, 2), (2, 2, 1, 2), (4, 1, 2, 5)],
)
def test_rounds_have_one_order_for_any_late_agent(agents, groups, blocks, unroll_length):
    """Blocks, weights and all that was seen are the same in runs with other random delays."""
    number = 5 * agents * groups // blocks
    runs = []
    for seed in range(3):
        slab = make_slab(agents, groups, 2, unroll_length)
        with Run(slab, in_rounds(blocks), pauses(random.Random(seed))) as run:
            for _ in range(number):
                run.update()
        runs.append(run.batches)
    for other in runs[1:]:
        for one, two in zip(runs[0], other, strict=True):
            for a, b in zip(one, two, strict=True):
                np.testing.assert_array_equal(a, b)
    a_round = agents * groups // blocks
    for index, batch in enumerate(runs[0]):
        assert groups_of(batch) == [(index % a_round) * blocks + block for block in range(blocks)]
        assert (batch.version == max(0, index // a_round - 1) * a_round).all(), "those of two rounds before"


@pytest.mark.parametrize("make_order", [by_arrival(1), synchronous, synchronous_in_rounds, in_rounds(1)])
def test_announcements_do_not_pile_up(make_order):
    """A full queue would block the agents.

    A synchronous source sees a block before its number has come, and looks at as many numbers as there are blocks: so
    those of two updates may be left when it returns, and agents may have announced one block more each by now.
    """
    slab = make_slab(num_agents=2, ring=1 if make_order in (synchronous, synchronous_in_rounds) else 2, unroll_length=1)
    with Run(slab, make_order) as run:
        for _ in range(100):
            run.update()
        assert len(slab.finished.get_many(1000, 0.0)) <= 3 * slab.num_blocks


@pytest.mark.parametrize(("agents", "groups", "blocks"), [(1, 2, 2), (2, 2, 4), (3, 2, 6), (3, 1, 1), (4, 1, 2)])
def test_after_a_death_rounds_neither_hang_nor_starve(agents, groups, blocks):
    chance = random.Random(agents * 100 + blocks)
    slab = make_slab(agents, groups, 2, 3)
    with Run(slab, in_rounds(blocks), pauses(chance)) as run:
        for _ in range(2 * slab.num_groups // blocks):
            run.update()
        deaths = threading.Thread(target=die_and_come_back, args=(run, chance, 4), daemon=True)
        deaths.start()
        deadline = time.monotonic() + SECONDS
        while deaths.is_alive():
            assert time.monotonic() < deadline
            run.update()
        many, before, waited = 6 * slab.num_groups // blocks, len(run.batches), Counter()
        deadline = time.monotonic() + SECONDS
        seen = set()
        while len(run.batches) < before + many or seen != set(range(slab.num_groups)):
            assert time.monotonic() < deadline, f"only {seen} are trained on"
            waiting = finished_unrolls(slab)
            run.update()
            seen.update(groups_of(run.batches[-1]))
            waited.update(waiting & finished_unrolls(slab))
            # A thread that the machine holds up may be late by any number of updates, but only before it has finished.
            assert max(waited.values(), default=0) < slab.num_blocks / blocks, "none is left waiting"


def finished_unrolls(slab):
    """The blocks that wait for an update, each with what its unroll begins with: group, life and step."""
    return {(block, *slab.observation[block, 0, 0].tolist()) for block in np.flatnonzero(slab.state).tolist()}


@pytest.mark.parametrize(("agents", "blocks"), [(3, 6), (4, 8)])
def test_rounds_continue_when_all_but_one_agent_return_late(agents, blocks):
    """The one that was left has filled its ring by then, which is not enough for a batch."""
    slab = make_slab(agents, 2, 2, 3)
    with Run(slab, in_rounds(blocks)) as run:
        run.update()
        for agent in range(1, agents):
            run.kill(agent)
        deadline = time.monotonic() + SECONDS
        while not slab.state[:4].all():
            thread, _ = in_background(run.update) if slab.state.sum() >= blocks else (None, None)
            if thread is not None:
                thread.join(SECONDS)
            assert time.monotonic() < deadline
        for agent in range(1, agents):
            run.begin(agent)
        for _ in range(4):
            thread, results = in_background(run.update)
            thread.join(SECONDS)
            assert results
