"""However a run ends, it leaves no process, shared memory, temporary file or lock."""

import contextlib
import fcntl
import os
import re
import select
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from commands import (
    END_SLOWLY,
    ENDLESS,
    EVALUATE_OFF,
    PACED,
    QUICK,
    REPORT_OFTEN,
    UNTIL_ENDED,
    Training,
    logged,
    run,
    steps,
    wait_for,
)

from kartrl.metrics import scalars_csv

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs signals")

GONE_SECONDS = 60  # what is killed while the machine is busy takes its time
NAMED = ["--set", "run.name=run"]
KART = [
    *UNTIL_ENDED,
    *NAMED,
    "--set",
    "kart.game=bundled",
    "--set",
    "system.agents=2",
    "--set",
    "model.hidden_size=16",
]


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The temporary folder of the runs; its path is short, since it contains sockets."""
    folder = Path(tempfile.mkdtemp(prefix="left"))
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)  # sockets may disappear meanwhile


def mapped(training: Training) -> set[str]:
    """What the run's processes have mapped into their memory."""
    paths = set()
    for process in training.family():
        with contextlib.suppress(psutil.Error):
            paths |= {region.path for region in process.memory_maps()}
    return paths


def nothing_is_left(training: Training, temporary: Path) -> None:
    """Wait until no process and no temporary file is left; shared memory has no name that could be."""
    wait_for(lambda: not training.family(), GONE_SECONDS, "all processes to be gone")
    # except for a cache of PyTorch, shared by all runs of a user
    wait_for(
        lambda: all(path.name.startswith("torchinductor") for path in temporary.iterdir()),
        GONE_SECONDS,
        "an empty temporary folder",
    )


def litter(folder: Path) -> list[Path]:
    """Lock files and partially written files."""
    return [path for path in folder.rglob("*") if path.suffix == ".tmp" or path.name in ("run.lock", "run.pid")]


def killed(training: Training) -> None:
    os.kill(training.process.pid, signal.SIGKILL)
    training.process.wait(60)


