"""What docs/environments.md says of an environment of one's own, with the code of that page."""

import re
import subprocess
from pathlib import Path

import pytest
from commands import ROOT, run

from kartrl.config import read
from kartrl.errors import UserError
from kartrl.learning import checkpoint
from kartrl.sizing.inspection import inspect_env

PAGE = (ROOT / "docs" / "environments.md").read_text(encoding="utf-8")
CORRIDOR = ("environment.id=mine:mine/Corridor-v0", "model.hidden_size=16", "system.agents=2", "run.name=run")


def sets(*overrides: str) -> list[str]:
    return [part for override in overrides for part in ("--set", override)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    code = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1]
    assert "render" not in code
    (tmp_path / "mine.py").write_text(code)
    return tmp_path


def test_own_environment_trains_evaluates_and_resumes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def kartrl(*arguments: str, trusted: str = "", fresh: bool = False) -> subprocess.CompletedProcess[str]:
        monkeypatch.setenv("KARTRL_IMPORT", trusted)
        return run(*arguments, cwd=folder, installed=True, fresh=fresh)

    mine = ("environment.kwargs.length=3", "environment.wrapper=mine:shifted", "environment.noop_max=1")
    some = ("run.agent_steps=1000", "evaluation.minutes=0")
    trained = kartrl("train", *sets(*CORRIDOR, *mine, *some), fresh=True)
    assert trained.returncode == 0, trained.stdout + trained.stderr
    assert "mine:mine/Corridor-v0 ignores environment.noop_max" in trained.stdout
    assert "Record: " not in trained.stdout, "it cannot be filmed"
    for advice in ("Resume:   ", "Evaluate: "):
        assert re.search(rf"{advice}KARTRL_IMPORT=mine \S*kartrl ", trained.stdout), "as it can be typed"

    path = checkpoint.newest(folder / "logs" / "run")
    assert checkpoint.load(path).config.environment.kwargs == {"length": 3}
    for arguments in (["evaluate", "-p", str(path)], ["train", "--resume", "run"]):
        refused = kartrl(*arguments)
        assert refused.returncode == 2
        assert "export KARTRL_IMPORT=mine\n" in refused.stderr
        assert len(refused.stderr.splitlines()) == 1

    table = kartrl("evaluate", "-p", str(path), "--episodes", "2", trusted="other, mine")
    assert table.returncode == 0, table.stderr
    assert "Corridor" in table.stdout
    film = kartrl("record", "-p", str(path), trusted="mine")
    assert film.returncode == 2
    assert "cannot be rendered: 'rgb_array' is not in" in film.stderr
    steps = f"run.agent_steps={int(path.stem) + 1000}"
    more = kartrl("train", "--resume", "run", *sets(steps), trusted="mine")
    assert more.returncode == 0, more.stdout + more.stderr


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("environment.kwargs.width=3", ["TypeError", "'width'"]),
        ("environment.wrapper=mine:nothing", ["mine:nothing", "'nothing'"]),
        ("environment.wrapper=nowhere:nothing", ["No module named 'nowhere'"]),
        ("environment.wrapper=mine:np.zeros_like", ["returned ndarray, not an environment"]),
        ("environment.id=broken:A-v0", ["ZeroDivisionError", "broken.py, line 2"]),
        ("environment.id=mine/Corridor-v0", ["module:mine/Corridor-v0"]),
        ("environment.id=spaces_zoo:Words-v0", ["Text"]),
    ],
)
def test_faults_of_an_own_environment_are_one_line(
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


def test_a_package_that_is_missing_is_no_unknown_id(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "racing.py").write_text("def Circuit():\n    import nowhere\n")
    monkeypatch.chdir(folder)
    with pytest.raises(UserError) as caught:
        inspect_env(read(overrides=[*CORRIDOR, "environment.id=racing:Circuit"]))
    assert str(caught.value) == "racing:Circuit: No module named 'nowhere'"
