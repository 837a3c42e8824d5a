"""Weights that processes share: each copy is of one version, also while they are written, or their writer has died."""

import os
import signal
import time

import numpy as np

from kartrl.acting.shared_weights import SharedWeights
from kartrl.processes.spawn import start_method

SIZE, PIECE = 200_000, 200


def write(weights, after, ready):
    """Body of a process: version v consists of values v; several come at once, then none for a while."""
    ready.send(None)
    flat = np.zeros(SIZE, np.float32)
    for version in range(after + 1, 10**9):
        flat.fill(version)
        weights.write(flat, version)
        if version % 4 == 0:
            time.sleep(0.03)


def check_one_copy(weights, own, version):
    def copy(flat):
        for begin in range(0, SIZE, PIECE):  # in many pieces, so that it takes time
            own[begin : begin + PIECE] = flat[begin : begin + PIECE]

    version = weights.fetch(copy, version)
    assert (own == version).all(), f"not all are of version {version}"
    return version


def test_weights_copy_under_a_killed_writer_is_of_one_version():
    context, weights = start_method(), SharedWeights(np.zeros(SIZE, np.float32), 0)
    own = np.full(SIZE, -1, np.float32)
    version = check_one_copy(weights, own, None)
    for _ in range(2):
        reader, writer = context.Pipe(duplex=False)
        process = context.Process(target=write, args=(weights, version, writer), daemon=True)
        process.start()
        reader.recv()
        seen = set()
        deadline = time.monotonic() + 60
        while len(seen) < 50:
            version = check_one_copy(weights, own, version)
            seen.add(version)
            assert time.monotonic() < deadline, "it is written meanwhile"
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        version = check_one_copy(weights, own, version)
        weights.write(np.full(SIZE, 5e8, np.float32), 500_000_000)
        version = check_one_copy(weights, own, version)
        assert version == 500_000_000, "a successor continues"


def test_unchanged_weights_are_copied_once():
    weights, copies = SharedWeights(np.float32([1.0, 2.5]), 7), []
    for version in (None, 7):
        assert weights.fetch(lambda flat: copies.append(flat.tolist()), version) == 7
    assert copies == [[1.0, 2.5]]
