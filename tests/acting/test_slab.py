"""The slab's protocol: order, backpressure, episode ends inside and at the edge of unrolls, and replaced agents."""

import itertools
import multiprocessing
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kartrl.acting.agent_group import AgentGroup, Mailbox, Stopped
from kartrl.acting.slab import FINISHED, Slab, SlabShape
from kartrl.metrics.stopwatch import AGENT_STAGES, Stopwatch
from kartrl.processes.pipes import IndexQueue

CONTEXT = multiprocessing.get_context("spawn")


def make_slab(num_agents=1, groups_per_agent=1, group_size=1, ring=2, unroll_length=4):
    """Observations of one number; decisions of three, and states of two."""
    sizes = (num_agents, groups_per_agent, group_size, ring, unroll_length)
    return Slab(CONTEXT, SlabShape(*sizes, (1,), "float32", decision_size=3, state_size=2))


def decide(slab, requests, version=7):
    """Answer with the decisions (observation + 1, -observation, 2 observation), states (observation, version)."""
    seen = requests.observation
    begins = seen[requests.step == 0]
    state = np.concatenate([begins, np.full_like(begins, version)], -1)
    slab.answer_requests(requests, np.concatenate([seen + 1, -seen, 2 * seen], -1), state, version)


def take(slab, *blocks):
    """What a learner gets of these blocks; their memory is given back."""
    batch = slab.gather(blocks)
    slab.release(blocks)
    return batch


class Predictor(threading.Thread):
    """Answers every request, see `decide`."""

    def __init__(self, slab):
        super().__init__(daemon=True)
        self.slab, self.done, self.sizes = slab, threading.Event(), []

    def run(self):
        while not self.done.is_set():
            requests = self.slab.gather_requests(self.slab.await_requests(limit=64, timeout=0.02))
            if requests is not None:
                self.sizes.append(requests.first.size)
                decide(self.slab, requests)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.join(60)


def next_of(get_many, count):
    """The next `count` numbers, of which some may still be on their way."""
    numbers, deadline = [], time.monotonic() + 60
    while len(numbers) < count:
        assert time.monotonic() < deadline, f"only {numbers} have come"
        numbers += get_many(count - len(numbers), 1.0)
    return numbers


def mailbox_of(slab, agent=0):
    return Mailbox(slab, slab.waker(agent))


