"""Records of results: `kartrl compare --record`."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from finished_runs import write_run
from policies import CARTPOLE, save_policy

from kartrl.cli import main
from kartrl.comparison import experiment
from kartrl.comparison.experiment import read_experiment
from kartrl.comparison.record import changes_since, fingerprint
from kartrl.config import dump, read
from kartrl.learning import checkpoint
from kartrl.run.folders import config_of

COMMAND = "/x/.venv/bin/python run.py -c cartpole --set appo.epochs=3 --seed {seed} --name a --set run.logs=/x"
SOURCE = {"version": "kartrl 0, commit abc123, with changes", "packages": "p 1", "machine": "a fast one"}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def make(name: str, overrides: Sequence[str] = (), seed: int = 1, **source: str) -> str:
    """A run that `COMMAND` has trained, where `auto` chose two agents."""
    folder = write_run(Path("logs") / name, returns=np.linspace(0, 100 + seed, 200).tolist())
    config = read(["cartpole"], ["appo.epochs=3", "system.agents=auto (2)", f"run.seed={seed}", *overrides])
    about = {"command": COMMAND.format(seed=seed), **SOURCE, **source}
    (folder / "config.cfg").write_text(dump(config, about=about), encoding="utf-8")
    return name


def test_record_repeats_and_judges_a_result(capsys: pytest.CaptureFixture[str]) -> None:
    names = [make(f"pole-{seed}", seed=seed) for seed in (1, 2, 3)]
    assert main(["compare", *names, "--json", "--record"]) == 0
    out, said = capsys.readouterr()
    file = Path("results/CartPole-v1-appo.json")
    assert str(file) in said
    record, (task,) = json.loads(file.read_text()), json.loads(out)["tasks"]
    (group,) = task["groups"]
    assert (record["at_steps"], record["runs"]) == (group["at_steps"], group["runs"])
    assert record["command"] == "kartrl train -c cartpole --set appo.epochs=3"
    assert (record["seeds"], record["minutes"]) == ([1, 2, 3], [20.0] * 3)
    assert record["hash"] == fingerprint(record["config"])
    assert (record["config"]["appo.epochs"], record["config"]["system.agents"]) == (3, 2)
    assert record["commit"] == "abc123, with changes"
    assert json.loads(Path("results/machines.json").read_text()) == {record["machine"]: "a fast one"}
    assert len(record["curve"]["steps"]) == len(record["curve"]["values"][2]) == 20
    assert record["curve"]["steps"][-1] == 20_000
    assert record["curve"]["values"][2][-1] == pytest.approx(record["runs"][2]["at_steps"], rel=1e-4)
    assert changes_since(record) == []


def test_resumed_run_is_recorded_with_its_first_command() -> None:
    path = save_policy(Path("logs", make("pole")), CARTPOLE)
    resumed = {**SOURCE, "command": "kartrl train --resume pole"}
    saved = checkpoint.load(path)._replace(config=config_of(Path("logs/pole")), provenance=resumed)
    checkpoint.save(path, saved)
    assert main(["compare", "pole", "--record"]) == 0
    record = json.loads(Path("results/CartPole-v1-appo.json").read_text())
    assert record["command"] == "kartrl train -c cartpole --set appo.epochs=3"


def test_every_option_that_sets_a_value_is_recorded() -> None:
    own = ["run.init=logs/base/best.pt", "run.init_optimizer=true", "cluster.ray=auto", "cluster.nodes=2"]
    make("pole", own, command=f"{COMMAND.format(seed=1)} --init base --with-optimizer --ray=auto --nodes 2")
    assert main(["compare", "pole", "--record"]) == 0
    record = json.loads(Path("results/CartPole-v1-appo.json").read_text())
    set_too = "--set run.init=base --set run.init_optimizer=true --set cluster.ray=auto --set cluster.nodes=2"
    assert record["command"] == f"kartrl train -c cartpole --set appo.epochs=3 {set_too}"
    assert changes_since(record) == []
    record["command"] = record["command"].replace("--set run.init=base --set run.init_optimizer=true ", "")
    assert "run.init was logs/base/best.pt, is none" in changes_since(record)


def test_record_is_replaced_only_with_force(capsys: pytest.CaptureFixture[str]) -> None:
    make("pole")
    assert main(["compare", "pole", "--record", "mine"]) == 0
    before = Path("mine/CartPole-v1-appo.json").read_bytes()
    make("other", machine="a slow one")
    assert main(["compare", "other", "--record", "mine"]) == 2
    assert "--force" in capsys.readouterr().err
    assert Path("mine/CartPole-v1-appo.json").read_bytes() == before
    assert main(["compare", "other", "--record", "mine", "--force"]) == 0
    assert json.loads(Path("mine/CartPole-v1-appo.json").read_text())["machine"] == "B"
    assert json.loads(Path("mine/machines.json").read_text()) == {"A": "a fast one", "B": "a slow one"}


@pytest.mark.parametrize("place", ["a_file", "damaged"])
def test_unusable_folder_of_records_is_one_line(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    make("pole")
    Path("a_file").touch()
    Path("damaged").mkdir()
    Path("damaged/machines.json").write_text("{")
    assert main(["compare", "pole", "--record", place]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"--record {place}" in line


def test_changed_defaults_are_named() -> None:
    make("pole")
    assert main(["compare", "pole", "--record"]) == 0
    record = json.loads(Path("results/CartPole-v1-appo.json").read_text())
    record["config"]["appo.clip_range"] = 0.07
    assert [change.split(",")[0] for change in changes_since(record)] == ["appo.clip_range was 0.07"]
    del record["config"]["appo.clip_range"]  # as a key that has been added since
    record["config"]["model.gone"] = True
    assert changes_since(record) == []
    record["command"] = "kartrl train -c cartpole --set appo.gone=1"
    assert "unknown key 'gone'" in changes_since(record)[0]


@pytest.mark.parametrize(
    ("overrides", "source", "words"),
    [
        ((), {"command": ""}, "does not say how it was trained"),
        ((), {"command": "kartrl train -c 'mine"}, "not a command that trains"),
        ((), {"command": "kartrl train -c cartpole"}, "would train something else: appo.epochs was 3, is 4"),
        (
            ("optimizer.learning_rate=0.5",),
            {},
            "pole-1 has optimizer.learning_rate = linear 0.001 1e-05, pole-2 has 0.5",
        ),
    ],
)
def test_runs_that_cannot_be_recorded_are_refused(
    overrides: Sequence[str], source: dict[str, str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [make("pole-1", **source), make("pole-2", overrides, seed=2)]
    assert main(["compare", *names, "--record"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line
    assert not Path("results").exists()


def test_files_of_ones_own_are_written_out() -> None:
    Path("empty.cfg").touch()
    make("pole", command="kartrl train -c cartpole empty.cfg --set appo.epochs=3")
    Path("mine.cfg").write_text(
        "[environment]\nmirrored_actions = none\n[system]\nagents = 2\n[levels]\n* = none\nMarioCircuit.Act1 = train\n"
    )
    folder = write_run(Path("logs/kart"), returns=[1.0] * 20)
    config = read(["mine.cfg"], ["environment.frame_skip=5"])  # as auto has chosen
    about = {**SOURCE, "command": "kartrl train -c mine.cfg --seed 2"}
    (folder / "config.cfg").write_text(dump(config, about=about), encoding="utf-8")
    assert main(["compare", "pole", "--record"]) == 0
    assert main(["compare", "kart", "--record"]) == 0
    pole, kart = (json.loads(file.read_text()) for file in sorted(Path("results").glob("*-appo.json")))
    assert pole["command"] == "kartrl train -c cartpole --set appo.epochs=3"
    assert kart["command"].startswith("kartrl train --set ")
    assert "environment.id" not in kart["command"], "it is the default"
    assert "--set environment.mirrored_actions=none" in kart["command"]
    assert "--set system.agents=2" in kart["command"]
    assert "frame_skip" not in kart["command"]
    assert changes_since(pole) == changes_since(kart) == []


def test_experiment_is_recorded_by_its_own_parts() -> None:
    """Its runs, which are trained here, say that they were trained with files that nobody else has."""
    own = [*CARTPOLE, "run.agent_steps=1000"]
    base = Path("experiments/whole.cfg")  # next to the experiment, which is not in this folder
    base.parent.mkdir()
    base.write_text(dump(read([], own)), encoding="utf-8")
    Path("experiments/pole.toml").write_text(
        'seeds = [1, 2]\nfolder = "logs/pole"\ncommon = ["whole.cfg", "run.agent_steps=1000"]\n'
        '[algorithms]\nshort = ["appo.epochs=3"]\n'
    )
    for cell in read_experiment(Path("experiments/pole.toml"), "algorithm")[1]:
        begun = experiment.record(cell)
        write_run(cell.folder, returns=[1.0] * 20)
        about = {"command": f"kartrl train -c {begun}", **SOURCE}
        (cell.folder / "config.cfg").write_text(dump(cell.config, about=about), encoding="utf-8")
        save_policy(cell.folder, [*own, "appo.epochs=3", f"run.seed={cell.config.run.seed}"], 1000)
    assert main(["compare", "--config", "experiments/pole.toml", "--record"]) == 0
    record = json.loads(Path("results/CartPole-v1-short.json").read_text())
    assert record["command"].startswith("kartrl train --set environment.id=CartPole-v1 --set run.agent_steps=1000 ")
    assert "whole.cfg" not in record["command"]
    assert record["seeds"] == [1, 2]
    assert changes_since(record) == []
