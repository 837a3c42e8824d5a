"""Training with nodes of agents on a real Ray cluster of several machines, which are all this one."""

import contextlib
import importlib.util
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from commands import ENDLESS, EVALUATE_OFF, HELPERS, REPORT_OFTEN, Training, run, sockets, steps, titled, wait_for
from ray_machines import AUTOSCALED_CPUS, Machines, other_version, ray_machines

from kartrl.metrics.scalars_csv import come_to, values
from kartrl.nodes.session import find_cluster

pytestmark = pytest.mark.skipif(  # Ray is not to be imported before its settings are there
    not psutil.LINUX or importlib.util.find_spec("ray") is None, reason="Ray has clusters on Linux alone"
)
SECONDS = 150  # in which Ray has started a process, also on a busy machine
SMALL = "system.agents=1 system.envs_per_agent=4 system.training_batch_size=8 algorithm.unroll_length=5 "
SMALL += "system.max_policy_lag=4"
UPDATE = 8 * 5  # steps of an update, at most
NODE = [part for setting in SMALL.split() for part in ("--set", setting)]


@pytest.fixture(scope="module")
def machines() -> Iterator[Machines]:
    with ray_machines() as started:
        yield started


def newest(folder: Path, tag: str) -> float:
    found = values(folder, tag)
    return found[-1] if found else 0.0


def acts(folder: Path, node: int, restarts: int = 0) -> bool:
    """Whether this node, so often restarted, has delivered unrolls since."""
    speeds, lives = (values(folder, f"node_{node}/{name}") for name in ("agent_steps_per_second", "restarts"))
    return any(speed > 0 and life == restarts for speed, life in zip(speeds, lives, strict=False))


def wait_for_checkpoint(folder: Path) -> None:
    """A newer one than there is."""
    before = steps(folder)
    wait_for(lambda: steps(folder) > before, SECONDS, "a checkpoint")


def session_of(family: list[psutil.Process]) -> Path:
    """The folder of Ray's session, as its raylet was told; Ray's other processes come and go."""
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            if "raylet" in process.name():
                folders = [word.partition("=")[2] for word in process.cmdline() if "session_dir" in word]
                if folders:
                    return Path(folders[0])
    raise AssertionError("no raylet")


def socket_folders(family: list[psutil.Process]) -> set[Path]:
    """The folders of these processes' sockets; some processes may end while they are looked at."""
    folders = set()
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            folders.add(process.environ().get("KARTRL_SOCKETS"))
    return {Path(folder) for folder in folders if folder}


