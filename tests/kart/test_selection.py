"""Resolving the circuits of [levels] and `-s` to start states in real folders."""

import gzip
import importlib.util
import io
import json
import re
import shutil
from pathlib import Path

import pytest
from commands import assert_clear, run
from policies import KART, save_policy
from rich.console import Console as Terminal

from kartrl.config import Config, read
from kartrl.errors import UserError
from kartrl.kart.console import KartConsole
from kartrl.kart.game_files import BUNDLED, GAMES, circuits
from kartrl.kart.levels import circuit_name
from kartrl.kart.selection import circuits_of, uses_by_name, with_circuits
from kartrl.kart.world import KartWorld
from kartrl.learning import checkpoint
from kartrl.metrics import scalars_csv

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("stable_retro") is None, reason="no SNES emulator on this platform"
)
CIRCUIT = Path(__file__).parents[2] / "kartrl" / "kart" / "circuits" / "bundled" / "MarioCircuit.Act1.toml"
STATE = GAMES / BUNDLED / "MarioCircuit.Act2.state"


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A current folder with two start states in `mine`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    for name in ("Monza", "my ring"):
        shutil.copy(STATE, tmp_path / "mine" / f"{name}.state")
    return tmp_path / "mine"


@pytest.mark.parametrize("key", ["mine/", "mine/*.state", "m*/"])
def test_uses_of_circuits_in_folders_and_globs(mine, key):
    assert uses_by_name({key: "train", "mine/Monza.state": "test"}, ["Monza", "my_ring", "other"]) == {
        "Monza": "test",
        "my_ring": "train",
    }
    assert uses_by_name({"gone/": "train", "lost/Spa.state": "test"}, ["gone", "Spa"]) == {"Spa": "test"}


def looked_up(*overrides: str) -> Config:
    return with_circuits(
        read([], ["kart.game=bundled", "levels.*=none", *(f"levels.{override}" for override in overrides)])
    )


@pytest.mark.parametrize("key", ["mine/", "./mine", "mine/*.state", "m*/", "./*/*.state"])
def test_folders_and_globs(mine, key):
    assert KartWorld(looked_up(f"{key}=train")).levels("train") == (
        str(mine / "Monza.state"),
        str(mine / "my ring.state"),
    )


def test_last_key_for_a_file_wins(mine):
    config = looked_up("mine/=train", "./mine/Monza.state=test", "MarioCircuit.Act1=train")
    assert set(KartWorld(config).levels("train")) == {str(mine / "my ring.state"), "MarioCircuit.Act1"}
    assert KartWorld(config).levels("test") == (str(mine / "Monza.state"),)
    assert KartWorld(looked_up("mine/=train", "mine/M*=none")).levels("train") == (str(mine / "my ring.state"),)


def test_path_of_a_bundled_state_is_its_circuit(mine):
    config = looked_up(f"{STATE}=test", "MarioCircuit.Act2=train")
    assert (KartWorld(config).levels("train"), KartWorld(config).levels("test")) == (("MarioCircuit.Act2",), ())


def test_unused_states_may_be_missing(mine):
    assert KartWorld(looked_up("nowhere/=none", "mine/Monza.state=train")).levels("train") == (
        str(mine / "Monza.state"),
    )


def test_invalid_keys_are_rejected(mine):
    (mine / "notes.txt").write_text("")
    (mine.parent / "drafts").mkdir()
    (mine.parent / "drafts" / "new.toml").write_text("")
    (mine.parent / "other").mkdir()
    shutil.copy(STATE, mine.parent / "other" / "Monza.state")
    for key, said in {
        "nowhere/": "nothing there matches",
        "mine/*.toml": "nothing there matches",
        "./mine/notes.txt": "neither a start state",
        "drafts/": "drafts/*.toml",
        "./m*e/n*.txt": "no start state",
        "other/": "both called Monza",
    }.items():
        with pytest.raises(UserError) as error:
            looked_up("mine/=train", f"{key}=test")
        assert said in str(error.value), key
        assert_clear(error.value)


