"""`kartrl record` as a user types it; its video is decoded again."""

import importlib.util
import itertools

import av
import filmed
import numpy as np
import pytest
from commands import run
from needs import needs_kart
from PIL import Image
from policies import CARTPOLE, KART, PONG, save_policy

from kartrl.cli import main
from kartrl.commands.shared import progress
from kartrl.config import dump
from kartrl.learning import checkpoint

needs_atari = pytest.mark.skipif(importlib.util.find_spec("ale_py") is None, reason="ale-py is not installed")


def decode(path):
    """Codec, pictures per second, and the pictures of a video."""
    with av.open(str(path)) as container:
        (stream,) = container.streams.video
        pictures = [frame.to_ndarray(format="rgb24") for frame in container.decode(stream)]
        return stream.codec_context.name, float(stream.average_rate), pictures


@pytest.fixture(scope="module")
def kart(tmp_path_factory):
    return str(save_policy(tmp_path_factory.mktemp("kart"), KART))


@needs_kart
def test_video_picture_and_lap_times(kart, tmp_path):
    result = run("record", "-l", "MarioCircuit.Act3", "-p", kart, "--episodes", "2", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "laps driven" in result.stdout
    assert "not finished" in result.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["MarioCircuit.Act3.mp4", "MarioCircuit.Act3.png"]
    codec, fps, pictures = decode(tmp_path / "MarioCircuit.Act3.mp4")
    assert (codec, fps) == ("h264", 60)
    assert pictures[0].shape == (672, 768, 3)
    assert len(pictures) > 2 * 1.2 * 60, "twice at least the time without progress after which it gives up"
    differences = [np.abs(a.astype(int) - b).max() for a, b in itertools.pairwise(pictures[40:81])]
    assert sum(difference > 40 for difference in differences) > 10, "the world moves"
    with Image.open(tmp_path / "MarioCircuit.Act3.png") as picture:
        assert picture.size[0] == 800
        assert len(picture.getcolors(10_000_000) or []) > 200


@needs_kart
def test_record_without_circuit_refuses_several_unbuilt(kart, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KARTRL_CACHE", str(tmp_path / "cache"))
    for arguments in ([], ["-p", kart], ["-p", kart, "-l", "MarioCircuit.*"]):
        assert main(["record", *arguments]) == 2
        output = capsys.readouterr()
        assert output.err.count("\n") == 1
        assert "MarioCircuit.*" in output.err or ".Act1" in output.err
        assert "name one" in output.err
    assert list(tmp_path.iterdir()) == []


@needs_kart
def test_record_without_circuit_films_the_only_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    levels = ("levels.*=none", "levels.MarioCircuit.Act2=train", "kart.no_progress_limit=0.2")
    assert main(["record", "-p", str(save_policy(tmp_path / "run", [*KART, *levels]))]) == 0
    assert (tmp_path / "MarioCircuit.Act2.mp4").is_file()


def test_record_without_run_films_the_newest(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = save_policy(tmp_path / "logs" / "pole", CARTPOLE)
    (tmp_path / "logs" / "pole" / "config.cfg").write_text(dump(checkpoint.load(path).config))
    assert main(["record"]) == 0
    assert (tmp_path / "CartPole-v1.mp4").is_file()
    assert main(["record", "--set", "environment.oponents=3"]) == 2


@needs_kart
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-l", "MarioCircuit.Act9"], "MarioCircuit.Act1"),
        (["-l", "MarioCircuit.Act1", "-o", "video.avi"], ".mp4"),
        (["-l", "MarioCircuit.Act1", "-o", "missing/video.mp4"], "missing"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(kart, tmp_path, arguments, said):
    result = run("record", "-p", kart, *arguments, cwd=tmp_path)
    assert (result.returncode, result.stderr.count("\n")) == (2, 1), result.stderr
    assert said in result.stderr
    assert list(tmp_path.iterdir()) == []


@needs_atari
def test_other_environments_are_filmed_too(tmp_path):
    policy = save_policy(tmp_path / "run", PONG)
    result = run("record", "-p", str(policy), "-o", "pong", "--sampled", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    codec, fps, pictures = decode(tmp_path / "pong.mp4")
    assert (codec, fps) == ("h264", 15), "one picture for four of 60 frames"
    assert pictures[0].shape == (840, 640, 3)
    assert len(pictures) > 500
    assert "-2" in result.stdout, "the return of a lost game"
    assert not (tmp_path / "pong.png").exists()


@pytest.fixture
def endless(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KARTRL_IMPORT", "filmed")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")

    def policy(*overrides):
        return str(save_policy(tmp_path / "run", ["environment.id=filmed:Filmed-v0", *overrides]))

    return policy


@pytest.mark.parametrize("look", ["bytes", "shares", "int64", "bool"])
def test_film_shows_the_rendered_pictures(endless, look):
    assert main(["record", "-p", endless(f"environment.kwargs.look={look}"), "--max-steps", "3"]) == 0
    codec, fps, pictures = decode("filmed-Filmed-v0.mp4")
    assert (codec, fps, len(pictures)) == ("h264", 25, 4)
    assert pictures[0].shape == (528, 768, 3)
    shown = filmed.COLOUR if look == "bytes" else np.dstack([filmed.GREY] * 3)
    wanted = np.dstack([(filmed.GREY > 100) * 255] * 3) if look == "bool" else shown
    wanted = filmed.COLOUR if look == "shares" else wanted
    for picture in pictures:
        assert np.abs(picture[24::48, 24::48].astype(int) - wanted).mean() < 8


def test_a_film_without_end_has_a_limit_and_progress(endless, monkeypatch, capsys):
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    assert main(["record", "-p", endless(), "--max-steps", "40", "--episodes", "2"]) == 0
    output = capsys.readouterr()
    assert "2 of 2 episodes ended after 40 agent steps: --max-steps N changes that" in output.out
    assert "kartrl: recording filmed:Filmed-v0, episode 2 of 2, 40 steps, 3 s of video" in output.err
    assert len(decode("filmed-Filmed-v0.mp4")[2]) == 2 * 41


def test_film_until_ctrl_c_is_kept(endless, capsys):
    assert main(["record", "-p", endless("environment.kwargs.stopped=15"), "-o", "film.mp4"]) == 0
    assert "Interrupted; the video so far is kept" in capsys.readouterr().out
    assert len(decode("film.mp4")[2]) == 15


def test_ctrl_c_before_the_first_picture_leaves_nothing(endless, tmp_path, capsys):
    policy = endless("environment.kwargs.stopped=0")
    before = sorted(tmp_path.iterdir())
    assert main(["record", "-p", policy]) == 130
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("look", ["None", "a vector"])
def test_no_picture_is_one_line_and_leaves_no_film(endless, tmp_path, capsys, look):
    policy = endless(f"environment.kwargs.look={look!r}")
    before = sorted(tmp_path.iterdir())
    for command in (["record", "-p", policy], ["watch", policy, "-o", "film.mp4"]):
        assert main(command) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert "cannot be filmed: render() returned" in error
    assert sorted(tmp_path.iterdir()) == before


def test_watch_films_an_endless_episode_to_the_limit(endless):
    assert main(["watch", endless("environment.kwargs.look=shares"), "-o", "film.mp4", "--max-steps", "30"]) == 0
    _, fps, pictures = decode("film.mp4")
    assert fps == 25
    assert 30 < len(pictures) < 30 + 4 * 25
    assert pictures[0].std() > 30


def test_an_environment_without_pictures(tmp_path, monkeypatch):
    monkeypatch.setenv("KARTRL_IMPORT", "spaces_zoo")
    policy = save_policy(tmp_path / "run", ["environment.id=spaces_zoo:Blind-v0", "model.hidden_size=16"])
    result = run("record", "-p", str(policy), cwd=tmp_path)
    assert (result.returncode, result.stderr.count("\n")) == (2, 1), result.stderr
    assert "cannot be filmed: render() raised NotImplementedError" in result.stderr
