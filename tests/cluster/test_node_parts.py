"""What nodes are made of, each part alone: where they go, how unrolls travel, how weights do."""

import importlib.util
import os
import socket
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import grpc
import numpy as np
import pytest
import torch
from commands import assert_clear, environment
from torch import nn

from kartrl.acting.published_weights import PublishedWeights
from kartrl.config import dump, read
from kartrl.errors import UserError
from kartrl.nodes import acting_process
from kartrl.nodes.crew import for_nodes
from kartrl.nodes.delivery import Delivery, NodeState, pack, unpack
from kartrl.nodes.members import Member, Place, places
from kartrl.nodes.session import Machine, RaySession, check, find_cluster, running
from kartrl.nodes.source import NodeSource
from kartrl.sizing.auto import updates_per_batch
from kartrl.trajectory import Trajectory

SMALL, LARGE = Machine("s", "small", 2, 0.0, here=True), Machine("l", "large", 8, 1.0, here=False)


@pytest.mark.parametrize(
    ("overrides", "why"),
    [
        (["cluster.ray=auto", "algorithm.name=ppo"], "whose agents wait for each update; algorithm.name may be"),
        (["cluster.ray=auto", "algorithm.name=a3c", "a3c.hogwild=true"], "not with a3c.hogwild"),
        (["cluster.ray=auto", "system.learners=2"], "not with several learners"),
        (["cluster.ray=auto", "run.reproducible=true"], "not with run.reproducible"),
        (["cluster.ray=auto", "system.predictor_devices=cpu"], "nodes choose their own devices"),
        (["cluster.nodes=2"], "only with cluster.ray"),
        (["cluster.node_cpus=2"], "node_cpus: only with cluster.ray"),
    ],
)
def test_contradictory_node_settings_are_one_line(overrides, why):
    with pytest.raises(UserError, match=why) as raised:
        check(read(overrides=overrides))
    assert_clear(raised.value)


def test_node_predicts_on_cpu_for_any_learner_device():
    text = dump(read(overrides=["environment.id=CartPole-v1", "system.device=cuda", "system.predictor_devices=cuda:0"]))
    assert acting_process.find_out(text, 2).sizes.agents == 2


def test_node_sizes_are_its_own_except_unroll_length():
    chosen = ["algorithm.unroll_length=auto (10)", "system.agents=auto (9)", "system.max_policy_lag=auto (7)"]
    config = read(overrides=["environment.id=CartPole-v1", "system.device=cpu", *chosen])
    sizes = acting_process.find_out(dump(for_nodes(config)), 1).sizes
    assert (sizes.unroll_length, sizes.agents) == (10, 1)


@pytest.mark.parametrize("algorithm", ["appo", "impala", "acer", "a3c"])
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed")
def test_asynchronous_algorithms_have_nodes(algorithm):
    check(read(overrides=["cluster.ray=10.0.0.1:6379", f"algorithm.name={algorithm}"]))


@pytest.mark.parametrize(
    ("machines", "taken", "wanted", "cpus", "expected"),
    [
        ([SMALL, LARGE], [], "auto", "auto", [Place(SMALL, 2), Place(LARGE, 8)]),
        ([SMALL, LARGE], [Place(SMALL, 2)], "auto", "auto", [Place(LARGE, 8)]),
        ([LARGE], [], 3, "auto", [Place(LARGE, 2)] * 3),
        ([SMALL, LARGE], [], 1, "auto", [Place(SMALL, 2)]),
        ([SMALL, LARGE], [], 4, "auto", [Place(SMALL, 1)] * 2 + [Place(LARGE, 4)] * 2),
        ([SMALL, LARGE], [], 8, "auto", [Place(SMALL, 1)] * 2 + [Place(LARGE, 1)] * 6),
        ([SMALL], [Place(SMALL, 1)], 5, "auto", [Place(SMALL, 1)]),
        ([SMALL], [Place(SMALL, 2)], 2, "auto", []),
        ([], [], 2, "auto", []),
        ([SMALL, LARGE], [], "auto", 4, [Place(LARGE, 4)]),
        ([LARGE], [Place(LARGE, 4)], "auto", 4, []),
        ([SMALL, LARGE], [], 5, 2, [Place(SMALL, 2)] + [Place(LARGE, 2)] * 4),
        ([SMALL, LARGE], [Place(LARGE, 3)], 9, 3, [Place(LARGE, 3)]),
    ],
)
def test_nodes_are_spread_over_machines(machines, taken, wanted, cpus, expected):
    assert places(machines, taken, wanted, cpus) == expected