@pytest.mark.timeout(400)
def test_normal_end_leaves_nothing(tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = tmp_path / "gate"
    monkeypatch.setenv("KARTRL_TEST_GATE", str(gate))  # the agents wait for it at their first step
    options = ["--set", "environment.id=pacing:Gated-v0", "--set", "run.agent_steps=2000"]
    with Training(tmp_path, *QUICK, *NAMED, *options) as training:
        wait_for(lambda: len(training.roles("agent-0") + training.roles("agent-1")) == 2, 60, "the agents")
        paths = mapped(training)
        assert not any(path.startswith("/dev/shm") for path in paths), "a name, which could be left behind"
        assert any("memfd:kartrl" in path for path in paths), "the agents' slab"
        gate.touch()
        status, output = training.end(timeout=200)  # it evaluates, at the lowest priority
        assert status == 0, output
        nothing_is_left(training, temporary)
    assert litter(tmp_path / "logs" / "run") == []


def test_failing_environment_leaves_nothing(tmp_path: Path, temporary: Path) -> None:
    at_once = ["--set", "environment.id=crashing:CrashAtOnce-v0"]
    with Training(tmp_path, *QUICK, *NAMED, *EVALUATE_OFF, *at_once) as training:
        status, output = training.end(timeout=100)
        assert status == 1, output
        nothing_is_left(training, temporary)
    assert list((tmp_path / "logs").iterdir()) == [], "the next run may have its name"


def test_evaluator_that_cannot_start_is_reported_at_the_end(tmp_path: Path, temporary: Path) -> None:
    with Training(tmp_path, *QUICK, *NAMED, "--set", "run.agent_steps=2000", faults="evaluator=refuse") as training:
        status, output = training.end(timeout=100)
        assert status == 0, output
        assert "the evaluator cannot be started ([Errno 11] Resource temporarily unavailable)" in output
        assert output.count("The last checkpoint is not evaluated") == 1, output
        nothing_is_left(training, temporary)
    assert litter(tmp_path) == []
    assert (tmp_path / "logs" / "run" / "best.pt").exists()


def test_ctrl_c_skips_the_last_evaluation(tmp_path: Path, temporary: Path) -> None:
    options = ["--set", "environment.id=pacing:Unending-v0", "--set", "run.agent_steps=500"]
    printed = tmp_path / "printed"
    with printed.open("w") as file, Training(tmp_path, *QUICK, *NAMED, *options, output=file) as training:
        wait_for(lambda: "(Ctrl-C skips this)" in printed.read_text(), 100, "the last evaluation")
        training.process.send_signal(signal.SIGINT)
        assert training.process.wait(60) == 128 + signal.SIGINT
        nothing_is_left(training, temporary)
    assert printed.read_text().count("Ctrl-C again ends at once") == 1
    assert litter(tmp_path) == []
    assert (tmp_path / "logs" / "run" / "best.pt").exists()


def test_sigint_to_a_kart_run_saves_and_leaves_nothing(tmp_path: Path, temporary: Path) -> None:
    folder = tmp_path / "logs" / "run"
    with Training(tmp_path, *KART) as training:
        wait_for(lambda: steps(folder) > 0, 60, "a checkpoint")
        saved = steps(folder)
        assert len(training.family()) >= 4
        status, output = training.end(signal.SIGINT)
        assert status == 128 + signal.SIGINT, output
        assert "Traceback" not in output
        assert steps(folder) >= saved
        nothing_is_left(training, temporary)
    assert litter(folder) == []


def test_sigterm_to_all_after_ignored_sighup_loses_no_metrics(tmp_path: Path, temporary: Path) -> None:
    """SIGHUP as to a run under `nohup`, SIGTERM as by `timeout`."""
    folder = tmp_path / "logs" / "run"
    with Training(tmp_path, *ENDLESS, faults=REPORT_OFTEN, ignored=[signal.SIGHUP]) as training:
        wait_for(lambda: steps(folder) > 0, 60, "a checkpoint")
        os.killpg(training.process.pid, signal.SIGHUP)
        saved = steps(folder)
        wait_for(lambda: steps(folder) > saved and logged(folder), 60, "the next checkpoint, and metrics")
        before = logged(folder)
        os.killpg(training.process.pid, signal.SIGTERM)
        status, output = training.end()
        assert status == 128 + signal.SIGTERM, output
        assert "died" not in output, output
        assert "being restarted" not in output, output
        assert logged(folder)[: len(before)] == before
        nothing_is_left(training, temporary)
    assert litter(folder) == []


def test_repeated_ctrl_c_ends_at_once(tmp_path: Path, temporary: Path) -> None:
    """Sent to all processes of the run as by a terminal; a stopped agent keeps the run from ending by itself."""
    printed = tmp_path / "printed"
    with (
        printed.open("w") as file,
        Training(tmp_path, *ENDLESS, output=file, faults=END_SLOWLY) as training,
    ):
        wait_for(lambda: steps(tmp_path / "logs" / "run") > 0, 60, "a checkpoint")
        training.role("agent-0").suspend()

        def interrupted() -> bool:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(training.process.pid, signal.SIGINT)
            return training.process.poll() is not None

        os.killpg(training.process.pid, signal.SIGINT)
        wait_for(lambda: "Ctrl-C again ends at once" in printed.read_text(), 60, "the acknowledgement")
        wait_for(interrupted, 60, "the end")
        status, output = training.process.wait(60), printed.read_text()
        assert status == 128 + signal.SIGINT, output
        assert "Traceback" not in output
        assert "Saved." not in output, "it did not wait for the agent"
        assert output.count("Saving and ending; Ctrl-C again ends at once") == 1
        assert re.search(
            r"kartrl: ended at once; (nothing is|[\d,]+ agent steps are) lost; resume from [\d,]+ with", output
        )
        nothing_is_left(training, temporary)
    assert litter(tmp_path) == []


@pytest.mark.timeout(240)
def test_ctrl_c_while_processes_start_leaves_nothing(tmp_path: Path, temporary: Path) -> None:
    """Sent to all processes of the run as by a terminal; none of them prints a traceback."""
    for processes in (2, 4):
        with Training(tmp_path, *ENDLESS, fresh=True) as training:
            wait_for(lambda: len(training.family()) >= processes, 60, "its processes")  # noqa: B023
            os.killpg(training.process.pid, signal.SIGINT)
            status, output = training.end()
            assert status in (-signal.SIGINT, 128 + signal.SIGINT), output
            assert "Traceback" not in output, output
            assert "Ctrl-C again ends at once" in output or status == -signal.SIGINT, output
            nothing_is_left(training, temporary)
    assert litter(tmp_path) == []


def test_signal_before_the_fork_server_starts_leaves_nothing(tmp_path: Path, temporary: Path) -> None:
    """The folder of its sockets exists by then."""
    with Training(tmp_path, *ENDLESS, faults="fork_server=wait") as training:
        wait_for(lambda: list(temporary.iterdir()), 60, "the folder of its sockets")
        os.killpg(training.process.pid, signal.SIGHUP)
        status, output = training.end()
        assert status in (-signal.SIGHUP, 128 + signal.SIGHUP), output
        nothing_is_left(training, temporary)
    assert litter(tmp_path) == []


@pytest.mark.timeout(240)
def test_training_outlives_its_terminal_until_sighup(tmp_path: Path, temporary: Path) -> None:
    """First nobody reads its output, then nobody can, and at last all its processes get SIGHUP."""
    folder = tmp_path / "logs" / "run"
    reader, writer = os.pipe()
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, select.PIPE_BUF)  # soon full
    with (
        os.fdopen(writer, "w") as output,
        Training(tmp_path, *ENDLESS, "--set", "environment.id=crashing:Talkative-v0", output=output) as training,
    ):
        output.close()
        wait_for(lambda: steps(folder) > 0, 60, "a checkpoint while nobody reads")
        os.close(reader)
        saved = steps(folder)
        wait_for(lambda: steps(folder) > saved, 60, "a checkpoint when nobody can read")

        def further() -> bool:
            nonlocal saved
            saved = steps(folder)
            return scalars_csv.come_to(folder)[1] > saved

        wait_for(further, 100, "an update since the checkpoint")
        os.killpg(training.process.pid, signal.SIGHUP)
        assert training.process.wait(60) == 128 + signal.SIGHUP
        assert steps(folder) > saved
        assert scalars_csv.values(folder, "system/agent_deaths")[-1] == 0
        nothing_is_left(training, temporary)
    assert litter(folder) == []


