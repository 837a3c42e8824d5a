"""The files that commands write: their names, and that none replaces another."""

import contextlib
import io
from pathlib import Path

import numpy as np
import pytest
from commands import ROOT
from finished_runs import write_run
from needs import needs_kart
from players import CIRCUIT, begun, drive, some_driving
from policies import CARTPOLE, KART, save_policy

from kartrl.cli import main
from kartrl.config import read
from kartrl.console.movie import write_movie
from kartrl.files import output_file, safe_name, unused_file
from kartrl.kart import cartridge
from kartrl.kart.selection import uses_by_name
from kartrl.metrics.video import Mp4Writer

OVAL = ROOT / "kartrl" / "kart" / "circuits" / "bundled" / "MarioCircuit.Act1.toml"
SHORT = ("--set", "kart.no_progress_limit=0.2")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(folder: Path) -> set[str]:
    """Names of the files in a folder, which must not be empty."""
    files = [file for file in folder.iterdir() if file.is_file()]
    assert all(file.stat().st_size for file in files), files
    return {file.name for file in files}


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The line with which a command refuses these arguments."""
    try:
        status: object = main(arguments)
    except SystemExit as ended:
        status = ended.code
    output = capsys.readouterr()
    assert (status, output.err.count("\n")) == (2, 1), output
    return output.err


def test_film_of_module_id_environment_is_named_safely(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The video library reads `pacing:` as a protocol."""
    monkeypatch.setenv("KARTRL_IMPORT", "pacing")
    policy = save_policy(here / "run", ["environment.id=pacing:Paced-v0", "model.hidden_size=16"])
    for _ in range(2):
        assert main(["record", "-p", str(policy)]) == 0
    assert written(here) == {"pacing-Paced-v0.mp4", "pacing-Paced-v0-2.mp4"}


def test_videos_can_have_any_file_name(here: Path) -> None:
    for name in ("mine:a.mp4", "concat:b|c.mp4", "%03d.mp4", "-d.mp4", "file:e.MP4"):
        with Mp4Writer(Path(name), 30) as video:
            for shade in range(3):
                video.add(np.full((32, 32, 3), shade, np.uint8))
    assert len(written(here)) == 5


def test_safe_name_has_no_special_characters() -> None:
    for text, name in {
        "ALE/Pong-v5": "ALE-Pong-v5",
        "mine:mine/Corridor-v0": "mine-mine-Corridor-v0",
        "../-rf": "rf",
        "::": "unnamed",
    }.items():
        assert safe_name(text) == name


def test_unused_file_is_numbered_and_removed_if_empty(here: Path) -> None:
    for name in ("a.mp4", "a-2.png", "b.mp4"):
        (here / name).write_text("mine")
    with unused_file(Path("a.mp4"), ".png") as first, unused_file(Path("a.mp4"), ".png") as second:
        assert (first.name, second.name) == ("a-3.mp4", "a-4.mp4"), "the picture beside it must be new too"
        first.write_text("new")
    assert written(here) == {"a.mp4", "a-2.png", "b.mp4", "a-3.mp4"}


def test_output_may_be_folder_or_have_capital_suffix(here: Path) -> None:
    (here / "films").mkdir()
    for output, file in {None: "x.mp4", "films": "films/x.mp4", "y": "y.mp4", "Y.MP4": "Y.MP4"}.items():
        assert output_file(None if output is None else Path(output), "x", ".mp4") == Path(file)


@needs_kart
def test_record_and_watch_keep_older_films(here: Path) -> None:
    policy = str(save_policy(here / "run", KART))
    before: dict[Path, bytes] = {}
    for _ in range(2):
        before = {file: file.read_bytes() for file in here.iterdir() if file.is_file()}
        assert main(["record", "-l", "MarioCircuit.Act1", "-p", policy, *SHORT]) == 0
        assert main(["watch", policy, "-l", "MarioCircuit.Act1", "-o", "film.MP4", "--seconds", "1", *SHORT]) == 0
    assert written(here) == {f"MarioCircuit.Act1{n}.{end}" for n in ("", "-2") for end in ("mp4", "png")} | {
        "film.MP4",
        "film-2.MP4",
    }
    assert all(file.read_bytes() == data for file, data in before.items())


@needs_kart
def test_movies_are_converted_beside_older_videos(here: Path) -> None:
    stage, session = begun(circuits=(CIRCUIT,))
    with stage:
        drive(session, some_driving(5))
        write_movie(here / "a.bk2", session.movie())
    (here / "a.mp4").write_text("mine")
    assert main(["play", "--replay", "a.bk2", "-o", "a.mp4"]) == 0
    assert (here / "a.mp4").read_text() == "mine"
    assert written(here) == {"a.bk2", "a.mp4", "a-2.mp4"}


