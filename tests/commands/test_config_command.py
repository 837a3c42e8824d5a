"""`kartrl config`: what it prints, compares, explains and writes."""

import csv
import json
from pathlib import Path

import pytest
from documented_fields import check_fields, documented

from kartrl.cli import main
from kartrl.config import Config, dump, read


def printed(capsys, *arguments: str) -> str:
    assert main(["config", *arguments]) == 0
    return capsys.readouterr().out


def refused(capsys, *arguments: str) -> str:
    try:
        status = main(["config", *arguments])
    except SystemExit as error:
        status = error.code
    output = capsys.readouterr()
    assert (status, output.out) == (2, "")
    assert output.err.count("\n") == 1
    return output.err


def make_run(folder: Path, text: str) -> str:
    folder.mkdir()
    (folder / "config.cfg").write_text(text)
    return str(folder)


def test_difference_from_the_defaults_makes_the_same(capsys, tmp_path):
    overrides = ["model.hidden_size=128", "run.minutes=2", "environment.kwargs.gravity=-9.0", "appo.entropy_cost=0.01"]
    options = [part for override in overrides for part in ("--set", override)]
    assert printed(capsys, "--diff") == ""
    text = printed(capsys, "-c", "lunarlander", *options, "--diff")
    (tmp_path / "own.cfg").write_text(text)
    assert read([tmp_path / "own.cfg"]) == read(["lunarlander"], overrides)
    assert "# 256\nhidden_size = 128\n" in text


def test_difference_from_a_run_ignores_spelling_and_auto(capsys, tmp_path):
    text = dump(read(["cartpole"]), comments=False)
    text = text.replace("agents = auto", "agents = auto (2)").replace("step_timeout = 60\n", "step_timeout = 60.0\n")
    run = make_run(tmp_path / "run", text + "\n")
    assert "auto (2)" in text
    assert "60.0" in text
    assert printed(capsys, "-c", "cartpole", "--diff", run) == ""
    assert printed(capsys, "-c", "cartpole", "--seed", "7", "--diff", run) == "[run]\n# 1\nseed = 7\n"


def test_difference_finds_the_run_in_configured_logs(capsys, tmp_path):
    run = tmp_path / "runs" / "mine"
    run.mkdir(parents=True)
    (run / "config.cfg").write_text(printed(capsys, "--seed", "3"))
    assert "# 3\nseed = 1\n" in printed(capsys, "--set", f"run.logs={run.parent}", "--diff", "mine")


def test_difference_names_what_only_the_run_sets(capsys, tmp_path):
    run = make_run(tmp_path / "run", dump(read(overrides=["environment.kwargs.size=3"])))
    assert printed(capsys, "--diff", run) == "[environment]\n# kwargs.size = 3, not set here\n"


def test_configuration_is_written_to_a_new_file_only(capsys, tmp_path):
    file = tmp_path / "own.cfg"
    printed(capsys, "-c", "pong", "--write", str(file))
    assert read([file]) == read(["pong"])
    assert "--force" in refused(capsys, "--write", str(file))
    assert read([file]) == read(["pong"])
    printed(capsys, "--write", str(file), "--force")
    assert read([file]) == Config()
    assert "cannot write" in refused(capsys, "--write", str(tmp_path / "none" / "own.cfg"))
    assert "is a folder" in refused(capsys, "--write", str(tmp_path))
    assert "is a folder" in refused(capsys, "--write", str(tmp_path), "--force")


def test_json_holds_every_value_with_its_type(capsys):
    found = json.loads(printed(capsys, "--seed", "3", "--json"))
    check_fields(found, documented("config"))
    assert found["config"]["run"]["seed"] == 3
    rows = [*csv.DictReader(printed(capsys, "--seed", "3", "--csv").splitlines())]
    assert {"section": "run", "key": "seed", "value": "3"} in rows
    assert len(rows) == sum(map(len, found["config"].values()))
    assert found["config"]["optimizer"]["learning_rate"] == "linear 0.001 1e-05"
    assert found["config"]["environment"]["action_masks"] is True


@pytest.mark.parametrize(
    ("key", "accepted", "default"),
    [
        ("system.agents", "whole number, 1 or more, at most 1,024 or auto", "auto"),
        (
            "learning_rate",
            "number, or linear START END, or polynomial START END, or piecewise AT VALUE AT VALUE ..., 0 or more",
            "linear 0.001 1e-05",
        ),
        ("environment.crop", "four whole numbers or auto", "auto"),
        ("model.channels", "list: whole number, 1 or more, at most 65,536 each", "16 32 32"),
        ("optimizer.momentum", "number, 0 or more, less than 1", "0.0"),
        ("levels.MarioCircuit.Act4", "train or test or none", "test"),
        ("levels.random:7", "train or test or none", "not set"),
        ("environment.kwargs.size", "Python literal, or text", "not set"),
    ],
)
def test_key_is_explained_with_its_bounds(capsys, key, accepted, default):
    found = json.loads(printed(capsys, "explain", key, "--json"))
    check_fields(found, documented("config", table=1))
    assert found["key"].endswith(key)
    assert (found["type"], found["default"], found["set_by"]) == (accepted, default, "default")


def test_every_key_is_explained(capsys):
    for section, keys in json.loads(printed(capsys, "--json"))["config"].items():
        for key in keys if section != "levels" else ():
            if key != "kwargs":
                assert f"{section}.{key}\n" in printed(capsys, "explain", f"{section}.{key}")


def test_explanation_names_what_sets_the_value(capsys, tmp_path):
    (tmp_path / "own.cfg").write_text("[run]\nseed = 4\n[environment]\nkwargs.size = 3\n")
    options = ["-c", "cartpole", str(tmp_path / "own.cfg"), "--minutes", "3"]
    for key, value, by in (
        ("run.seed", "4", str(tmp_path / "own.cfg")),
        ("run.minutes", "3.0", "the command line"),
        ("environment.id", "CartPole-v1", "cartpole"),
        ("environment.kwargs.size", "3", str(tmp_path / "own.cfg")),
    ):
        found = json.loads(printed(capsys, "explain", key, *options, "--json"))
        assert (found["value"], found["set_by"]) == (value, by)


def test_unknown_key_or_word_names_the_remedy(capsys):
    assert "'optimizer.learning_rate'" in refused(capsys, "explain", "learnig_rate")
    assert "'optimizer.learning_rate'" in refused(capsys, "explain", "optimizer.lr_rate")
    assert "appo.epochs, ppo.epochs" in refused(capsys, "explain", "epochs")
    assert "'kart.opponents'" in refused(capsys, "explain", "kart.oponents")
    assert "[retro] applies to retro/... only" in refused(capsys, "explain", "retro.actions")
    assert "[kart] applies to kartrl/Kart-v0 only" in refused(capsys, "explain", "kart.opponents", "-c", "cartpole")
    assert "[levels] applies to" in refused(capsys, "explain", "levels.x", "-c", "cartpole")
    assert "explain KEY" in refused(capsys, "explain")
    assert "explain KEY" in refused(capsys, "model")
    assert "no such run" in refused(capsys, "--diff", "nothing-of-this-name")