@pytest.mark.parametrize(("algorithm", "expected"), [("appo", 24), ("acer", 120)])
def test_age_limit_follows_from_updates_per_batch(algorithm, expected):
    member = Member(0, Place(SMALL, 2))
    member.envs = 16
    updates = updates_per_batch(read(overrides=[f"algorithm.name={algorithm}"]))
    fleet = SimpleNamespace(members=[member])
    source = NodeSource(fleet, 4, updates, PublishedWeights(nn.Linear(1, 1)), None, threading.Event(), print)
    assert source.max_lag == expected


def test_stages_continue_in_the_next_life():
    member = Member(0, Place(SMALL, 2))
    for acted, waited in ((3.0, 1.0), (1.0, 1.0)):  # of each life
        begun = NodeState(agent_seconds=(0.5, 0.0, 0.5, 0.0, 0.0), predictor_seconds=(0.5, 0.0, 0.0, 0.0))
        agents = (acted, 0.0, waited, 0.0, 0.0)
        member.report(begun._replace(agent_seconds=agents, predictor_seconds=(1.0, 0.0, 1.0, 0.0)))
        member.report(begun)  # late
        member.forget_life()
    shares = member.stages.shares()
    assert shares["time/agent_environment"] == pytest.approx(4 / 6)
    assert shares["time/agent_wait_block"] == pytest.approx(2 / 6)
    assert shares["time/predictor_forward"] == pytest.approx(0.5)
    assert not any(member.stages.shares().values()), "nothing since"


def test_packed_unrolls_are_the_same():
    random = np.random.default_rng(1)
    fields = {name: random.integers(0, 5, (4, 3)) for name in Trajectory._fields}
    fields["observation"] = random.integers(0, 255, (5, 3, 6, 7, 2)).astype(np.uint8)
    unrolls = Trajectory(**fields)
    less, packed = pack(unrolls)
    assert less.observation.nbytes == 0
    again = unpack(Delivery(less, packed, [], [], NodeState()))
    for there, here in zip(again, unrolls, strict=True):
        np.testing.assert_array_equal(there, here)
    assert unpack(Delivery(unrolls, None, [], [], NodeState())) is unrolls


def test_weights_of_another_machine_are_used_unless_too_old():
    there, here = nn.Linear(3, 2), nn.Linear(3, 2)
    learner, node = PublishedWeights(there), PublishedWeights(here, version=-1)
    first = learner.flat()
    with torch.no_grad():
        there.weight.add_(1)
    learner.publish()
    newest = learner.flat()
    assert not np.array_equal(first[0], newest[0]), "a copy is handed out"
    for flat, version in (newest, first):
        node.take(flat, version)
        assert node.version == 1
    acting = nn.Linear(3, 2)
    assert node.fetch(acting, -1) == 1
    assert torch.equal(acting.weight, there.weight)
    assert torch.equal(acting.bias, there.bias)


def test_replacement_agent_skips_inspection_and_ends_with_node():
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders can be too long for a socket's path
        folder = Path(name)
        (folder / "made").mkdir()
        result = subprocess.run(
            [sys.executable, "-m", "lives", str(folder / "made")],
            env={**environment(), "KARTRL_IMPORT": "lives", "TMPDIR": name},
            capture_output=True,
            text=True,
            timeout=250,
        )
        assert result.stdout.split() == ["3", "2"], result.stderr  # inspection, and two agents; these alone
        assert [path.name for path in folder.iterdir()] == ["made"]


class NoTokens(grpc.GenericRpcHandler):
    """A cluster that answers to everyone."""

    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(lambda request, context: b"")


def test_cluster_without_tokens_gets_none(monkeypatch):
    server = grpc.server(ThreadPoolExecutor(1), handlers=[NoTokens()])
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0" * 64)
    assert find_cluster(address) == address
    assert "RAY_AUTH_MODE" not in os.environ
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    with pytest.raises(UserError, match="the cluster takes no tokens, but RAY_AUTH_MODE is token here; unset it"):
        find_cluster(address)
    server.stop(None).wait()


def test_a_cluster_that_has_gone_is_not_joined(tmp_path, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    assert running() is None
    file = tmp_path / "ray" / "ray_current_cluster"
    file.parent.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        file.write_text(address)
        assert running() == address
        for value, expected in (("auto", address), ("local", None), ("10.0.0.1:6379", "10.0.0.1:6379"), ("", address)):
            monkeypatch.setenv("RAY_ADDRESS", value)
            assert running() == expected
        monkeypatch.delenv("RAY_ADDRESS")
    assert running() is None
    file.write_text("127.0.0.1:99999999")
    assert running() is None
    file.write_text("cut off")
    assert running() is None
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(UserError, match=r"nothing answers at 127\.0\.0\.1:1;") as failure:
        RaySession("auto", 1, print)
    assert_clear(failure.value)
