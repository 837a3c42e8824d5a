"""The slab's protocol: order, backpressure, episode ends inside and at the edge of unrolls, and replaced agents."""

import multiprocessing
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kartrl.slots import AgentSlot, IndexQueue, Slots, Stopped

CONTEXT = multiprocessing.get_context("spawn")


def make_slots(num_slots=1, ring=2, unroll_length=4):
    return Slots(CONTEXT, num_slots, ring, unroll_length, (1,), "float32")


class Predictor(threading.Thread):
    """Answers every request with the action `observation + 1`, log-probability -observation and version 7."""

    def __init__(self, slots):
        super().__init__(daemon=True)
        self.slots, self.done, self.sizes = slots, threading.Event(), []

    def run(self):
        while not self.done.is_set():
            requests = self.slots.gather_requests(limit=64, timeout=0.02, patience=0.0)
            if requests is not None:
                seen = requests.observation[:, 0]
                self.sizes.append(len(seen))
                self.slots.answer_requests(requests, seen.astype("int64") + 1, -seen, 7)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.join(5)


def play(slots, ends, slot=0, first=0):
    """Play steps whose observations count upwards; `ends` maps a step's number to "terminated" or "truncated".

    Returns what a learner should see: a list of (observation, reset, action, reward, terminated, valid).
    """
    agent = AgentSlot(slots, slot)
    expected, count, reset = [], first, True
    for step in range(len(ends)):
        action = agent.act(np.array([count], np.float32), reset)
        agent.record(count / 2, ends[step] == "terminated")
        expected.append((count, reset, action, count / 2, ends[step] == "terminated", True))
        count += 1
        reset = ends[step] != ""
        if ends[step] == "truncated":
            agent.bootstrap(np.array([count], np.float32))
            expected.append((count, False, None, 0.0, True, False))
            count += 1
    return expected


def drain(slots, sequence):
    """Take all finished unrolls off the slab, as (observation, ...) tuples of single steps with their bootstrap."""
    for unroll in slots.finished.get_many(100, 0.0):
        assert slots.is_finished(unroll)
        batch = slots.gather_unrolls([unroll])
        for t in range(slots.unroll_length):
            sequence.append(
                (
                    batch.observation[t, 0, 0],
                    batch.reset[t, 0],
                    batch.action[t, 0],
                    batch.reward[t, 0],
                    batch.terminated[t, 0],
                    batch.valid[t, 0],
                    batch.observation[t + 1, 0, 0],
                    batch.reset[t + 1, 0],
                )
            )


@settings(max_examples=40, deadline=None)
@given(
    ends=st.lists(st.sampled_from(["", "", "", "terminated", "truncated"]), min_size=1, max_size=24),
    unroll_length=st.integers(1, 5),
)
def test_the_learner_sees_every_step_once_and_in_order(ends, unroll_length):
    slots = make_slots(ring=64, unroll_length=unroll_length)
    with Predictor(slots):
        expected = play(slots, ends)
    sequence = []
    drain(slots, sequence)
    # A truncated episode's last observation stands between two unrolls where it falls on their border.
    position = 0
    for seen in sequence:
        want = expected[position]
        assert (seen[0], seen[1], seen[3], seen[4], seen[5]) == (want[0], want[1], want[3], want[4], want[5])
        if want[5]:
            assert seen[2] == want[0] + 1
            if not want[4]:  # where the episode goes on or was truncated, the next observation is the true one
                assert seen[6] == want[0] + 1
                assert not seen[7]
        position += 1
        at_border = (sequence.index(seen) + 1) % unroll_length == 0
        if at_border and position < len(expected) and not expected[position][5]:
            position += 1


def test_unrolls_are_bounded_and_agents_wait_for_the_learner():
    slots = make_slots(ring=2, unroll_length=2)
    with Predictor(slots):
        agent = threading.Thread(target=play, args=(slots, [""] * 8), daemon=True)
        agent.start()
        agent.join(0.5)
        assert agent.is_alive(), "two unrolls are full: the agent must wait"
        first = slots.finished.get_many(10, 1.0)
        assert first == [0, 1]
        assert not slots.finished.get_many(10, 0.2)
        slots.gather_unrolls(first)
        agent.join(5)
        assert not agent.is_alive()


def test_a_replaced_agent_neither_loses_nor_mixes_anything():
    slots = make_slots(ring=4, unroll_length=4)
    with Predictor(slots):
        play(slots, [""] * 10)  # two whole unrolls and a partial one; then the agent is gone
        slots.recover(0)  # the server announces again what may have been lost
        play(slots, [""] * 5, first=100)
    numbers = slots.finished.get_many(100, 0.1)
    assert numbers == [0, 1, 0, 1, 2], "announced twice by recover"
    taken = []
    for number in numbers:
        if slots.is_finished(number):
            taken.append(slots.gather_unrolls([number]))
    assert [batch.observation[0, 0, 0] for batch in taken] == [0, 4, 100]
    assert taken[-1].observation[:, 0, 0].tolist() == [100, 101, 102, 103, 104]
    assert taken[-1].reset[0, 0]


def test_a_request_is_answered_once():
    slots = make_slots()
    slots.observation[0, 0] = 5.0
    slots.requested[0] = 1
    slots.waiting.put(0)
    slots.waiting.put(0)  # the dead agent's, and its successor's
    requests = slots.gather_requests(8, 0.1, 0.0)
    assert requests.slot.tolist() == [0]
    slots.answer_requests(requests, np.array([3]), np.array([-1.0], np.float32), 1)
    slots.waiting.put(0)
    assert slots.gather_requests(8, 0.1, 0.0) is None


def test_stopping_wakes_and_ends_an_agent():
    slots = make_slots()
    slots.stop()
    with pytest.raises(Stopped):
        AgentSlot(slots, 0).act(np.zeros(1, np.float32), True)


def test_predictions_of_many_agents_are_batched():
    slots = make_slots(num_slots=8, ring=8)
    agents = [threading.Thread(target=play, args=(slots, [""] * 20, slot), daemon=True) for slot in range(8)]
    with Predictor(slots) as predictor:
        for agent in agents:
            agent.start()
        for agent in agents:
            agent.join(10)
    assert not any(agent.is_alive() for agent in agents)
    assert sum(predictor.sizes) == 160
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
