"""Training goes on with any `min_agents` agents that live, whatever the others do.

Slab, agents' groups and sources are the real ones, taking turns in one thread, so that being stuck is seen at once.
"""

import multiprocessing
import random
import threading

import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete
from hypothesis import given, settings
from hypothesis import strategies as st

from kartrl.acting.agent_group import AgentGroup, Mailbox, take_turns
from kartrl.acting.published_weights import PublishedWeights
from kartrl.acting.sizes import slab_shape
from kartrl.acting.slab import Slab
from kartrl.config import read
from kartrl.envs.observation_spec import plain
from kartrl.envs.spec import ActionSpec, EnvSpec
from kartrl.metrics.stopwatch import AGENT_STAGES, TRAINER_STAGES, Stopwatch
from kartrl.sizing.auto import choose_sizes
from kartrl.training import sources
from kartrl.training.sources import ArrivalSource, Rounds, SynchronousSource

CONTEXT = multiprocessing.get_context("spawn")
SPEC = EnvSpec("quick", plain(1), ActionSpec.of(Discrete(2)), 1e-5)
FIXED = ("system.device=cpu", "environment.id=X", "model.hidden_size=1", "model.core=none", "evaluation.minutes=0")
UPDATES = 4  # that must be possible after the deaths


class Life:
    """An agent's process, step by step."""

    def __init__(self, slab: Slab, agent: int) -> None:
        self.slab, self.mailbox = slab, Mailbox(slab, slab.waker(agent))
        self.numbers = range(agent * slab.groups_per_agent, (agent + 1) * slab.groups_per_agent)
        self.groups = [AgentGroup(slab, number, self.mailbox, Stopwatch(AGENT_STAGES)) for number in self.numbers]
        self.turns, self.index = take_turns(self.groups, self.mailbox), None
        self.false = np.zeros(slab.group_size, bool)
        for group in self.groups:
            group.ask(self.look(), ~self.false)

    def look(self) -> np.ndarray:
        return np.zeros((self.slab.group_size, 1), np.float32)

    def step(self) -> bool:
        """One step of one group, unless the process would wait."""
        self.mailbox.serve_until(lambda: True)  # sends the requests that have a free block by now
        if self.index is None:
            if all(group.waits for group in self.groups):
                return False
            self.index = next(self.turns)
        group, number = self.groups[self.index], self.numbers[self.index]
        if group.waits or self.slab.answered[number] != self.slab.requested[number]:
            return False
        group.answer()
        group.record(np.zeros(self.slab.group_size), self.false, ~self.false, self.false)
        group.ask(self.look(), self.false)
        self.index = None
        return True


class Stop(threading.Event):
    """Ends a source's waiting when it has looked, and no finished block is announced."""

    def __init__(self, slab: Slab) -> None:
        super().__init__()
        self.announced = slab.finished.reader

    def is_set(self) -> bool:
        looked = super().is_set()
        self.set()
        return looked and not self.announced.poll()


