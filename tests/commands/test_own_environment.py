"""What docs/environments.md says of an environment of one's own, with the code of that page."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from commands import ROOT, environment, steps, wait_for

from kartrl.config import read
from kartrl.errors import UserError
from kartrl.learning import checkpoint
from kartrl.runtime.inspection import inspect_env

PAGE = (ROOT / "docs" / "environments.md").read_text(encoding="utf-8")
KARTRL = Path(sys.executable).with_name("kartrl")  # the installed command: it does not look in the current folder
CORRIDOR = ("environment.id=mine:mine/Corridor-v0", "model.hidden_size=16", "system.agents=2", "run.name=run")


def kartrl(cwd: Path, *arguments: str, trusted: str = "") -> subprocess.CompletedProcess[str]:
    env = environment() | {"KARTRL_IMPORT": trusted}
    return subprocess.run(
        [KARTRL, *arguments], cwd=cwd, env=env, capture_output=True, text=True, timeout=110, check=False
    )


def sets(*overrides: str) -> list[str]:
    return [part for override in overrides for part in ("--set", override)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    code = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1]
    assert "render" not in code
    (tmp_path / "mine.py").write_text(code)
    return tmp_path


@pytest.mark.timeout(400)
def test_it_is_trained_evaluated_and_resumed_from_its_folder(folder: Path) -> None:
    often = ("run.agent_steps=1000000000", "run.checkpoint_minutes=0.01", "evaluation.minutes=0")
    mine = ("environment.kwargs.length=3", "environment.wrapper=mine:shifted", "environment.opponents=1")
    run, printed = folder / "logs" / "run", folder / "output"
    with printed.open("w") as output:
        command = [KARTRL, "train", *sets(*CORRIDOR, *mine, *often)]
        training = subprocess.Popen(command, cwd=folder, env=environment(), stdout=output, stderr=subprocess.STDOUT)
        try:
            wait_for(lambda: steps(run), 100, "a checkpoint after an update")
        finally:
            training.terminate()
            assert training.wait(30) == 128 + signal.SIGTERM
    assert "mine:mine/Corridor-v0 has no use for environment.opponents" in printed.read_text()
    for advice in ("Resume:   ", "Film:     ", "Evaluate: "):
        assert re.search(rf"{advice}KARTRL_IMPORT=mine \S*kartrl ", printed.read_text()), "as it can be typed"

    path = checkpoint.newest(run)
    assert checkpoint.load(path).config.environment.kwargs == {"length": 3}
    for arguments in (["evaluate", "-p", str(path)], ["train", "--resume", "run"]):
        refused = kartrl(folder, *arguments)
        assert refused.returncode == 2
        assert "export KARTRL_IMPORT=mine\n" in refused.stderr
        assert len(refused.stderr.splitlines()) == 1

    table = kartrl(folder, "evaluate", "-p", str(path), "--episodes", "2", trusted="other, mine")
    assert table.returncode == 0, table.stderr
    assert "Corridor" in table.stdout
    film = kartrl(folder, "record", "-p", str(path), trusted="mine")
    assert film.returncode == 2
    assert "gives no pictures" in film.stderr
    limit = f"run.agent_steps={int(path.stem) + 2000}"
    more = kartrl(folder, "train", "--resume", "run", *sets(limit), trusted="mine")
    assert more.returncode == 0, more.stdout + more.stderr


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("environment.kwargs.width=3", ["TypeError", "'width'"]),
        ("environment.wrapper=mine:nothing", ["mine:nothing", "'nothing'"]),
        ("environment.wrapper=nowhere:nothing", ["No module named 'nowhere'"]),
        ("environment.wrapper=mine:np.zeros_like", ["returned ndarray, no environment"]),
        ("environment.id=broken:A-v0", ["ZeroDivisionError", "broken.py, line 2"]),
        ("environment.id=mine/Corridor-v0", ["module:mine/Corridor-v0"]),
        ("environment.id=spaces_zoo:Words-v0", ["Text"]),
    ],
)
def test_what_is_wrong_with_it_is_one_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, override: str, words: list[str]
) -> None:
    (folder / "broken.py").write_text("\n1 / 0\n")
    (folder / "spaces_zoo.py").write_text("1 / 0\n")  # found elsewhere first: what is installed is not replaced
    monkeypatch.chdir(folder)
    with pytest.raises(UserError) as caught:
        inspect_env(read(overrides=[*CORRIDOR, override]))
    assert len(str(caught.value).splitlines()) == 1
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert "AirRaid" not in str(caught.value)
