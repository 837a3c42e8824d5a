"""Policies that travel: exported folders, and the hub, a small server with its protocol and the real client library."""

import importlib
import os
import pickle
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import av
import numpy as np
import pytest
import yaml
from commands import run
from policies import CARTPOLE, make_checkpoint, save_policy

import kartrl
from kartrl.cli import main
from kartrl.config import read
from kartrl.learning import checkpoint
from kartrl.run.folders import find_checkpoint
from kartrl.run.policies import FILES, LARGEST, SETTINGS, WEIGHTS

pytest.importorskip("huggingface_hub", reason="the extra hub is not installed")
from hub_server import TOKEN, Hub, Repo  # needs PyYAML, as the library does

# of huggingface_hub itself, where it uploads by Git LFS
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")
NAME = "somebody/pole"
ADDRESS = f"hf://{NAME}"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KARTRL_LOGS", raising=False)
    return tmp_path


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy as `export -o FOLDER` has written it; tests copy it."""
    folder = tmp_path_factory.mktemp("exported")
    path = save_policy(folder / "run", CARTPOLE)
    assert main(["export", str(path), "-o", str(folder / "pole-1.5"), "--episodes", "2"]) == 0
    return folder / "pole-1.5"


@pytest.fixture
def pole(here: Path, exported: Path) -> Path:
    """The exported policy in the current folder."""
    return Path(shutil.copytree(exported, "pole"))


@pytest.fixture(params=["LFS", "commits"])
def hub(request: pytest.FixtureRequest, here: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub that keeps large files in one of both ways, and a library that knows it and the token of a user."""
    server = Hub(lfs=request.param == "LFS")
    for name in [name for name in os.environ if name.startswith(("HF_", "HUGGING", "TRANSFORMERS_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HF_ENDPOINT", server.address)
    monkeypatch.setenv("HF_HOME", str(here / "hf"))
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    if server.lfs:
        monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "*")
    import_anew(monkeypatch)
    yield server
    server.close()
    assert [path for path in server.unknown if path != "GET /api/agent-harnesses"] == []


def import_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the library read its variables again, as in a process of its own."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "huggingface_hub"]:
        monkeypatch.delitem(sys.modules, name)


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    """What has been said on stderr."""
    (line,) = capsys.readouterr().err.splitlines()
    assert TOKEN not in line
    return line


def test_exported_folder_has_what_a_hub_shows(exported: Path) -> None:
    import huggingface_hub

    written = {str(file.relative_to(exported)) for file in exported.rglob("*") if file.is_file()}
    assert written == {*FILES} - {"replay.png"}, "CartPole has no line"
    card = huggingface_hub.ModelCard.load(exported / "README.md")
    assert (card.data.license, card.data.library_name, card.data.model_name) == ("mit", "kartrl", "pole-1.5")
    assert {"CartPole-v1", "reinforcement-learning", "appo"} <= {*card.data.tags}
    (result,) = card.data.eval_results
    assert (result.task_type, result.dataset_type, result.metric_type) == (
        "reinforcement-learning",
        "CartPole-v1",
        "mean_reward",
    )
    mean, _, deviation = result.metric_value.partition(" +/- ")
    rows = yaml.safe_load((exported / ".eval_results" / "kartrl.yaml").read_text(encoding="utf-8"))
    (entry,) = huggingface_hub.parse_eval_result_entries(rows)
    assert entry.value == float(mean) > 0
    assert entry.dataset_id == "kartrl/CartPole-v1"
    assert f"standard deviation {deviation}, kartrl {kartrl.__version__}" in entry.notes
    assert f"| {float(mean):.2f}" in card.text, "as in the table"
    assert "Permission is hereby granted" in (exported / "LICENSE").read_text(encoding="utf-8")
    with av.open(exported / "replay.mp4") as film:
        assert sum(1 for _ in film.decode(video=0)) > 5


def test_exported_folder_drives_everywhere(pole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert find_checkpoint("pole") == pole / WEIGHTS
    for command in (
        ["evaluate", "-p", "pole", "--episodes", "1"],
        ["evaluate", "pole", str(pole / WEIGHTS), "--episodes", "1"],
        ["record", "-p", "pole", "-o", "film.mp4"],
        ["watch", "pole", "-o", "watched.mp4", "--seconds", "1"],
        ["export", "pole", "-o", "again.pt", "--episodes", "0"],
    ):
        assert main(command) == 0
    assert kartrl.load_policy("pole").act(np.zeros(4, np.float32))[0] in (0, 1)
    assert main(["compare", "pole"]) == 2
    assert "pole: is a policy, not a run" in capsys.readouterr().err


def test_levels_of_a_folder_have_results_each(here: Path) -> None:
    pytest.importorskip("stable_retro", reason="no SNES emulator on this platform")
    import huggingface_hub

    own = ["kart.game=bundled", "kart.no_progress_limit=0.2", "model.hidden_size=16", "environment.frame_skip=4"]
    levels = ["levels.*=none", "levels.MarioCircuit.Act1=train", "levels.MarioCircuit.Act4=test"]
    save_policy(here / "run", [*own, *levels])
    assert main(["export", "run", "-o", "kart", "--episodes", "1", "--half", "--license", "cc-by-4.0"]) == 0
    results = huggingface_hub.ModelCard.load(here / "kart" / "README.md").data.eval_results
    found = [(one.dataset_type, one.dataset_config, one.dataset_split) for one in results]
    both = [("kartrl/Kart-v0", "MarioCircuit.Act1", "train"), ("kartrl/Kart-v0", "MarioCircuit.Act4", "test")]
    assert found == [("kartrl/Kart-v0", None, None), *both]
    assert (here / "kart" / "replay.png").is_file(), "the driven line"
    assert not (here / "kart" / "LICENSE").exists(), "its text is the user's to add"


def test_folder_export_replaces_only_when_told(pole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {name: (pole / name).read_bytes() for name in FILES if (pole / name).is_file()}
    (pole / "notes.txt").write_text("the user's")
    save_policy(Path("run"), CARTPOLE, agent_steps=2000)
    assert main(["export", "run", "-o", "pole", "--episodes", "0"]) == 2
    assert "--force" in one_line(capsys)
    assert {name: (pole / name).read_bytes() for name in before} == before
    assert main(["export", "run", "-o", "pole", "--episodes", "0", "--force"]) == 0
    assert checkpoint.load(find_checkpoint("pole")).counters.agent_steps == 2000
    assert not (pole / "replay.mp4").exists(), "it showed the earlier one"
    assert (pole / "notes.txt").exists()
    assert [file.name for file in Path().iterdir() if file.name.startswith(".")] == []


def test_licence_that_user_adds_outlives_the_next_export(pole: Path) -> None:
    save_policy(Path("run"), CARTPOLE, agent_steps=2000)
    again = ["export", "run", "-o", "pole", "--episodes", "0", "--force", "--license", "cc-by-4.0"]
    assert main(again) == 0
    assert not (pole / "LICENSE").exists(), "it was kartrl's own"
    (pole / "LICENSE").write_text("Attribution 4.0 International")
    assert main(again) == 0
    assert (pole / "LICENSE").read_text() == "Attribution 4.0 International"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["-o", "there/x/y.mp4"], "must end in .pt"),
        (["-o", "policy.onnx"], "an ONNX file is written with --onnx"),
        (["-o", "x", "--license", "mit", "--onnx"], "--license"),
        (["-o", "x.pt", "--license", "mit"], "--license"),
        (["-o", "file/x"], "cannot write"),
    ],
)
def test_a_bad_output_leaves_nothing(
    here: Path, options: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    save_policy(here / "run", CARTPOLE)
    (here / "file").touch()
    assert main(["export", "run", "--episodes", "0", *options]) == 2
    assert says in one_line(capsys)
    assert sorted(file.name for file in here.iterdir()) == ["file", "run"]


def larger(name: str) -> Callable[[Path], None]:
    """Makes a file larger than any may be, without filling the disk."""
    return lambda folder: os.truncate(folder / name, LARGEST[name] + 1)


def other_weights(folder: Path) -> None:
    checkpoint.save(folder / WEIGHTS, make_checkpoint(10, "environment.id=Acrobot-v1"))


def other_settings(folder: Path) -> None:
    text = (folder / SETTINGS).read_text(encoding="utf-8")
    (folder / SETTINGS).write_text(text.replace("CartPole-v1", "mine:Evil-v0"), encoding="utf-8")


def changed_byte(folder: Path) -> None:
    data = bytearray((folder / WEIGHTS).read_bytes())
    data[-5] ^= 1
    (folder / WEIGHTS).write_bytes(data)


SPOILED: dict[str, tuple[Callable[[Path], object], str]] = {
    "no weights": (lambda folder: (folder / WEIGHTS).unlink(), "has no model.safetensors"),
    "no settings": (lambda folder: (folder / SETTINGS).unlink(), "has no kartrl.cfg"),
    "large weights": (larger(WEIGHTS), "model.safetensors is larger than 4096 MiB"),
    "large settings": (larger(SETTINGS), "kartrl.cfg is larger than 1 MiB"),
    "truncated": (lambda folder: os.truncate(folder / WEIGHTS, 5000), "refused"),
    "changed byte": (changed_byte, "checksum"),
    "pickle": (lambda folder: (folder / WEIGHTS).write_bytes(pickle.dumps({"network": print})), "refused"),
    "other weights": (other_weights, "kartrl.cfg is not the configuration of model.safetensors"),
    "other settings": (other_settings, "kartrl.cfg is not the configuration of model.safetensors"),
    "no INI": (lambda folder: (folder / SETTINGS).write_bytes(b"\xff\0"), "cannot read this configuration"),
    "empty": (lambda folder: (folder / SETTINGS).write_bytes(b""), "is not the configuration of"),
}


@pytest.mark.parametrize("kind", SPOILED)
def test_a_spoiled_folder_is_refused(pole: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    spoil, says = SPOILED[kind]
    spoil(pole)
    for command in (["evaluate", "-p", "pole", "--episodes", "1"], ["push", "pole", ADDRESS]):
        assert main(command) == 2
        assert says in one_line(capsys)


def test_a_pushed_policy_drives_everywhere(
    pole: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (pole / "secret.txt").write_text("not ours")
    assert main(["push", "pole", ADDRESS]) == 0
    assert f"Pushed to {ADDRESS}: {hub.address}/{NAME}/commit/" in capsys.readouterr().out
    there = hub.files(NAME)
    assert there.keys() - {".gitattributes"} == {name for name in FILES if (pole / name).is_file()}
    assert all(there[name] == (pole / name).read_bytes() for name in there if name != ".gitattributes")
    monkeypatch.delenv("HF_TOKEN")
    first = hub.repos[NAME].branches["main"]
    for command in (
        ["evaluate", "-p", ADDRESS, "--episodes", "1"],
        ["record", "-p", f"{ADDRESS}@main", "-o", "film.mp4"],
        ["watch", ADDRESS, "-o", "watched.mp4", "--seconds", "1"],
        ["export", f"{ADDRESS}@{first}", "-o", "copy", "--episodes", "0"],
    ):
        assert main(command) == 0
    assert kartrl.load_policy(ADDRESS).act(np.zeros(4, np.float32))[0] in (0, 1)
    assert {request.path.rpartition("/")[2] for request in hub.requests if "resolve" in request.path} == {*LARGEST}
    for command in (["compare", ADDRESS], ["config", "--diff", ADDRESS]):
        assert main(command) == 2
    capsys.readouterr()
    assert main(["evaluate", "-p", f"{ADDRESS}@other", "--episodes", "1"]) == 2
    assert "has no such revision" in one_line(capsys)


@pytest.mark.parametrize("hub", ["commits"], indirect=True)
def test_training_starts_from_a_pushed_policy(pole: Path, hub: Hub) -> None:
    assert main(["push", "pole", ADDRESS, "--private"]) == 0
    tiny = ("environment.id=CartPole-v1", "model.hidden_size=16", "run.agent_steps=3000", "system.agents=1")
    options = [part for one in (*tiny, "evaluation.minutes=0", "run.name=new") for part in ("--set", one)]
    trained = run("train", "--init", ADDRESS, *options, cwd=Path.cwd())
    assert trained.returncode == 0, trained.stdout + trained.stderr
    assert "Starting from the weights of" in trained.stdout
    assert hub.repos[NAME].branches["main"] in read([Path("logs/new/config.cfg")]).run.init, "of which commit"


def test_a_newer_policy_replaces_the_older_on_its_branch(pole: Path, hub: Hub) -> None:
    assert main(["push", "pole", ADDRESS]) == 0
    save_policy(Path("run"), CARTPOLE, agent_steps=2000)
    assert main(["export", "run", "-o", "pole", "--episodes", "0", "--force"]) == 0
    assert main(["push", "pole", f"{ADDRESS}@next"]) == 0
    steps = [checkpoint.load(find_checkpoint(name)).counters.agent_steps for name in (ADDRESS, f"{ADDRESS}@next")]
    assert steps == [1000, 2000]
    assert {"replay.mp4", ".eval_results/kartrl.yaml"}.isdisjoint(hub.files(NAME, "next")), "of the older policy"
    assert main(["push", "pole", f"{ADDRESS}@next"]) == 0, "once more changes nothing"


def test_without_a_connection_the_cache_is_used(
    pole: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["push", "pole", ADDRESS]) == 0
    evaluate = ["evaluate", "-p", ADDRESS, "--episodes", "1"]
    assert main(evaluate) == 0
    commit = hub.repos[NAME].branches["main"]
    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        import_anew(patch)
        assert main(evaluate) == 0
        expected = f"{ADDRESS}: the hub cannot be reached (HF_HUB_OFFLINE is set); using the copy in the cache, commit"
        assert f"{expected} {commit[:8]}" in one_line(capsys)
        assert main(["evaluate", "-p", "hf://somebody/else", "--episodes", "1"]) == 2
        assert "there is no whole copy in the cache" in one_line(capsys)
        assert main(["push", "pole", ADDRESS]) == 2
        assert "HF_HUB_OFFLINE is set" in one_line(capsys)
    hub.close()
    assert main(evaluate) == 0
    assert "using the copy in the cache" in one_line(capsys)
    assert main(["evaluate", "-p", f"{ADDRESS}@next", "--episodes", "1"]) == 2
    assert "there is no whole copy in the cache" in one_line(capsys)
    assert main(["push", "pole", ADDRESS]) == 2
    one_line(capsys)


def test_private_policies_are_seen_by_their_owner(
    pole: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["push", "pole", ADDRESS, "--private"]) == 0
    assert hub.repos[NAME].private
    assert main(["evaluate", "-p", ADDRESS, "--episodes", "1"]) == 0
    hub.repos["somebody/open"] = Repo(private=False)
    capsys.readouterr()
    assert main(["push", "pole", "hf://somebody/open", "--private"]) == 2
    assert "exists and is public" in one_line(capsys)
    assert main(["push", "pole", "hf://nobody/pole"]) == 2
    assert "403" in one_line(capsys)
    for token in (None, "hf_wrong", f"{TOKEN}\x01", f"{TOKEN}\N{EURO SIGN}"):
        monkeypatch.delenv("HF_TOKEN", raising=False)
        if token is not None:
            monkeypatch.setenv("HF_TOKEN", token)
        shutil.rmtree("hf", ignore_errors=True)
        for command in (["evaluate", "-p", ADDRESS, "--episodes", "1"], ["push", "pole", ADDRESS]):
            assert main(command) == 2
            line = one_line(capsys)
            assert "HF_TOKEN" in line or token is not None
    assert not any(Path("hf").rglob("*.safetensors"))


@pytest.mark.parametrize("kind", SPOILED)
@pytest.mark.parametrize("hub", ["LFS"], indirect=True)
def test_a_spoiled_policy_on_the_hub_is_refused(
    pole: Path, hub: Hub, kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["push", "pole", ADDRESS]) == 0
    spoil, says = SPOILED[kind]
    if kind.startswith("large"):
        name = {"large weights": WEIGHTS, "large settings": SETTINGS}[kind]
        monkeypatch.setitem(LARGEST, name, 10)
        says = f"{name} is larger than"
    else:
        spoil(pole)
    for name in LARGEST:
        hub.repos[NAME].change(name, (pole / name).read_bytes() if (pole / name).exists() else None)
    capsys.readouterr()
    assert main(["evaluate", "-p", ADDRESS, "--episodes", "1"]) == 2
    assert says in one_line(capsys)
    if kind.startswith(("large", "no weights", "no settings")):
        assert not [request for request in hub.requests if "resolve" in request.path], "it was downloaded before"


@pytest.mark.parametrize(
    "address",
    [
        "hf://",
        "hf://pole",
        "hf://a/b/c",
        "hf://a/b@",
        "hf://a/..",
        "hf://a/b@../../x",
        "hf://datasets/a/b",
        "hf://a b/c",
    ],
)
def test_a_wrong_address_is_one_line(here: Path, address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "-p", address]) == 2
    assert "is written hf://USER/NAME" in one_line(capsys)


def test_a_missing_library_is_one_line(
    pole: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import_anew(monkeypatch)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if not (Path(place) / "huggingface_hub").exists()])
    importlib.invalidate_caches()
    for command in (["evaluate", "-p", ADDRESS], ["push", "pole", ADDRESS], ["export", "pole", "-o", "copy"]):
        assert main(command) == 2
        assert "pip install 'kartrl[hub]'" in one_line(capsys)
    assert main(["evaluate", "-p", "pole", "--episodes", "1"]) == 0, "a folder needs none"