def agent_group(slab, group=0, mailbox=None):
    mailbox = mailbox or mailbox_of(slab, group // slab.groups_per_agent)
    return AgentGroup(slab, group, mailbox, Stopwatch(AGENT_STAGES))


def ask(agent, observation=0.0, first=False):
    """Ask for one environment."""
    agent.ask(np.full((1, 1), observation, np.float32), np.array([first]))


def record(agent):
    """Nothing came of the action."""
    agent.record(np.zeros(1), np.zeros(1, bool), np.ones(1, bool), np.zeros(1, bool))


def play(slab, ends, group=0, start=0):
    """Play a group whose observations count upwards, environment g from start + 1000 g.

    `ends[step][g]` is "", "terminated" or "truncated"; the step after an end is ignored (NEXT_STEP mode).

    Returns what a learner should see of each one: lists of (observation, first, action, reward, terminated, valid).
    """
    agent, size = agent_group(slab, group), slab.group_size
    expected = [[] for _ in range(size)]
    observation = start + 1000.0 * np.arange(size, dtype=np.float32)
    first, began = np.ones(size, bool), np.zeros(size, bool)
    agent.ask(observation[:, None], first)
    for end in ends:
        action = agent.answer()[:, 0].copy()
        terminated = np.array([kind == "terminated" for kind in end]) & ~began
        done = np.array([kind != "" for kind in end]) & ~began
        agent.record(observation / 2, terminated | began, ~began, np.array([kind == "faulty" for kind in end]))
        for g in range(size):
            expected[g].append(
                (observation[g], first[g], action[g], observation[g] / 2, terminated[g] or began[g], not began[g])
            )
        observation, first, began = observation + 1, began, done
        agent.ask(observation[:, None], first)
    return expected


def drain(slab, sequences):
    """Take all finished blocks off the slab, as (observation, ...) tuples of single steps with what follows them."""
    for block in slab.take_finished(1000, 0.0):
        assert slab.is_finished(block)
        batch = take(slab, block)
        for g, sequence in enumerate(sequences):
            for t in range(slab.unroll_length):
                now = (batch.observation[t, g, 0], batch.first[t, g], batch.decision[t, g, 0], batch.reward[t, g])
                after = (batch.observation[t + 1, g, 0], batch.first[t + 1, g])
                sequence.append((now, (batch.terminated[t, g], batch.valid[t, g]), after))


KINDS = st.sampled_from(["", "", "", "terminated", "truncated"])


@settings(max_examples=40, deadline=None)
@given(ends=st.lists(st.tuples(KINDS, KINDS, KINDS), min_size=1, max_size=24), unroll_length=st.integers(1, 5))
def test_the_learner_sees_every_step_once_and_in_order(ends, unroll_length):
    slab = make_slab(group_size=3, ring=64, unroll_length=unroll_length)
    with Predictor(slab):
        expected = play(slab, ends)
    sequences = [[], [], []]
    drain(slab, sequences)
    for seen, wanted in zip(sequences, expected, strict=True):
        assert len(seen) == len(ends) // unroll_length * unroll_length
        for (now, (terminated, valid), after), (want, following) in zip(
            seen, itertools.pairwise([*wanted, None]), strict=False
        ):
            assert now == (want[0], want[1], want[0] + 1, want[3]), (
                "observation, first, action and reward belong together"
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
    slab = make_slab(ring=2, unroll_length=2)
    with Predictor(slab):
        agent = threading.Thread(target=play, args=(slab, [[""]] * 7), daemon=True)
        agent.start()
        first = next_of(slab.take_finished, 2)
        assert first == [0, 1]
        agent.join(0.5)
        assert agent.is_alive(), "two blocks are full: the agent must wait"
        assert not slab.take_finished(10, 0.2)
        take(slab, *first)
        agent.join(60)
        assert not agent.is_alive()


def test_a_replaced_agent_neither_loses_nor_mixes_anything():
    slab = make_slab(ring=4, unroll_length=4)
    with Predictor(slab):
        play(slab, [[""]] * 10)  # two whole blocks and a partial one; then the agent is gone
        slab.recover(0)  # the server announces again what may have been lost
        play(slab, [[""]] * 5, start=100)
    numbers = slab.take_finished(100, 0.1)
    assert numbers == [0, 1, 2], "also those that were announced twice"
    taken = [take(slab, number) for number in numbers]
    assert [batch.observation[0, 0, 0] for batch in taken] == [0, 4, 100]
    assert taken[-1].observation[:, 0, 0].tolist() == [100, 101, 102, 103, 104]
    assert taken[-1].first[0, 0]


def test_no_answer_reaches_the_wrong_life():
    """A predictor is still at work on a dead agent's request when its successor asks, and answers only then."""
    slab = make_slab(unroll_length=4)
    play_two = threading.Thread(target=play, args=(slab, [[""]] * 2), daemon=True)
    play_two.start()
    for _ in range(2):
        requests = slab.gather_requests(slab.await_requests(1, 60.0))
        decide(slab, requests)
    play_two.join(60)
    late = slab.gather_requests(slab.await_requests(1, 60.0))  # of step 2; then its agent dies
    assert late.step.tolist() == [2]
    slab.retire(0)
    slab.waiting.put(0)  # as if the message were still in the pipe
    assert slab.gather_requests(slab.await_requests(1, 5.0)) is None, "a dead agent's request is not gathered any more"
    decide(slab, late, version=9)  # what the server waits for before it recovers
    slab.recover(0)
    with Predictor(slab):
        play(slab, [[""]] * 4, start=50)
    (block,) = slab.take_finished(10, 1.0)
    batch = take(slab, block)
    assert batch.decision[:, 0, 0].tolist() == [51, 52, 53, 54]
    assert (batch.version == 7).all()
    assert batch.first[:, 0].tolist() == [True, False, False, False, False]


def test_an_unroll_with_faulty_numbers_is_quarantined_alone():
    slab = make_slab(group_size=2, ring=4, unroll_length=3)
    with Predictor(slab):
        play(slab, [["", ""], ["", "faulty"], ["", ""], *[["", ""]] * 3])
    first, second = (take(slab, number) for number in slab.take_finished(10, 1.0))
    assert first.valid[:, 0].all()
    assert not first.valid[:, 1].any()
    assert second.valid.all()
    assert (slab.unrolls[0], slab.quarantined[0]) == (3, 1)


def test_an_agent_may_move_when_it_has_answers_and_room():
    slab = make_slab(ring=2, unroll_length=1)
    assert slab.may_move(0), "it is to begin"
    agent = agent_group(slab)
    agent.ask(np.zeros((1, 1), np.float32), np.ones(1, bool))
    assert not slab.may_move(0), "it waits for an answer"
    requests = slab.gather_requests(slab.await_requests(1, 1.0))
    decide(slab, requests)
    assert slab.may_move(0)
    slab.state[0] = FINISHED
    assert slab.may_move(0), "there is another block"
    slab.state[1] = FINISHED
    assert not slab.may_move(0), "it waits for a trainer"


def test_agent_continues_while_one_group_waits_for_a_block():
    """Or an environment of another group could hang for ever."""
    slab = make_slab(groups_per_agent=2, ring=1)
    slab.state[0] = FINISHED
    assert slab.may_move(0)
    slab.requested[1] = 1
    assert not slab.may_move(0)


def test_agent_replaced_between_blocks_fills_the_next():
    """A batch may need it with the finished one."""
    slab = make_slab(ring=2, unroll_length=2)
    slab.observation[0], slab.filling[0], slab.state[0] = 5.0, 1, FINISHED  # and `current` still says 0
    slab.recover(0)
    with Predictor(slab):
        play(slab, [[""]] * 2)
    finished = slab.take_finished(2, 1.0)
    assert finished == [0, 1]
    assert (take(slab, 0).observation == 5.0).all(), "it was left as it was"


def test_agent_replaced_with_full_ring_waits_for_oldest_block():
    slab = make_slab(ring=2, unroll_length=2)
    slab.state[:], slab.current[0] = FINISHED, 1
    slab.recover(0)
    with Predictor(slab):
        waiting = threading.Thread(target=play, args=(slab, [[""]]), daemon=True)
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
        take(slab, 0)
        waiting.join(60)
        assert not waiting.is_alive()


def test_a_full_ring_holds_up_its_own_group_only():
    """An agent steps two groups in turn; the ring of the first is full, and a batch needs a block of the second."""
    slab = make_slab(groups_per_agent=2, ring=1, unroll_length=2)
    mailbox = mailbox_of(slab)
    groups = [agent_group(slab, group, mailbox) for group in range(2)]

    def step_in_turn():
        for group in groups:
            ask(group)
        for _ in range(3):
            for group in groups:
                group.answer()
                record(group)
                ask(group)

    agent = threading.Thread(target=step_in_turn, daemon=True)
    with Predictor(slab):
        agent.start()
        assert sorted(next_of(slab.take_finished, 2)) == [0, 1]
        agent.join(0.1)
        assert agent.is_alive(), "now both rings are full"
        take(slab, 1)
        deadline = time.monotonic() + 60
        while mailbox.deferred != groups[:1]:
            assert time.monotonic() < deadline, "meanwhile, the second one's request is on its way"
            time.sleep(0.001)
        agent.join(0.1)
        assert agent.is_alive(), "the first group's turn has come, and its ring is full"
        take(slab, 0)
        agent.join(60)
        assert not agent.is_alive()


def test_answer_is_read_only_after_its_number_arrives():
    slab = make_slab()
    mailbox = mailbox_of(slab)
    agent = agent_group(slab, 0, mailbox)
    ask(agent, 1.0)
    slab.answered[0] = slab.requested[0]  # memory may say so before the answer itself can be seen
    answers = []
    waiting = threading.Thread(target=lambda: answers.extend(agent.answer()[:, 0]), daemon=True)
    waiting.start()
    slab.wake(0)  # another flag has changed
    slab.wake(0, 0, 0)  # the answer to an earlier life
    waiting.join(0.2)
    assert waiting.is_alive()
    decide(slab, slab.gather_requests(slab.await_requests(1, 1.0)))
    waiting.join(60)
    assert answers == [2.0]
    assert mailbox.answered[0] == 1


def test_initial_state_is_that_before_each_blocks_first_step():
    slab = make_slab(num_agents=2, group_size=2, ring=4, unroll_length=3)
    with Predictor(slab):
        for group in range(2):
            play(slab, [["", ""]] * 9, group, start=10_000 * group)
    batch = take(slab, *sorted(slab.take_finished(10, 1.0)))
    assert batch.initial_state.shape == (12, 2)
    np.testing.assert_array_equal(batch.initial_state[:, 0], batch.observation[0, :, 0])
    assert (batch.initial_state[:, 1] == 7).all()


def test_blocks_keep_their_contents_until_released():
    slab = make_slab(ring=1, unroll_length=2)
    agent = threading.Thread(target=play, args=(slab, [[""]] * 3), daemon=True)
    with Predictor(slab):
        agent.start()
        blocks = next_of(slab.take_finished, 1)
        first = slab.gather(blocks)
        agent.join(0.2)
        assert agent.is_alive(), "it waits for the block, though it was read"
        again = slab.gather(blocks)
        slab.release(blocks)
        agent.join(60)
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)
    assert first.observation[:, 0, 0].tolist() == [0, 1, 2], "a copy"


def test_blocks_of_several_groups_make_one_batch():
    slab = make_slab(num_agents=2, groups_per_agent=2, group_size=2, ring=2, unroll_length=3)
    with Predictor(slab):
        for group in range(4):
            play(slab, [["", ""]] * 3, group, start=10_000 * group)
    batch = take(slab, *slab.take_finished(4, 1.0))
    assert batch.observation.shape == (4, 8, 1)
    starts = [10_000 * group + 1000 * g for group in range(4) for g in range(2)]
    assert sorted(batch.observation[0, :, 0].tolist()) == starts
    np.testing.assert_array_equal(batch.observation[:-1, :, 0] + 1, batch.decision[..., 0])
    assert (batch.version == 7).all()


def test_a_request_is_answered_once():
    slab = make_slab()
    slab.observation[0, 0] = 5.0
    slab.requested[0] = 1
    slab.waiting.put(0)
    slab.waiting.put(0)  # the dead agent's, and its successor's
    requests = slab.gather_requests(slab.await_requests(8, 0.1, enough=2, patience=1.0))
    assert requests.group.tolist() == [0]
    decide(slab, requests)
    slab.waiting.put(0)
    assert slab.gather_requests(slab.await_requests(8, 0.1)) is None
    assert slab.gather_requests([]) is None


def test_request_announced_twice_is_answered_once():
    slab = make_slab(num_agents=8)
    answered, done = [], threading.Event()

    def predict():
        while not done.is_set():
            requests = slab.gather_requests(slab.await_requests(3, 0.02))
            if requests is not None:
                answered.extend(zip(requests.group.tolist(), requests.number.tolist(), strict=True))

    predictors = [threading.Thread(target=predict, daemon=True) for _ in range(2)]
    for predictor in predictors:
        predictor.start()
    for number in range(1, 201):
        for group in range(8):
            slab.requested[group] = number
            slab.waiting.put(group)
            slab.waiting.put(group)
        deadline = time.monotonic() + 60
        while len(answered) < 8 * number:
            assert time.monotonic() < deadline
            time.sleep(0.0001)
    done.set()
    for predictor in predictors:
        predictor.join(60)
    assert sorted(answered) == [(group, number) for group in range(8) for number in range(1, 201)]


def test_predictor_waits_for_enough_groups_up_to_a_limit():
    slab = make_slab(num_agents=3)
    threading.Timer(0.05, slab.waiting.put, args=(1,)).start()
    slab.waiting.put(0)
    start = time.monotonic()
    assert sorted(slab.await_requests(8, 1.0, enough=2, patience=60.0)) == [0, 1]
    assert time.monotonic() - start < 50.0
    slab.waiting.put(2)
    assert slab.await_requests(8, 1.0, enough=2, patience=0.05) == [2]


def test_stopping_wakes_and_ends_an_agent():
    slab = make_slab()
    agent = agent_group(slab)
    agent.ask(np.zeros((1, 1), np.float32), np.ones(1, bool))
    slab.stop()
    with pytest.raises(Stopped):
        agent.answer()


def test_an_agent_ends_when_the_server_has_gone():
    slab = make_slab()
    agent = agent_group(slab)
    agent.ask(np.zeros((1, 1), np.float32), np.ones(1, bool))
    for _, writer in slab.wakes:
        writer.close()
    with pytest.raises(Stopped):
        agent.answer()


def test_dead_agents_full_pipe_blocks_no_process():
    slab = make_slab()
    for _ in range(70_000):  # a pipe holds 65,536 bytes
        slab.wake(0)


def test_predictions_of_many_agents_are_batched():
    slab = make_slab(num_agents=8, ring=8)
    agents = [threading.Thread(target=play, args=(slab, [[""]] * 20, group), daemon=True) for group in range(8)]
    for agent in agents:
        agent.start()
    for group in next_of(slab.waiting.get_many, 8):  # all have asked before the first prediction
        slab.waiting.put(group)
    with Predictor(slab) as predictor:
        for agent in agents:
            agent.join(60)
    assert not any(agent.is_alive() for agent in agents)
    assert 160 <= sum(predictor.sizes) <= 168, "the last requests need no answer"
    assert predictor.sizes[0] == 8


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
        process.join(60)
    deadline = time.monotonic() + 60
    while len(seen) < 6000 and time.monotonic() < deadline:
        time.sleep(0.01)
    done.set()
    for reader in readers:
        reader.join(60)
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
        got = numbers.get_many(64, 60.0)  # of processes that have to start first
        assert got, "a number was lost"
        seen += got
    for process in processes:
        process.join(60)
    for rank in range(3):
        assert [number for number in seen if number // 1000 == rank] == list(range(1000 * rank, 1000 * rank + 500))
