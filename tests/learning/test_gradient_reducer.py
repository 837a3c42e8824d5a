"""Two learners in processes of their own, each with a share of the batch, are one learner with all of it."""

import subprocess
import sys

import pytest
import ranks
import torch
from commands import environment


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """What two processes made of all cases, by rank."""
    folder = tmp_path_factory.mktemp("ranks")
    command = [sys.executable, ranks.__file__]
    processes = [
        subprocess.Popen([*command, str(rank), "2", str(folder)], env=environment(), stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    for process in processes:
        assert process.wait(120) == 0, process.stderr.read()
        process.stderr.close()
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


@pytest.mark.parametrize("case", ranks.CASES)
def test_two_learners_are_one_with_the_double_batch(both, case):
    alone = ranks.new_learner(ranks.configured(case), seed=1)
    begun = alone.state().network
    made = ranks.learn(alone, slice(None))
    assert made == [True, True, False, True, True], "all skip what is not finite with one of them"
    expected = alone.state()
    for rank in both:
        result = rank["cases"][case]
        assert result["made"] == made
        for part, tensors in expected._asdict().items():
            assert result["state"][part].keys() == tensors.keys()
            for name, tensor in tensors.items():
                torch.testing.assert_close(result["state"][part][name], tensor, atol=1e-5, rtol=1e-4)
    moved = max(float((tensor - begun[name]).abs().max()) for name, tensor in expected.network.items())
    assert moved > 0.01, "far more than they may differ"
    same = [both[rank]["cases"][case]["state"]["network"] for rank in range(2)]
    assert all(torch.equal(tensor, same[1][name]) for name, tensor in same[0].items()), "bit for bit"


def test_rollback_restores_all_learners_and_sums_their_steps(both):
    first, second = (rank["diverged"] for rank in both)
    assert first["saved"] is not None
    for name, tensor in first["saved"].items():
        assert torch.equal(first["after"][name], tensor), name
        assert torch.equal(second["after"][name], tensor), name
    steps = sum(int(ranks.whole_batch(number).valid.sum()) for number in (0, 1, 0))
    assert first["steps"] == second["steps"] == steps


def test_a_learner_that_has_ended_is_noticed_by_the_others(both):
    assert both[0]["lost"]