def test_token_of_the_cluster_is_sent_unasked(machines, tmp_path, monkeypatch):
    """Without `RAY_AUTH_MODE`, as in a new shell, from wherever Ray would read it."""
    token = os.environ["RAY_AUTH_TOKEN"]
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text(f"{token}\n")
    for variables in ({"RAY_AUTH_TOKEN": token}, {"RAY_AUTH_TOKEN_PATH": f"{tmp_path}/.ray/auth_token"}, {}):
        with monkeypatch.context() as patch:
            for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
                patch.delenv(name)
            patch.setenv("HOME", str(tmp_path))
            for name, value in variables.items():
                patch.setenv(name, value)
            find_cluster(machines.address)
            assert os.environ.pop("RAY_AUTH_MODE") == "token"


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"RAY_AUTH_TOKEN": "0" * 64}, "the cluster wants another token than that in RAY_AUTH_TOKEN"),
        ({"RAY_AUTH_TOKEN": ""}, "the cluster wants a token, and there is none in "),
        ({"RAY_AUTH_MODE": "disabled"}, "the cluster wants a token, but RAY_AUTH_MODE is disabled here; unset it"),
    ],
)
def test_token_that_does_not_fit_is_refused(machines, tmp_path, monkeypatch, variables, said):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    done = run("train", "--ray", machines.address, *ENDLESS, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert f"kartrl: [cluster] ray = {machines.address}: {said}" in done.stderr
    assert not (tmp_path / "logs").exists()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_nodes_that_join_and_leave_keep_training_alive(machines, tmp_path):
    folder, output = tmp_path / "logs" / "run", tmp_path / "output"
    second = machines.add()
    with output.open("w") as file:
        options = [*ENDLESS, *NODE, "--ray", machines.address]
        with Training(tmp_path, *options, faults=REPORT_OFTEN, output=file) as training:
            wait_for(lambda: acts(folder, 0) and acts(folder, 1), SECONDS, "both nodes")
            assert newest(folder, "lag/mean") < 10
            spent = "node_1/time/agent_environment"  # 0 in a report between two deliveries
            wait_for(lambda: max(values(folder, spent), default=0.0) > 0, SECONDS, "where its time goes")
            assert not training.roles("agent-0"), "agents are elsewhere"

            (agent, _), nodes = machines.agents(), machines.nodes()
            assert len(nodes) == 2
            agent.kill()
            wait_for(lambda: newest(folder, "system/agent_deaths") == 1, SECONDS, "the agent's death to be seen")
            assert machines.nodes().keys() == nodes.keys(), "its node has replaced it"

            stopped, killed = nodes.values()
            stopped.suspend()
            for _ in range(2):  # the first may have been under way when the node was stopped
                wait_for_checkpoint(folder)
            # what is logged comes late, and may be of updates before; those beyond this checkpoint were made since
            learned, dropped = steps(folder), newest(folder, "system/dropped_unrolls")
            wait_for(lambda: come_to(folder)[1] > learned + 6 * UPDATE, SECONDS, "updates beside a slow node")
            stopped.resume()
            wait_for(
                lambda: newest(folder, "system/dropped_unrolls") > dropped, SECONDS, "its old unrolls to be dropped"
            )
            assert not any("torch" in region.path for region in killed.memory_maps()), "it starts fast"
            killed.kill()
            wait_for(lambda: "is being restarted after: " in output.read_text(), SECONDS, "the death to be seen")
            wait_for(lambda: any(acts(folder, node, 1) for node in (0, 1)), SECONDS, "the node in its next life")
            for title in ("kartrl node-0", "ray::Host"):  # the process of a node that acts; the owner of such processes
                before = machines.titled("kartrl node-0")
                machines.titled(title)[0].kill()
                lives = newest(folder, "node_0/restarts") + 1
                wait_for(lambda lives=lives: acts(folder, 0, lives), SECONDS, f"node 0 after the end of {title}")
                assert not titled(before, "kartrl node-0")

            stranger = str(other_version(tmp_path / "other"))
            strange = machines.add(PYTHONPATH=os.pathsep.join((stranger, str(HELPERS))))
            third = machines.add()
            wait_for(lambda: acts(folder, 3) or acts(folder, 2), SECONDS, "the node that has joined")
            wait_for(lambda: " is not used: kartrl there is 0.0.1 (code " in output.read_text(), SECONDS, "it")
            for machine in (second, third, strange):
                machines.remove(machine)
            wait_for(lambda: output.read_text().count(" left with its machine") == 3, SECONDS, "three to have left")
            training.process.kill()
            wait_for(lambda: not machines.processes(), SECONDS, "all processes of nodes to end")
            training.process.wait()

    saved = steps(folder)
    assert saved > 0
    with Training(tmp_path, "--resume", "run", faults=REPORT_OFTEN) as again:
        wait_for(lambda: steps(folder) > saved, SECONDS, "training to go on")
        assert machines.agents()
        status, said = again.end(signal.SIGINT, timeout=SECONDS)
        wait_for(lambda: not machines.processes(), SECONDS, "all processes of nodes to be gone")
    assert status == 128 + signal.SIGINT, said
    assert "failed" not in said
    assert "Traceback" not in output.read_text() + said


@pytest.mark.timeout(400)
def test_the_kart_trains_on_nodes_that_share_a_machine(machines, tmp_path):
    kart = ["--set", "kart.game=bundled", "--set", "model.hidden_size=16", *NODE, *EVALUATE_OFF]
    cluster = ["--ray", machines.address, "--nodes", "2", "--set", "cluster.compression=lz4"]
    result = run("train", *kart, *cluster, "--set", "run.agent_steps=800", cwd=tmp_path, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "finished after" in result.stdout


@pytest.mark.timeout(400)
def test_autoscaler_adds_a_machine_while_it_is_needed(machines, tmp_path):
    assert not machines.autoscaled()
    options = ["--ray", machines.address, "--nodes", "1", "--set", f"cluster.node_cpus={AUTOSCALED_CPUS}"]
    tiny = ["-c", "cartpole", *NODE, *EVALUATE_OFF, "--set", "run.stop_episodes_total=5"]
    result = run("train", *tiny, *options, cwd=tmp_path, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Waiting for a node of agents" in result.stdout
    assert "Ended by run.stop_episodes_total = 5" in result.stdout
    wait_for(lambda: not machines.autoscaled(), SECONDS, "the machine to be given back")


@pytest.mark.timeout(400)
def test_own_cluster_is_unreachable_and_leaves_nothing(tmp_path, monkeypatch):
    for name in ("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path / "nowhere"))  # not the cluster of somebody else
    folder = tmp_path / "logs" / "run"
    with Training(tmp_path, *ENDLESS, *NODE, "--ray", "auto", faults=REPORT_OFTEN) as training:
        wait_for(lambda: steps(folder) > 0, SECONDS, "a checkpoint")
        family = training.family()
        open_sockets = sockets(family)
        assert open_sockets
        assert {place.laddr.ip.removeprefix("::ffff:") for place in open_sockets} == {"127.0.0.1"}
        session = session_of(family)
        assert session.exists()
        folders = socket_folders(family)
        assert len(folders) == 2, "the learner's, and the host's of its nodes"
        status, output = training.end(signal.SIGINT, timeout=SECONDS)
        wait_for(lambda: not training.family(), SECONDS, "all processes to be gone")
    assert status == 128 + signal.SIGINT, output
    assert not session.exists()
    assert not [folder for folder in folders if folder.exists()]
    assert not (tmp_path / ".ray").exists()
    assert "Traceback" not in output


@pytest.mark.timeout(300)
def test_nodes_with_waiting_answers_are_served_in_order(machines):
    import ray

    from kartrl.nodes.fleet import first_answered

    class Node:
        def answer(self, number: int) -> int:
            return number

    ray.init(machines.address, log_to_driver=False)
    try:
        nodes = [ray.remote(Node).options(num_cpus=0).remote() for _ in range(3)]
        calls = [node.answer.remote(number) for number, node in enumerate(nodes)]
        served = []
        for _ in range(8 * len(nodes)):
            ray.wait(calls, num_returns=len(calls), timeout=SECONDS)  # all answers wait
            call = first_answered(ray, calls, SECONDS)
            calls.remove(call)
            served.append(ray.get(call))
            calls.append(nodes[served[-1]].answer.remote(served[-1]))
        assert served == [0, 1, 2] * 8
        assert first_answered(ray, [], 0) is None
    finally:
        ray.shutdown()