def test_invalid_states_are_reported_before_training(mine):
    state = bytearray(gzip.decompress(STATE.read_bytes()))
    build = json.loads((GAMES / BUNDLED / "build.json").read_text())["build_id"]
    at = state.find(build.to_bytes(4, "little"))
    assert at > 0
    state[at] ^= 1
    (mine / "old.state").write_bytes(gzip.compress(bytes(state)))
    (mine / "broken.state").write_bytes(b"no gzip")
    for name, said in (("old", "another build"), ("broken", "cannot read this start state")):
        done = run("train", "--set", "kart.game=bundled", "--set", f"levels.mine/{name}.state=test", cwd=mine.parent)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert f"{name}.state" in done.stderr
        assert said in done.stderr
    assert not (mine.parent / "logs").exists()


def test_evaluate_and_record_take_paths(mine):
    path = save_policy(mine.parent / "run", [*KART, "levels.*=none", "levels.MarioCircuit.Act1=train"])
    done = run("evaluate", "-p", str(path), "-l", "mine/,MarioCircuit.Act1", "--episodes", "1", cwd=mine.parent)
    assert done.returncode == 0, done.stderr
    for name in ("Monza", "my_ring", "MarioCircuit.Act1"):
        assert name in done.stdout
    filmed = run("record", "-p", str(path), "-l", "mine/my ring.state", cwd=mine.parent)
    assert filmed.returncode == 0, filmed.stderr
    assert {Path("my_ring.mp4"), Path("my_ring.png")} <= {
        file.relative_to(mine.parent) for file in mine.parent.iterdir()
    }
    refused = run("record", "-p", str(path), "-l", "mine/", cwd=mine.parent)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "2 circuits" in refused.stderr


def test_checkpoints_contain_no_absolute_paths(mine):
    path = save_policy(mine.parent / "run", [*KART, "levels.*=none", "levels.mine/=train"])
    assert str(mine).encode() not in path.read_bytes(), (
        "only what the user wrote, which may mean something elsewhere too"
    )


def test_path_named_by_s_may_contain_anything(mine):
    odd = mine / "#[a=b], c"
    odd.mkdir()
    shutil.copy(STATE, odd / "x.state")
    assert circuits_of([str(odd / "x.state")], "bundled") == (str(odd / "x.state"),)