class Simulation:
    """Agents that are stepped, answered and trained on in a random order."""

    def __init__(self, overrides: list[str], seed: int) -> None:
        config = read(overrides=[*FIXED, *overrides])
        self.sizes, self.chance = choose_sizes(config, SPEC), random.Random(seed)
        self.slab = slab = Slab(CONTEXT, slab_shape(config, SPEC, self.sizes))
        self.weights = PublishedWeights(torch.nn.Linear(1, 1))
        blocks = self.sizes.training_blocks
        self.stop = Stop(slab)
        if config.algorithm.name == "a2c":
            self.source = SynchronousSource(slab, self.weights, self.stop)
        elif config.run.reproducible:
            self.source = Rounds(slab, blocks, self.stop)
            slab.deaths = 1  # until then its order is fixed
        else:
            self.source = ArrivalSource(slab, blocks, self.weights, self.sizes.max_lag, self.stop)
        self.lives = {agent: Life(slab, agent) for agent in range(slab.num_agents)}

    def __enter__(self) -> "Simulation":
        return self

    def __exit__(self, *_: object) -> None:
        """Close the slab's pipes now, or there would be too many of them."""
        queues = (self.slab.waiting, self.slab.finished)
        for pipe in (*self.slab.wakes, *((queue.reader, queue.writer) for queue in queues)):
            for end in pipe:
                end.close()

    def kill(self, agent: int) -> None:
        del self.lives[agent]
        self.slab.retire(agent)
        self.slab.recover(agent)

    def begin(self, agent: int) -> None:
        self.slab.admit(agent)
        self.lives[agent] = Life(self.slab, agent)

    def predict(self) -> bool:
        slab = self.slab
        requests = slab.gather_requests(slab.await_requests(slab.num_groups, 0.0))
        if requests is None:
            return False
        decision = np.zeros((len(requests.group), *slab.decision.shape[2:]), np.float32)
        state = np.zeros(((requests.step == 0).sum(), *slab.initial_state.shape[1:]), np.float32)
        slab.answer_requests(requests, decision, state, self.weights.version)
        return True

    def update(self) -> bool:
        """An update, unless the trainer would wait; whether it did anything, such as dropping old blocks."""
        finished = self.slab.state.sum()
        self.stop.clear()
        if self.source.next(Stopwatch(TRAINER_STAGES)) is None:
            return self.slab.state.sum() < finished
        self.weights.publish()
        self.source.published()
        return True

    def turn(self) -> bool:
        """Everybody does something, in a random order; whether anybody could."""
        roles = [*(life.step for life in self.lives.values()), self.predict, self.update]
        self.chance.shuffle(roles)
        return sum(role() for role in roles) > 0

    def live_and_die(self) -> None:
        """All die and come back at random for a while, and the trainer or an agent may be slow."""
        pace = self.chance.choice([0.03, 0.3, 1.0])
        slow = self.chance.choice([None, *range(self.slab.num_agents)])
        for _ in range(self.chance.randint(0, 60)):
            for agent in range(self.slab.num_agents):
                if self.chance.random() < 0.1:
                    (self.kill if agent in self.lives else self.begin)(agent)
                elif agent in self.lives and (agent != slow or self.chance.random() < pace):
                    self.lives[agent].step()
                    self.predict()
            if slow is not None or self.chance.random() < pace:
                self.update()


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[str], int]:
    """Overrides of [system] and others, and `min_agents`."""
    agents, envs, length = draw(st.integers(1, 9)), draw(st.integers(1, 6)), draw(st.integers(1, 3))
    least = draw(st.integers(1, agents))
    size, groups = (envs // 2, 2 * agents) if envs % 2 == 0 else (envs, agents)
    numbers = [f"agents={agents}", f"envs_per_agent={envs}", f"min_agents={least}"]
    order = draw(st.sampled_from(["impala", "reproducible", "a2c"]))
    if order != "reproducible":
        numbers.append("min_prediction_batch_size=1")
    if order != "a2c":
        blocks = draw(
            st.integers(1, 20 if order == "impala" else groups).filter(
                lambda blocks: order == "impala" or groups % blocks == 0
            )
        )
        numbers.append(f"training_batch_size={blocks * size}")
    overrides = [f"system.{number}" for number in numbers] + [f"algorithm.unroll_length={length}"]
    overrides += [f"algorithm.name={'a2c' if order == 'a2c' else 'impala'}"]
    return overrides + ["run.reproducible=true"] * (order == "reproducible"), least


@pytest.fixture(scope="module", autouse=True)
def _no_source_waits():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "WAKE_SECONDS", 0.0)
        yield


@settings(max_examples=40, deadline=None)
@given(runs(), st.integers(0, 2**32))
def test_any_min_agents_survivors_make_progress(run, seed):
    """All die and come back at random for a while; at last these live, and the others stay dead."""
    overrides, least = run
    with Simulation(overrides, seed) as simulation:
        simulation.live_and_die()
        survivors = simulation.chance.sample(range(simulation.slab.num_agents), least)
        for agent in range(simulation.slab.num_agents):
            if (agent in survivors) != (agent in simulation.lives):
                (simulation.begin if agent in survivors else simulation.kill)(agent)
        wanted = simulation.weights.version + UPDATES
        while simulation.weights.version < wanted:
            assert any(simulation.turn() for _ in range(3)), (
                f"stuck with {simulation.slab.state.sum()} blocks: {simulation.sizes}"
            )
