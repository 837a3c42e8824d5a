"""A node of agents, as a Ray actor: it relays the learner's calls to a process of its machine, which acts.

It loads neither torch nor environments, so that Ray starts it fast. That process ends with it.
"""

import os
import socket
import threading
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from kartrl.errors import RunFailed
from kartrl.nodes.delivery import Call, Delivery, Greeting

ENDED = "its process has ended"


class ProcessGone(RunFailed):
    """A node's process did not wait for it: Ray started the node too late, or the process has died."""


class Node:
    """See `kartrl.nodes`. Calls are answered in threads: two of `next_unrolls` at a time."""

    def __init__(self) -> None:
        self._sending, self._receiving = threading.Lock(), threading.Lock()
        self._sent = -1  # version of the newest weights sent

    def greet(self, path: str, has_gpu: bool) -> Greeting:
        """Describe the node, once it is ready to act.

        Args:
            path: as returned by `Host.start`.
            has_gpu: whether it may use GPUs.

        Raises:
            UserError: its environment cannot be used.
            ProcessGone: its process has ended before.
            RunFailed: its process has ended.
        """
        connected = socket.socket(socket.AF_UNIX)
        try:
            connected.connect(path)
        except OSError as error:
            raise ProcessGone(ENDED) from error
        self._connection = Connection(connected.detach())
        # Ray sets this for an actor with GPUs, but may leave it as it is for one without.
        self._connection.send(os.environ.get("CUDA_VISIBLE_DEVICES", "") if has_gpu else "")
        greeting: Greeting = self._receive()
        return greeting

    def next_unrolls(self, weights: np.ndarray, version: int, enough: int) -> Delivery:
        """The next finished unrolls, as soon as there are enough.

        Args:
            weights: float32 [n], the newest; see `PublishedWeights.flat`.
            version: version of the weights.
            enough: unrolls to wait for.

        Raises:
            RunFailed: too few agents are healthy, the node is ending, or its process has ended.
            UserError: an agent failed on bad user input.
        """
        with self._sending:
            is_new, self._sent = version > self._sent, max(version, self._sent)
            self._send(Call(weights if is_new else None, version, enough))
        delivery: Delivery = self._receive()
        return delivery

    def end(self) -> None:
        """End its process and agents; calls in progress fail."""
        try:
            with self._sending:
                self._send(None)
            while True:
                self._receive()
        except RunFailed:
            pass

    def _send(self, message: Call | None) -> None:
        try:
            self._connection.send(message)
        except ConnectionError as error:
            raise RunFailed(ENDED) from error

    def _receive(self) -> Any:
        try:
            with self._receiving:  # answers come in the order of the calls, but serve any of them
                answer = self._connection.recv()
        except (EOFError, ConnectionError) as error:
            raise RunFailed(ENDED) from error
        if isinstance(answer, Exception):
            raise answer
        return answer
