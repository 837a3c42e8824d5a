"""Messages come whole, in order, and without waiting for the rest of one."""

import multiprocessing
import os
import threading

import pytest

from kartrl.processes.pipes import Inbox


@pytest.fixture
def pipe():
    reader, writer = multiprocessing.Pipe(duplex=False)
    with reader, writer:
        yield Inbox(reader), writer


def test_messages_come_whole_and_in_order(pipe):
    inbox, writer = pipe
    assert inbox.receive() == []
    for message in ("one", {"two": 2}, None):
        writer.send(message)
    assert inbox.receive() == ["one", {"two": 2}, None]
    assert inbox.receive() == []


def test_a_message_larger_than_the_pipe_comes_in_pieces(pipe):
    inbox, writer = pipe
    large = os.urandom(1_000_000)
    sender = threading.Thread(target=writer.send, args=(large,), daemon=True)
    sender.start()
    received = []
    while not received:
        received = inbox.receive()
    assert received == [large]
    sender.join(60)


def test_half_a_message_is_not_waited_for(pipe):
    """Its sender may have been stopped, or killed."""
    inbox, writer = pipe
    copy, other = multiprocessing.Pipe(duplex=False)
    other.send("late")
    content = os.read(copy.fileno(), 1000)
    writer.send("early")
    os.write(writer.fileno(), content[:7])
    assert inbox.receive() == ["early"]
    assert inbox.receive() == []
    os.write(writer.fileno(), content[7:])
    assert inbox.receive() == ["late"]
    os.write(writer.fileno(), content[:7])
    writer.close()
    assert inbox.receive() == []
    with pytest.raises(EOFError):
        inbox.receive()
    copy.close()
    other.close()


def test_messages_beyond_two_gigabytes_are_read_whole(pipe):
    inbox, writer = pipe
    os.write(writer.fileno(), b"\xff\xff\xff\xff" + (5).to_bytes(8, "big") + b"N" + b"." + b"abc")
    assert inbox.receive() == [None]
