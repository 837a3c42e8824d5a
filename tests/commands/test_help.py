"""The help of every command."""

import subprocess
import sys
from pathlib import Path

import pytest
from commands import ROOT, environment

from kartrl.cli import COMMANDS, main, make_parser
from kartrl.commands.shared.arguments import policies_of


def test_an_unknown_option_refers_to_the_help_of_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    for typed, expected in (
        ("train --minuts 5", "kartrl train: unrecognized arguments: --minuts 5 (see kartrl train --help)"),
        ("circuit build a.toml --x", "unrecognized arguments: --x (see kartrl circuit build --help)"),
    ):
        with pytest.raises(SystemExit) as ended:
            make_parser().parse_args(typed.split())
        assert ended.value.code == 2
        assert expected in capsys.readouterr().err


def test_help_loads_no_torch() -> None:
    code = f"""
import sys
from pathlib import Path
from kartrl.cli import main, make_parser
for command in {list(COMMANDS)}:
    try:
        make_parser().parse_args([command, "--help"])
    except SystemExit:
        pass
sys.exit("torch" in sys.modules)
"""
    ended = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize(
    ("typed", "name", "number"),
    [
        ("evaluate --episodes 1e1", "episodes", 10),
        ("benchmark generalisation --steps 1.5e3", "steps", 1500),
        ("bench --seconds 1_0", "seconds", 10),
        ("circuit drive a.toml --laps 3e0", "laps", 3),
        ("circuit random --seed 2e5", "seed", 200_000),
        ("play --opponents 7", "opponents", 7),
    ],
)
def test_a_number_may_have_any_usual_form(typed: str, name: str, number: int) -> None:
    assert getattr(make_parser().parse_args(typed.split()), name) == number


@pytest.mark.parametrize("typed", ["evaluate --episodes 1.5", "evaluate --episodes 0e1", "play --opponents 8"])
def test_a_number_outside_its_bounds_is_one_line(typed: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        make_parser().parse_args(typed.split())
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "must be a whole number" in line


@pytest.mark.parametrize("command", ["watch", "evaluate", "record", "play", "export"])
def test_option_l_takes_one_argument_and_repeats(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    more = ["-o", "small.pt"] if command == "export" else []
    run = ["my-run"] if command in ("watch", "export") else []
    for given in (["-l", "*.Act1", "-l", "random:2"], ["-l", "*.Act1,random:2"]):
        options = make_parser().parse_args([command, *more, *given, *run])
        assert options.state == ["*.Act1", "random:2"]
        assert not run or options.checkpoint in ("my-run", ["my-run"]), "watch takes several"
    with pytest.raises(SystemExit):
        make_parser().parse_args([command, *more, "-l", "A", "B", "C", "--no"])
    assert "several levels are A,B or -l A -l B" in capsys.readouterr().err


def test_option_l_takes_file_with_comma_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a,b.state").touch()
    assert make_parser().parse_args(["play", "-l", "a,b.state", "-l", "c,d"]).state == ["a,b.state", "c", "d"]


@pytest.mark.parametrize("action", ["check", "draw", "drive"])
def test_circuits_are_named_by_place_or_by_option_l(action: str, capsys: pytest.CaptureFixture[str]) -> None:
    for given in (["A", "B", "C"], ["-l", "A,B", "C"], ["A", "-l", "B", "-l", "C"], ["-l", "A", "-l", "B,C"]):
        assert make_parser().parse_args(["circuit", action, *given]).circuit == ["A", "B", "C"]
    assert main(["circuit", action]) == 2
    assert "no circuit given" in capsys.readouterr().err


def test_option_s_is_the_scripts_alone(capsys: pytest.CaptureFixture[str]) -> None:
    script = subprocess.run([sys.executable, ROOT / "record.py", "--help"], capture_output=True, text=True, check=True)
    assert "-s CIRCUIT" in script.stdout
    for command in ("watch", "evaluate", "record", "play"):
        with pytest.raises(SystemExit) as ended:
            make_parser().parse_args([command, "-s", "MarioCircuit.Act1"])
        assert ended.value.code == 2
        assert "a level is -l A" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["evaluate", "record", "play"])
def test_policy_is_named_by_place_or_by_p_not_both(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    for given in (["my-run"], ["-p", "my-run"]):
        assert policies_of(make_parser().parse_args([command, *given])) == ["my-run"]
    assert policies_of(make_parser().parse_args([command])) == [None]
    assert main([command, "one", "-p", "two"]) == 2
    assert capsys.readouterr().err == "kartrl: -p two: name a policy one way, as one or with -p\n"


def test_splits_take_one_argument_and_repeat() -> None:
    for given in (["--splits", "within,random"], ["--splits", "within", "--splits", "random"]):
        options = make_parser().parse_args(["benchmark", *given, "generalisation"])
        assert options.splits == ["within", "random"]


def test_shortcuts_set_their_keys(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = "--env CartPole-v1 --algo ppo --steps 2e6 --seed 3 --minutes 4 --name x"
    assert main(["config", *arguments.split()]) == 0
    lines = capsys.readouterr().out.splitlines()
    expected = ["id = CartPole-v1", "name = ppo", "agent_steps = 2000000", "seed = 3", "minutes = 4.0", "name = x"]
    assert [line for line in expected if line not in lines] == []
    assert main(["config", "--algo", "pppo"]) == 2
    assert "algorithm.name=pppo: [algorithm] name: must be 'appo'" in capsys.readouterr().err