@needs_kart
def test_circuit_build_replaces_only_with_force(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "mine.toml").write_text(OVAL.read_text())
    build = ["circuit", "build", "mine.toml", "-o", "built"]
    assert main(build) == main(build) == 0, "the same again"
    state = here / "built" / "mine.state"
    (here / "mine.toml").write_text(OVAL.read_text().replace('title = "', 'title = "A'))
    before = state.read_bytes()
    capsys.readouterr()
    assert "--force" in refused(capsys, *build)
    assert state.read_bytes() == before
    assert main([*build, "--force"]) == 0
    assert state.read_bytes() != before


@needs_kart
def test_circuit_pictures_keep_older_ones(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert main(["circuit", "draw", "MarioCircuit.Act1"]) == 0
        assert main(["circuit", "drive", "MarioCircuit.Act1", "--laps", "1", "-o", "a.GIF"]) == 0
    assert written(here) == {"MarioCircuit.Act1.png", "MarioCircuit.Act1-2.png", "a.GIF", "a-2.GIF"}
    for wrong in (("draw", "-o", "map.jpg"), ("drive", "-o", "film.avi"), ("drive", "-o", "map.png")):
        assert wrong[-1] in refused(capsys, "circuit", wrong[0], "MarioCircuit.Act1", *wrong[1:])
    assert len(written(here)) == 4


def test_export_replaces_only_with_force(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = str(save_policy(here / "run", CARTPOLE))
    (here / "mine.md").write_text("mine")
    give = ["export", policy, "-o", "mine.PT", "--episodes", "0"]
    assert "mine.md" in refused(capsys, *give)
    assert written(here) == {"mine.md"}
    assert main([*give, "--force"]) == 0
    assert "mine.PT" in refused(capsys, *give)


def test_missing_folder_of_output_is_refused_before_work(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = str(save_policy(here / "run", CARTPOLE))
    write_run(here / "logs" / "r1", returns=[1.0] * 5)
    with contextlib.redirect_stdout(io.StringIO()) as told:
        for words in (["evaluate", policy, "-o", "none/a"], ["export", policy, "-o", "none/a.pt"]):
            assert "there is no folder none" in refused(capsys, *words)
        assert "there is no folder none" in refused(capsys, "compare", "r1", "-o", "none/a")
    assert not told.getvalue()


def test_results_are_printed_where_file_cannot_be_written(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy, name = str(save_policy(here / "run", CARTPOLE)), "a" * 250  # too long for the temporary file beside it
    assert main(["evaluate", policy, "--episodes", "1", "--csv", "-o", name]) == 2
    output = capsys.readouterr()
    assert output.out.startswith("checkpoint,")
    assert "choose another file with -o" in output.err.splitlines()[-1]
    assert written(here) == set()


def test_compare_writes_new_files_of_known_kinds(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in (1, 2):
        write_run(here / "logs" / f"r{number}", f"run.seed={number}", returns=[1.0] * 5)
    compare = ["compare", "r1", "r2", "-o"]
    assert ".md and .png" in refused(capsys, *compare, "results.pdf")
    (here / "b.md").write_text("mine")
    for output in ("a.PNG", "v1.2", "b.md"):
        assert main([*compare, output]) == 0
    assert written(here) == {"b.md", *(f"{name}.{end}" for name in ("a", "v1.2", "b-2") for end in ("md", "png"))}
    assert (here / "b.md").read_text() == "mine"


def test_generated_circuits_end_where_levels_can_name_them(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "0 to 999999" in refused(capsys, "circuit", "random", "--seed", "1000000")
    assert "lower --seed" in refused(capsys, "circuit", "random", "--seed", "999999", "-n", "2")
    assert main(["circuit", "random", "--seed", "3", "--kind", "asphalt"]) == 0
    assert capsys.readouterr().out == "1 circuit in .\n"


def test_tilde_is_the_home_folder_in_every_path(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = here / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    (home / "mine.cfg").write_text("[run]\nlogs = ~/runs\ninit = ~/w.pt\n")
    for config in (read(["~/mine.cfg"]), read(overrides=["run.logs=~/runs", "run.init=~/w.pt"])):
        assert (config.run.logs, config.run.init) == (f"{home}/runs", f"{home}/w.pt")
    policy = save_policy(home / "run", CARTPOLE)
    (home / "circuit.toml").write_text(OVAL.read_text())
    assert main(["record", "-p=~/run", "--output=~/a.mp4"]) == 0
    assert main(["export", "~/run", "-o", "~/small.pt", "--episodes", "0"]) == 0
    assert main(["evaluate", f"-p=~/run/checkpoints/{policy.name}", "--episodes", "1"]) == 0
    assert main(["circuit", "check", "~/circuit.toml", "--no-drive"]) == 0
    assert written(home) == {"mine.cfg", "circuit.toml", "a.mp4", "small.pt", "small.md"}
    monkeypatch.setenv("KARTRL_DATA", "~/data")
    monkeypatch.setenv("KARTRL_CACHE", "~/cache")
    assert cartridge.folder().is_relative_to(home)
    assert uses_by_name({"~/mine/": "train", "~nobody/a.state": "train"}, ["a"]) == {"a": "train"}
    assert {file.name for file in here.iterdir()} == {"home"}