@pytest.mark.timeout(240)
def test_next_start_removes_what_a_killed_group_left(tmp_path: Path, temporary: Path) -> None:
    logs = tmp_path / "logs"
    others = [*ENDLESS, "--set", "run.name=other"]
    with Training(tmp_path, *ENDLESS) as training, Training(tmp_path, *others) as other:
        wait_for(lambda: steps(logs / "run") > 0 and steps(logs / "other") > 0, 90, "checkpoints")
        os.killpg(training.process.pid, signal.SIGKILL)
        wait_for(lambda: not training.family(), GONE_SECONDS, "the end of all processes")
        (logs / "run" / "checkpoints" / ".part.tmp").touch()
        # and what it was writing when it was killed
        assert {path.name for path in litter(logs / "run")} >= {"run.lock", "run.pid", ".part.tmp"}
        assert len(list(temporary.glob("kartrl-*"))) == 2
        again = run("train", *QUICK, *EVALUATE_OFF, "--set", "run.agent_steps=500", cwd=tmp_path)
        assert again.returncode == 0, again.stderr
        assert litter(logs / "run") == []
        # it may be writing a checkpoint
        assert {path.name for path in litter(logs / "other")} >= {"run.lock", "run.pid"}, "those of a living run stay"
        assert len(list(temporary.glob("kartrl-*"))) == 1
        assert other.end(signal.SIGTERM)[0] == 128 + signal.SIGTERM
        nothing_is_left(other, temporary)
    assert litter(tmp_path) == []


