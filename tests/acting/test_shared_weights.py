"""Weights that processes share: each copy is of one version, also while they are written, or their writer has died."""

import os
import signal
import time

import torch

from kartrl.acting.shared_weights import SharedWeights
from kartrl.processes.spawn import start_method

SIZE, PIECE = 200_000, 200


def write(weights, after, ready):
    """Body of a process: version v consists of values v; several come at once, then none for a while."""
    torch.set_num_threads(1)
    ready.send(None)
    flat = torch.zeros(SIZE)
    for version in range(after + 1, 10**9):
        weights.write(flat.fill_(version), version)
        if version % 4 == 0:
            time.sleep(0.03)


def check_one_copy(weights, tensors, version):
    version = weights.fetch(tensors, version)
    assert all((tensor == version).all() for tensor in tensors), f"not all are of version {version}"
    return version


def test_weights_copy_under_a_killed_writer_is_of_one_version():
    context, weights = start_method(), SharedWeights(torch.zeros(SIZE), 0)
    tensors = [torch.full((PIECE // 10, 10), -1.0) for _ in range(SIZE // PIECE)]  # many, so that a copy takes time
    version = check_one_copy(weights, tensors, None)
    for _ in range(2):
        reader, writer = context.Pipe(duplex=False)
        process = context.Process(target=write, args=(weights, version, writer), daemon=True)
        process.start()
        reader.recv()
        seen = set()
        deadline = time.monotonic() + 60
        while len(seen) < 50:
            version = check_one_copy(weights, tensors, version)
            seen.add(version)
            assert time.monotonic() < deadline, "it is written meanwhile"
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        version = check_one_copy(weights, tensors, version)
        weights.write(torch.full((SIZE,), 5e8), 500_000_000)
        version = check_one_copy(weights, tensors, version)
        assert version == 500_000_000, "a successor continues"


def test_weights_copy_keeps_precision_and_skips_unchanged():
    weights, tensor = SharedWeights(torch.tensor([1.0, 2.5]), 7), torch.zeros(2, dtype=torch.bfloat16)
    assert weights.fetch([tensor], None) == 7
    assert tensor.tolist() == [1.0, 2.5]
    tensor.zero_()
    assert weights.fetch([tensor], 7) == 7
    assert tensor.tolist() == [0.0, 0.0], "not copied again"