def test_uses_are_known_without_building(mine):
    levels = read(
        [],
        ["levels.random:9=train", "levels.random:5-6:ice=test", "levels.mine/=train", "levels.mine/my_ring.toml=test"],
    ).levels.uses
    names = (
        "random.dirt.0001",
        "random.ice.0005",
        "my_ring",
        "MarioCircuit.Act4",
        "random.dirt.0002",
        "random.ice.0007",
        "mine",
    )
    uses = uses_by_name(levels, names)
    assert uses == {
        "random.dirt.0001": "train",
        "random.ice.0005": "test",
        "my_ring": "test",
        "MarioCircuit.Act4": "test",
    }


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """The user's cache, for this module."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("KARTRL_CACHE", str(folder))
        yield folder


def test_generated_circuits_are_built_once(cache):
    config = looked_up("random:2=train", "random:2-3:ice=test")
    assert [Path(circuit).name for circuit in KartWorld(config).levels("train")] == [
        "random.asphalt.0000.state",
        "random.dirt.0001.state",
    ]
    assert [Path(circuit).name for circuit in KartWorld(config).levels("test")] == [
        "random.ice.0002.state",
        "random.ice.0003.state",
    ]
    written = {file: file.stat().st_mtime_ns for file in cache.rglob("*.state")}
    assert looked_up("random:2=train", "random:2-3:ice=test") == config
    assert {file: file.stat().st_mtime_ns for file in cache.rglob("*.state")} == written


def test_building_circuits_is_announced(cache, mine):
    said = io.StringIO()
    for _ in range(2):
        circuits_of(["random:7-8:ice"], "bundled", Terminal(file=said))
    assert said.getvalue() == "Building 2 circuits, random:7-8:ice: about a second each, once\n"


def test_toml_files_are_built_on_demand(cache, mine):
    shutil.copy(CIRCUIT, mine / "Mine.toml")
    (circuit,) = KartWorld(looked_up("mine/Mine.toml=train")).levels("train")
    assert circuit_name(circuit) == "Mine"
    assert Path(circuit).is_relative_to(cache)
    (mine / "Bad.toml").write_text("title = 3\n")
    with pytest.raises(UserError, match=r"Bad\.toml") as error:
        looked_up("mine/*.toml=train")
    assert_clear(error.value)


def test_a_cartridge_has_no_generated_circuits(monkeypatch, tmp_path):
    (tmp_path / "SuperMarioKart-Snes").mkdir()
    (tmp_path / "SuperMarioKart-Snes" / "rom.sfc").write_bytes(b"")
    monkeypatch.setenv("KARTRL_DATA", str(tmp_path))
    with pytest.raises(UserError, match=r"kart\.game=bundled"):
        with_circuits(read([], ["levels.random:2=train"]))
    assert KartWorld(with_circuits(read())).levels("train") == tuple(f"MarioCircuit.Act{act}" for act in (1, 2, 3))
    for key in ("random:2", "random:3:asphalt"):  # the second one is in the default configuration too
        with pytest.raises(UserError, match=r"kart\.game=bundled"):
            circuits_of([key], "cartridge")


def test_a_run_on_generated_circuits(cache, mine):
    levels = ["levels.*=none", "levels.random:2=train", "levels.mine/Monza.state=test"]
    small = ["model.hidden_size=16", "system.agents=1", "kart.no_progress_limit=0.5", "kart.game=bundled"]
    often = ["run.agent_steps=400", "run.name=run", "evaluation.minutes=0"]
    options = [part for override in (*levels, *small, *often) for part in ("--set", override)]
    done = run("train", *options, cwd=mine.parent)
    assert done.returncode == 0, done.stderr
    folder = mine.parent / "logs" / "run"
    assert str(cache) not in (folder / "config.cfg").read_text()
    assert read([folder / "config.cfg"]).levels.uses["random:2"] == "train"
    tags = {row.tag for row in scalars_csv.read(folder)}
    driven = {tag.split("/")[1] for tag in tags if tag.startswith("train_circuits/")}
    assert driven == {"random.asphalt.0000", "random.dirt.0001"}
    path = checkpoint.newest(folder)
    assert str(mine).encode() not in path.read_bytes(), "a checkpoint names what the user named"
    named = ("-l", "random:2", "-l", "mine/Monza.state")
    lone = shutil.copy(path, mine.parent / "lone.pt")
    for policy, choice, monza in (lone, (), False), (path, (), True), (lone, named, True):
        table = run("evaluate", "-p", str(policy), "--episodes", "1", *choice, cwd=mine.parent)
        assert table.returncode == 0, table.stderr
        assert re.search(r"dirt\.0001 +│", table.stdout), "no note: it was trained on"
        assert bool(re.search(r"Monza \(unseen\) +│", table.stdout)) == monza
        assert ("are not opened (mine/Monza.state)" in table.stdout) != monza


def test_console_compresses_its_start_states():
    console = KartConsole(GAMES / BUNDLED)
    for name in circuits(GAMES / BUNDLED):
        console.load(name)
    kept = sum(map(len, console.states.values()))
    console.close()
    assert kept < 50_000 * len(circuits(GAMES / BUNDLED)), "hundreds of circuits, in each of many processes"


def test_selection_keys():
    assert circuits_of(["*.Act4", "MarioCircuit.Act1"], "bundled") == ("MarioCircuit.Act4", "MarioCircuit.Act1")
    with pytest.raises(UserError, match=r"MarioCircuit\.Act1"):
        circuits_of(["Monza"], "bundled")