def test_a_killed_resource_tracker_is_replaced_silently(tmp_path: Path, temporary: Path) -> None:
    with Training(tmp_path, *ENDLESS) as training:
        wait_for(lambda: steps(tmp_path / "logs" / "run") > 0, 60, "a checkpoint")
        for process in training.family():
            with contextlib.suppress(psutil.NoSuchProcess):  # it may end while it is looked at
                if any("resource_tracker" in word for word in process.cmdline()):
                    process.kill()
        victim = training.role("agent-0")
        victim.kill()
        wait_for(lambda: {process.pid for process in training.roles("agent-0")} - {victim.pid}, 60, "its successor")
        status, output = training.end(signal.SIGTERM)
        assert status == 128 + signal.SIGTERM, output
        assert "tracker" not in output
        assert "Traceback" not in output
        nothing_is_left(training, temporary)


def test_sigterm_during_startup_leaves_nothing(tmp_path: Path, temporary: Path) -> None:
    folder = tmp_path / "logs" / "run"
    with Training(tmp_path, *ENDLESS) as training:
        wait_for((folder / "config.cfg").exists, 60, "the run to begin")
        status, output = training.end(signal.SIGTERM)
        assert status == 128 + signal.SIGTERM, output
        assert "Traceback" not in output
        nothing_is_left(training, temporary)
    assert litter(folder) == []


def agents_have_begun(training: Training, folder: Path) -> bool:
    return bool(training.roles("agent-0"))


def evaluator_has_begun(training: Training, folder: Path) -> bool:
    return bool(training.roles("evaluator"))


@pytest.mark.parametrize(
    ("options", "moment"),
    [
        pytest.param(ENDLESS, agents_have_begun, id="while the agents start"),
        pytest.param([*QUICK, *PACED, *UNTIL_ENDED, *NAMED], evaluator_has_begun, id="while the evaluator loads"),
    ],
)
def test_killed_server_leaves_nothing(
    tmp_path: Path, temporary: Path, options: list[str], moment: Callable[[Training, Path], bool]
) -> None:
    folder = tmp_path / "logs" / "run"
    with Training(tmp_path, *options) as training:
        wait_for(lambda: moment(training, folder), 60, "the moment")
        killed(training)
        nothing_is_left(training, temporary)


def test_killed_server_of_stopped_processes_can_be_resumed(tmp_path: Path, temporary: Path) -> None:
    folder = tmp_path / "logs" / "run"
    with Training(tmp_path, *KART) as training:
        wait_for(lambda: steps(folder) > 0, 60, "a checkpoint")
        agent = training.role("agent-0")
        if psutil.LINUX:  # elsewhere a stopped process does not learn that its parent has ended
            for process in (agent, *training.roles("logger"), psutil.Process(agent.ppid())):
                process.suspend()
        killed(training)
        nothing_is_left(training, temporary)
    further = ["--set", f"run.agent_steps={steps(folder) + 1000}", *EVALUATE_OFF]
    resumed = run("train", "--resume", *further, cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert not (folder / "run.lock").exists()


def test_sigterm_to_several_runs_at_once_saves_each(tmp_path: Path, temporary: Path) -> None:
    names = ("one", "two")
    for name in names:
        (tmp_path / f"{name}.cfg").write_text(f"[run]\nname = {name}\n")
    with Training(
        tmp_path, "-c", "one.cfg", "-c", "two.cfg", "--parallel", *QUICK, *PACED, *EVALUATE_OFF, *UNTIL_ENDED
    ) as training:
        wait_for(lambda: all(steps(tmp_path / "logs" / name) > 0 for name in names), 150, "both to save")
        status, output = training.end(signal.SIGTERM)
        assert status == 128 + signal.SIGTERM, output
        assert output.count("stopped after") == 2
        nothing_is_left(training, temporary)
    assert litter(tmp_path) == []
