"""What streams are told and in which order, recorded through torch.cuda's interface where there is no GPU."""

import contextlib
import multiprocessing

import numpy as np
import pytest
import torch

from kartrl.acting.messages import Requests
from kartrl.acting.predictor import PaddedRequests
from kartrl.acting.published_weights import PublishedWeights
from kartrl.acting.slab import Slab, SlabShape
from kartrl.hardware.streams import RoleStream


@pytest.fixture
def told(monkeypatch):
    """All that a GPU would be told, in order."""
    log = []

    class Event:
        def __init__(self, name):
            self.name = name

        def synchronize(self):
            log.append(f"the host waits for {self.name}")

    class Stream:
        made = 0

        def __init__(self, device):
            Stream.made += 1
            self.name, self.marks = f"stream {Stream.made}", 0

        def record_event(self):
            self.marks += 1
            log.append(f"{self.name} marks {self.marks}")
            return Event(f"{self.name}'s mark {self.marks}")

        def wait_event(self, event):
            log.append(f"{self.name} waits for {event.name}")

        def synchronize(self):
            log.append(f"the host waits for {self.name}")

    @contextlib.contextmanager
    def stream(chosen):
        log.append(f"{chosen.name} is current")
        yield

    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", stream)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: log.append("the host waits for the device"))
    return log


def test_a_stream_begins_after_all_that_was_given_before(told):
    stream = RoleStream(torch.device("cuda"))
    with stream.current():
        stream.synchronize()
    assert told == ["the host waits for the device", "stream 1 is current", "the host waits for stream 1"]


def test_publishing_and_fetching_wait_on_device_not_on_host(told):
    network, copy = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
    trainer, first, second = (RoleStream(torch.device("cuda")) for _ in range(3))
    weights = PublishedWeights(network, trainer)
    told.clear()
    weights.publish()
    assert [weights.fetch(copy, 0, stream) for stream in (first, second)] == [1, 1]
    weights.publish()
    assert weights.fetch(copy, 2, first) == 2, "nothing new"
    assert told == [
        "stream 1 marks 1",
        "stream 2 waits for stream 1's mark 1",
        "stream 2 marks 1",
        "stream 3 waits for stream 1's mark 1",
        "stream 3 marks 1",
        "stream 1 waits for stream 2's mark 1",
        "stream 1 waits for stream 3's mark 1",
        "stream 1 marks 2",
    ]
    told.clear()
    weights.fetch(copy, 1)
    assert told == ["the host waits for stream 1's mark 2"], "a predictor on the CPU has to"


def test_cpu_streams_do_nothing(told):
    stream = RoleStream(torch.device("cpu"))
    with stream.current():
        stream.wait_for(stream.mark())
    stream.synchronize()
    assert told == []


def test_requests_are_padded_to_the_next_size():
    context = multiprocessing.get_context("spawn")
    slab = Slab(context, SlabShape(3, 2, 2, 1, 5, (4,), "float32", 5, 0))
    padded = PaddedRequests(slab, 6, padding_row=6, pinned=False)
    assert padded.sizes == [1, 2, 4, 6]

    def requests(*groups):
        observation = np.stack([np.full((2, 4), group, np.float32) for group in groups])
        numbers = np.array(groups, np.int64)
        return Requests(numbers, numbers, numbers, numbers, observation, np.ones((len(groups), 2), bool))

    for groups, size in (((0, 1, 2, 3, 4), 6), ((5, 2, 1), 4), ((3,), 1), ((4, 0), 2)):
        assert padded.fill(requests(*groups)) == size
        observation, first, group = padded.rows(size)
        assert group.tolist() == [*groups, *[6] * (size - len(groups))], "nothing is left of the batch before"
        assert observation[: len(groups), 0, 0].tolist() == [*groups]
        assert first[: len(groups)].all()
