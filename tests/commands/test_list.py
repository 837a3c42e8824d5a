"""`kartrl list`."""

import json
import os
from pathlib import Path

import pytest
from documented_fields import check_fields, documented
from policies import CARTPOLE, save_policy

from kartrl.cli import main
from kartrl.config import dump, read
from kartrl.config.ini import presets
from kartrl.envs.episode import Episode
from kartrl.metrics.episodes_csv import EpisodesTable
from kartrl.metrics.records import EpisodeRecord
from kartrl.metrics.scalars_csv import ScalarsTable
from kartrl.run.run_folder import RunFolder


def listed(capsys, *arguments: str) -> list[dict]:
    assert main(["list", *arguments, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    what = arguments[0] if arguments else "runs"
    check_fields(printed, [field for field in documented("list") if field.startswith(f"{what}[")])
    return printed[what]


def make_run(logs: Path, name: str, steps: int, begun: float, *overrides: str) -> Path:
    """A run that has logged and, but for 0 steps, saved something."""
    folder = logs / name
    (folder / "checkpoints").mkdir(parents=True)
    settings = [*CARTPOLE, "run.agent_steps=1000", *overrides]
    (folder / "config.cfg").write_text(dump(read(overrides=settings)))
    os.utime(folder / "config.cfg", (begun, begun))
    if steps:
        save_policy(folder, settings, steps)
        table = ScalarsTable(folder, 0)
        table.open()
        for number in (steps // 2, steps):
            table.write(1.0, number, {"charts/episodic_return": number / 10})
        table.close()
    return folder


@pytest.fixture
def logs(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "logs"


def test_resumed_run_is_listed_with_its_new_limit(logs, capsys):
    folder = make_run(logs, "longer", 1000, 1)
    save_policy(folder, [*CARTPOLE, "run.agent_steps=2000"], 1200)
    (row,) = listed(capsys)
    assert (row["state"], row["of"]) == ("resumable", 2000)


def test_run_is_listed_with_steps_saved_after_the_last_log(logs, capsys):
    save_policy(make_run(logs, "stopped", 600, 1), [*CARTPOLE, "run.agent_steps=1000"], 700)
    assert [row["steps"] for row in listed(capsys)] == [700]


def test_return_of_training_is_that_of_the_last_episodes(logs, capsys):
    table = EpisodesTable(make_run(logs, "slow", 600, 1), 0)
    table.open()
    for number in range(150):  # the last point of the curve is 60
        table.write(EpisodeRecord(600, Episode(9, float(number), True), evaluated=False))
    table.close()
    assert [row["return"] for row in listed(capsys)] == [99.5]


def test_runs_are_listed_with_their_states(logs, capsys):
    make_run(logs, "whole", 1000, 1)
    make_run(logs, "half", 500, 2, "algorithm.name=ppo")
    make_run(logs, "experiment/empty", 0, 3)
    make_run(logs, "broken", 500, 4).joinpath("config.cfg").write_text("[run]\nseed = no\n")
    for file in (logs / "broken" / "checkpoints").iterdir():
        file.write_bytes(b"")
    held = RunFolder(make_run(logs, "going", 500, 5))
    rows = {row["run"]: row for row in listed(capsys)}
    held.release()
    states = {name: row["state"] for name, row in rows.items()}
    assert states == {
        "whole": "ended",
        "half": "resumable",
        "experiment/empty": "not saved",
        "broken": "unreadable",
        "going": "training",
    }
    assert [rows["half"][key] for key in ("steps", "of", "return", "algorithm")] == [500, 1000, 50.0, "ppo"]
    assert rows["half"]["megabytes"] > 0
    assert rows["experiment/empty"]["return"] is None
    assert [row["run"] for row in listed(capsys, "runs", "*le")] == ["whole"]


def test_presets_and_envs_are_listed_by_glob(logs, capsys):
    assert [row["preset"] for row in listed(capsys, "presets")] == presets()
    assert {row["environment"] for row in listed(capsys, "presets", "pendulum*")} == {"Pendulum-v1"}
    assert listed(capsys, "envs", "CartPole-v1") == [{"environment": "CartPole-v1", "steps": 500}]
    assert "kartrl/Kart-v0" in {row["environment"] for row in listed(capsys, "envs", "kartrl/*")}


def test_empty_list_names_where_it_looked(logs, capsys):
    assert main(["list"]) == 0
    assert capsys.readouterr().out == "No runs in logs (KARTRL_LOGS=FOLDER: elsewhere)\n"
    assert main(["list", "presets", "x*"]) == 0
    assert capsys.readouterr().out == "No presets match x*\n"
    assert main(["list", "presets", "PENDULUM"]) == 0
    assert capsys.readouterr().out == "No presets match PENDULUM; GLOB must match a whole name, such as pendulum\n"


def test_levels_and_policies_are_listed(logs, capsys):
    make_run(logs, "one", 500, 1)
    save_policy(logs / "one", CARTPOLE, 500).replace(logs / "one" / "best.pt")
    assert listed(capsys, "levels", "MarioCircuit.Act4") == [
        {"level": "MarioCircuit.Act4", "environment": "kartrl/Kart-v0", "use": "test"}
    ]
    for options, uses in (([], ["none", "none"]), (["-c", "rapids"], ["train", "test"])):
        rows = listed(capsys, "levels", "Level4[89]", *options)
        assert {row["environment"] for row in rows} == {"retro/Rapids-Nes-v0"}
        assert [row["use"] for row in rows] == uses
    assert [row["policy"] for row in listed(capsys, "policies", "one")] == ["one"]
    assert len(listed(capsys, "policies", "*kart.pt")) == 1


def test_runs_of_another_configurations_folder_are_listed(logs, capsys, monkeypatch):
    make_run(logs, "here", 500, 1)
    make_run(logs.parent / "b", "there", 500, 1)
    make_run(logs.parent / "c", "third", 500, 1)
    (logs.parent / "mine.cfg").write_text("[run]\nlogs = b\n")
    for options, name in (([], "here"), (["-c", "mine.cfg"], "there"), (["--set", "run.logs=c"], "third")):
        assert main(["list", *options, "--csv"]) == 0
        assert [line.split(",")[0] for line in capsys.readouterr().out.splitlines()] == ["run", name]
        assert main(["clean", name, *options, "--yes"]) == 0
        assert capsys.readouterr().out == f"Nothing to remove: {name}\n"
    assert main(["clean", "here", "-c", "mine.cfg"]) == 2
    capsys.readouterr()
    monkeypatch.setenv("KARTRL_LOGS", "c")
    assert [row["run"] for row in listed(capsys)] == ["third"]


def test_retro_games_have_the_documented_fields(logs, capsys):
    pytest.importorskip("stable_retro")
    assert listed(capsys, "retro", "Airstriker*")
