"""The slab's protocol: order, backpressure, episode ends inside and at the edge of unrolls, and replaced agents."""

import itertools
import multiprocessing
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kartrl.metrics.stopwatch import AGENT_STAGES, Stopwatch
from kartrl.runtime.index_queue import IndexQueue
from kartrl.runtime.slab import FINISHED, AgentGroup, Slots, Stopped

CONTEXT = multiprocessing.get_context("spawn")


def make_slots(num_agents=1, groups_per_agent=1, group_size=1, ring=2, unroll_length=4):
    return Slots(CONTEXT, num_agents, groups_per_agent, group_size, ring, unroll_length, (1,), "float32")


class Predictor(threading.Thread):
    """Answers every request with the action `observation + 1`, log-probability -observation and version 7."""

    def __init__(self, slots):
        super().__init__(daemon=True)
        self.slots, self.done, self.sizes = slots, threading.Event(), []

    def run(self):
        while not self.done.is_set():
            requests = self.slots.gather_requests(self.slots.await_requests(limit=64, timeout=0.02))
            if requests is not None:
                seen = requests.observation[..., 0]
                self.sizes.append(seen.size)
                self.slots.answer_requests(requests, seen.astype("int64") + 1, -seen, 7)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.join(5)


def agent_group(slots, group=0):
    return AgentGroup(slots, group, slots.waker(group // slots.groups_per_agent), Stopwatch(AGENT_STAGES))


def play(slots, ends, group=0, first=0):
    """Play a group whose observations count upwards, environment g from first + 1000 g.

    `ends[step][g]` is "", "terminated" or "truncated"; as in Gymnasium's NEXT_STEP mode, the step after an end is ignored.

    Returns what a learner should see of each environment: lists of (observation, reset, action, reward, terminated, valid).
    """
    agent, size = agent_group(slots, group), slots.group_size
    expected = [[] for _ in range(size)]
    observation = first + 1000.0 * np.arange(size, dtype=np.float32)
    reset, began = np.ones(size, bool), np.zeros(size, bool)
    agent.ask(observation[:, None], reset)
    for end in ends:
        action = agent.answer().copy()
        terminated = np.array([kind == "terminated" for kind in end]) & ~began
        done = np.array([kind != "" for kind in end]) & ~began
        agent.record(observation / 2, terminated | began, ~began, np.array([kind == "faulty" for kind in end]))
        for g in range(size):
            expected[g].append(
                (observation[g], reset[g], action[g], observation[g] / 2, terminated[g] or began[g], not began[g])
            )
        observation, reset, began = observation + 1, began, done
        agent.ask(observation[:, None], reset)
    return expected


def drain(slots, sequences):
    """Take all finished blocks off the slab, as (observation, ...) tuples of single steps with what follows them."""
    for block in slots.finished.get_many(1000, 0.0):
        assert slots.is_finished(block)
        batch = slots.gather_unrolls([block])
        for g, sequence in enumerate(sequences):
            for t in range(slots.unroll_length):
                now = (batch.observation[t, g, 0], batch.reset[t, g], batch.action[t, g], batch.reward[t, g])
                after = (batch.observation[t + 1, g, 0], batch.reset[t + 1, g])
                sequence.append((now, (batch.terminated[t, g], batch.valid[t, g]), after))


KINDS = st.sampled_from(["", "", "", "terminated", "truncated"])


@settings(max_examples=40, deadline=None)
@given(ends=st.lists(st.tuples(KINDS, KINDS, KINDS), min_size=1, max_size=24), unroll_length=st.integers(1, 5))
def test_the_learner_sees_every_step_once_and_in_order(ends, unroll_length):
    slots = make_slots(group_size=3, ring=64, unroll_length=unroll_length)
    with Predictor(slots):
        expected = play(slots, ends)
    sequences = [[], [], []]
    drain(slots, sequences)
    for seen, wanted in zip(sequences, expected, strict=True):
        assert len(seen) == len(ends) // unroll_length * unroll_length
        for (now, (terminated, valid), after), (want, following) in zip(
            seen, itertools.pairwise([*wanted, None]), strict=False
        ):
            assert now == (want[0], want[1], want[0] + 1, want[3]), (
                "observation, reset, action and reward belong together"
            )
            assert want[2] == want[0] + 1
            assert (terminated, valid) == want[4:]
            assert after[0] == want[0] + 1, "what follows is what the environment gave next, also across blocks"
            if following is not None:
                assert after[1] == following[1]
            if not valid:
                assert terminated, "nothing flows back across a step that took no action"
                assert after[1], "and after it an episode begins"


def test_blocks_are_bounded_and_agents_wait_for_the_learner():
    slots = make_slots(ring=2, unroll_length=2)
    with Predictor(slots):
        agent = threading.Thread(target=play, args=(slots, [[""]] * 7), daemon=True)
        agent.start()
        agent.join(0.5)
        assert agent.is_alive(), "two blocks are full: the agent must wait"
        first = slots.finished.get_many(10, 1.0)
        assert first == [0, 1]
        assert not slots.finished.get_many(10, 0.2)
        slots.gather_unrolls(first)
        agent.join(5)
        assert not agent.is_alive()


def test_a_replaced_agent_neither_loses_nor_mixes_anything():
    slots = make_slots(ring=4, unroll_length=4)
    with Predictor(slots):
        play(slots, [[""]] * 10)  # two whole blocks and a partial one; then the agent is gone
        slots.recover(0)  # the server announces again what may have been lost
        play(slots, [[""]] * 5, first=100)
    numbers = slots.finished.get_many(100, 0.1)
    assert numbers == [0, 1, 0, 1, 2], "announced twice by recover"
    taken = []
    for number in numbers:
        if slots.is_finished(number):
            taken.append(slots.gather_unrolls([number]))
    assert [batch.observation[0, 0, 0] for batch in taken] == [0, 4, 100]
    assert taken[-1].observation[:, 0, 0].tolist() == [100, 101, 102, 103, 104]
    assert taken[-1].reset[0, 0]


def test_no_answer_reaches_the_wrong_life():
    """A predictor is still at work on a dead agent's request when its successor asks, and answers only then."""
    slots = make_slots(unroll_length=4)
    play_two = threading.Thread(target=play, args=(slots, [[""]] * 2), daemon=True)
    play_two.start()
    for _ in range(2):
        requests = slots.gather_requests(slots.await_requests(1, 5.0))
        slots.answer_requests(requests, np.array([[1]]), np.array([[-1.0]], np.float32), 7)
    play_two.join(5)
    late = slots.gather_requests(slots.await_requests(1, 5.0))  # of step 2; then its agent dies
    assert late.step.tolist() == [2]
    slots.retire(0)
    slots.waiting.put(0)  # as if the message were still in the pipe
    assert slots.gather_requests(slots.await_requests(1, 5.0)) is None, (
        "a dead agent's request is not gathered any more"
    )
    slots.answer_requests(
        late, np.array([[9]]), np.array([[-9.0]], np.float32), 9
    )  # what the server waits for before it recovers
    slots.recover(0)
    with Predictor(slots):
        play(slots, [[""]] * 4, first=50)
    (block,) = {number for number in slots.finished.get_many(10, 1.0) if slots.is_finished(number)}
    batch = slots.gather_unrolls([block])
    assert batch.action[:, 0].tolist() == [51, 52, 53, 54]
    assert (batch.version == 7).all()
    assert batch.reset[:, 0].tolist() == [True, False, False, False, False]


def test_an_unroll_with_faulty_numbers_is_quarantined_alone():
    slots = make_slots(group_size=2, ring=4, unroll_length=3)
    with Predictor(slots):
        play(slots, [["", ""], ["", "faulty"], ["", ""], *[["", ""]] * 3])
    first, second = (slots.gather_unrolls([number]) for number in slots.finished.get_many(10, 1.0))
    assert first.valid[:, 0].all()
    assert not first.valid[:, 1].any()
    assert second.valid.all()
    assert (slots.unrolls[0], slots.quarantined[0]) == (3, 1)


def test_an_agent_may_move_when_it_has_answers_and_room():
    slots = make_slots(ring=2, unroll_length=1)
    assert slots.may_move(0), "it is to begin"
    agent = agent_group(slots)
    agent.ask(np.zeros((1, 1), np.float32), np.ones(1, bool))
    assert not slots.may_move(0), "it waits for an answer"
    requests = slots.gather_requests(slots.await_requests(1, 1.0))
    slots.answer_requests(requests, np.array([[1]]), np.array([[-1.0]], np.float32), 7)
    assert slots.may_move(0)
    slots.run_agents(0)
    assert not slots.may_move(0), "it is paused"
    slots.run_agents(1)
    slots.state[0] = FINISHED
    assert not slots.may_move(0), "it waits for a trainer"


def test_an_agent_that_replaces_one_killed_between_two_blocks_waits_for_its_block():
    slots = make_slots(ring=2, unroll_length=2)
    slots.state[0] = FINISHED  # and `current` still says 0
    slots.recover(0)
    waiting = threading.Thread(target=agent_group, args=(slots,), daemon=True)
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    slots.gather_unrolls(slots.finished.get_many(1, 1.0))
    waiting.join(5)
    assert not waiting.is_alive()


def test_blocks_of_several_groups_make_one_batch():
    slots = make_slots(num_agents=2, groups_per_agent=2, group_size=2, ring=2, unroll_length=3)
    with Predictor(slots):
        for group in range(4):
            play(slots, [["", ""]] * 3, group, first=10_000 * group)
    batch = slots.gather_unrolls(slots.finished.get_many(4, 1.0))
    assert batch.observation.shape == (4, 8, 1)
    starts = [10_000 * group + 1000 * g for group in range(4) for g in range(2)]
    assert sorted(batch.observation[0, :, 0].tolist()) == starts
    np.testing.assert_array_equal(batch.observation[:-1, :, 0] + 1, batch.action)
    assert (batch.version == 7).all()


def test_a_request_is_answered_once():
    slots = make_slots()
    slots.observation[0, 0] = 5.0
    slots.requested[0] = 1
    slots.waiting.put(0)
    slots.waiting.put(0)  # the dead agent's, and its successor's
    requests = slots.gather_requests(slots.await_requests(8, 0.1, enough=2, patience=1.0))
    assert requests.group.tolist() == [0]
    slots.answer_requests(requests, np.array([[3]]), np.array([[-1.0]], np.float32), 1)
    slots.waiting.put(0)
    assert slots.gather_requests(slots.await_requests(8, 0.1)) is None
    assert slots.gather_requests([]) is None


def test_a_predictor_waits_for_enough_groups_but_not_for_ever():
    slots = make_slots(num_agents=3)
    threading.Timer(0.05, slots.waiting.put, args=(1,)).start()
    slots.waiting.put(0)
    start = time.monotonic()
    assert slots.await_requests(8, 1.0, enough=2, patience=5.0) == [0, 1]
    assert time.monotonic() - start < 4.0
    slots.waiting.put(2)
    assert slots.await_requests(8, 1.0, enough=2, patience=0.05) == [2]


def test_stopping_wakes_and_ends_an_agent():
    slots = make_slots()
    agent = agent_group(slots)
    agent.ask(np.zeros((1, 1), np.float32), np.ones(1, bool))
    slots.stop()
    with pytest.raises(Stopped):
        agent.answer()


def test_a_paused_agent_waits_and_goes_on():
    slots = make_slots(num_agents=2, ring=8)
    slots.run_agents(1)
    agents = [threading.Thread(target=play, args=(slots, [[""]] * 10, group), daemon=True) for group in range(2)]
    with Predictor(slots):
        for agent in agents:
            agent.start()
        agents[0].join(5)
        assert not agents[0].is_alive()
        agents[1].join(0.2)
        assert agents[1].is_alive()
        slots.run_agents(2)
        agents[1].join(5)
        assert not agents[1].is_alive()


def test_an_agent_ends_when_the_server_has_gone():
    slots = make_slots()
    agent = agent_group(slots)
    agent.ask(np.zeros((1, 1), np.float32), np.ones(1, bool))
    for _, writer in slots._wakes:
        writer.close()
    with pytest.raises(Stopped):
        agent.answer()


def test_a_dead_agents_full_pipe_blocks_nobody():
    slots = make_slots()
    for _ in range(70_000):  # a pipe holds 65,536 bytes
        slots._wake(0)


def test_predictions_of_many_agents_are_batched():
    slots = make_slots(num_agents=8, ring=8)
    agents = [threading.Thread(target=play, args=(slots, [[""]] * 20, group), daemon=True) for group in range(8)]
    with Predictor(slots) as predictor:
        for agent in agents:
            agent.start()
        for agent in agents:
            agent.join(10)
    assert not any(agent.is_alive() for agent in agents)
    assert 160 <= sum(predictor.sizes) <= 168, "the last requests need no answer"
    assert max(predictor.sizes) > 1


def test_several_threads_share_a_queue():
    """Two predictors read what two processes write: every number reaches exactly one of them, whole."""
    numbers, seen, done = IndexQueue(CONTEXT), [], threading.Event()

    def read():
        while not done.is_set():
            seen.extend(numbers.get_many(4, 0.05))

    readers = [threading.Thread(target=read, daemon=True) for _ in range(2)]
    processes = [CONTEXT.Process(target=put_many, args=(numbers, 10_000 * rank, 3000)) for rank in range(2)]
    for worker in (*readers, *processes):
        worker.start()
    for process in processes:
        process.join(30)
    deadline = time.monotonic() + 10
    while len(seen) < 6000 and time.monotonic() < deadline:
        time.sleep(0.01)
    done.set()
    for reader in readers:
        reader.join(5)
    assert sorted(seen) == [*range(3000), *range(10_000, 13_000)]


def put_many(numbers, first, count):
    for number in range(first, first + count):
        numbers.put(number)


def test_index_queue_keeps_every_number_of_every_process():
    numbers = IndexQueue(CONTEXT)
    processes = [CONTEXT.Process(target=put_many, args=(numbers, 1000 * rank, 500)) for rank in range(3)]
    for process in processes:
        process.start()
    seen = []
    while len(seen) < 1500:
        got = numbers.get_many(64, 20.0)
        assert got, "a number was lost"
        seen += got
    for process in processes:
        process.join(10)
    for rank in range(3):
        assert [number for number in seen if number // 1000 == rank] == list(range(1000 * rank, 1000 * rank + 500))
