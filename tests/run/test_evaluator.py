"""The evaluator in a real process on the kart, and TensorBoard's page in a real browser."""

import functools
import io
import json
import os
import pickle
import re
import signal
import subprocess
import sys
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Any

import gymnasium
import numpy as np
import psutil
import pytest
import torch
from commands import environment, wait_for
from hypothesis import given, settings
from hypothesis import strategies as st
from needs import needs_browser, needs_kart, open_browser
from PIL import Image
from policies import CARTPOLE, KART, by_programs, save_policy
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard_page import tensorboard

from kartrl.config import Config
from kartrl.driving.driver import open_driver
from kartrl.driving.episodes import drive
from kartrl.kart.world import KartWorld
from kartrl.learning import checkpoint
from kartrl.metrics.records import EpisodeRecord, Histograms, Scalars, Video
from kartrl.processes.spawn import AGENT, EVALUATOR, spawn, start_method
from kartrl.run.evaluation import evaluator
from kartrl.run.evaluation.evaluations import Evaluations
from kartrl.run.evaluation.files import Film
from kartrl.run.evaluation.turns import Turns, mixed
from kartrl.run.logger import run as run_logger
from kartrl.run.run_folder import RunFolder

OFTEN = ("evaluation.minutes=0.01", "evaluation.video_seconds=1")
ALONE = "levels.random:3:asphalt=none"
CIRCUITS = [f"{use}/MarioCircuit.Act{act}" for use, act in (("train", 1), ("train", 2), ("train", 3), ("test", 4))]


@functools.cache
def context() -> Any:
    """Starts processes that have the evaluator loaded."""
    return start_method("kartrl.run.evaluation.evaluator", "kartrl.run.logger")


def test_the_best_of_no_evaluation_follows_the_newest(tmp_path):
    evaluations = Evaluations(Config(), RunFolder(tmp_path), context(), print)
    for number, score in ((1000, None), (2000, None), (3000, 5.0), (4000, None)):
        save_policy(tmp_path, CARTPOLE, number)
        if score is not None:
            newest = checkpoint.load(checkpoint.newest(tmp_path))
            checkpoint.save(tmp_path / "best.pt", newest._replace(score=score))
        evaluations.leave_best()
        best = checkpoint.load(tmp_path / "best.pt")
        assert best.counters.agent_steps == min(number, 3000), "what an evaluation chose stays"


def order(one: EpisodeRecord | Video | str) -> tuple[bool, str]:
    """Lines and films, then by split and level: episodes are sent as they end."""
    return (False, "") if isinstance(one, str | Video) else (one.episode.use == "test", one.episode.level)


class Evaluator:
    """An evaluator process at work in a run folder; a context manager."""

    def __init__(
        self, run_folder: Path, first_step: int | None = None, start: Any = None, programs: Any = None
    ) -> None:
        self.first_step, self.start, self.programs = first_step, start or context(), programs
        path = checkpoint.newest(run_folder)
        assert path is not None
        self.folder, self.config = run_folder, checkpoint.load(path).config

    def __enter__(self) -> "Evaluator":
        self.messages, writer = self.start.Pipe()
        arguments = self.folder, self.config, writer, None, self.first_step
        self.process = spawn(self.start, "evaluator", evaluator.run, *arguments, programs=self.programs)
        writer.close()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.join(60)
        self.messages.close()

    def round(self) -> tuple[list[EpisodeRecord | Video | str], Scalars]:
        """What it sends until the next round of circuits is complete."""
        records: list[EpisodeRecord | Video | str] = []
        while True:
            assert self.messages.poll(100)
            message = self.messages.recv()
            if isinstance(message, Scalars):
                return sorted(records, key=order), message
            records.append(message)


@pytest.mark.parametrize("tracker", ["none", "trackio"])
def test_films_are_sent_where_there_is_a_tracker(tmp_path, tracker):
    save_policy(tmp_path, [*CARTPOLE, *OFTEN, f"run.tracker={tracker}"], 1000)
    with Evaluator(tmp_path) as evaluator:
        films = [one for one in evaluator.round()[0] if isinstance(one, Video)]
    assert [(film.agent_steps, film.tag) for film in films] == [(1000, "evaluation_video/train/CartPole-v1")] * (
        tracker != "none"
    )
    assert all(Image.open(io.BytesIO(film.gif)).n_frames > 1 for film in films)


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """A run in which two checkpoints were evaluated, the second of them after a restart."""
    folder = tmp_path_factory.mktemp("logs") / "run"
    save_policy(folder, [*KART, *OFTEN, ALONE], 1000)
    with Evaluator(folder) as evaluator:
        records, scalars = evaluator.round()
        assert [f"{record.episode.use}/{record.episode.level}" for record in records] == CIRCUITS
        assert all(record.evaluated and record.agent_steps == scalars.agent_steps == 1000 for record in records)
        returns = [record.episode.episodic_return for record in records]
        assert scalars.values["evaluation/train_return"] == pytest.approx(sum(returns[:3]) / 3)
        assert scalars.values["evaluation_test/MarioCircuit.Act4/episodic_return"] == returns[3]
        sampled = scalars.values["evaluation_sampled/train_return"]
        assert sampled != pytest.approx(sum(returns[:3]) / 3), "of other actions"
        assert [scalars.values[f"{name}/train_episodes"] for name in ("evaluation", "evaluation_sampled")] == [3.0, 3.0]
        score = (sum(returns[:3]) / 3 + sampled) / 2
        assert checkpoint.load(folder / "best.pt").score == pytest.approx(score)
        os.kill(evaluator.process.pid, signal.SIGINT)
        evaluator.process.join(0.5)
        assert evaluator.process.is_alive(), "Ctrl-C is the server's business"
        evaluator.process.terminate()
        evaluator.process.join(60)  # SIGTERM ends it, however busy the machine is
        assert evaluator.process.exitcode == 0

    best = checkpoint.load(folder / "best.pt")._replace(score=1e9)
    checkpoint.save(folder / "best.pt", best)
    save_policy(folder, [*KART, *OFTEN, ALONE], 2000)
    with Evaluator(folder, first_step=1000) as evaluator:
        assert evaluator.round()[1].agent_steps == 2000
        evaluator.process.terminate()
        evaluator.process.join(60)  # SIGTERM ends it, however busy the machine is
    return folder


@needs_kart
@pytest.mark.timeout(600)  # next to the others of this run, so that one worker makes it
def test_lines_videos_and_graph_are_written(run_folder):
    events = EventAccumulator(str(run_folder / "evaluation"), size_guidance={"images": 0})
    events.Reload()
    assert sorted(events.Tags()["images"]) == sorted(
        f"{kind}/{name}" for kind in ("evaluation_driven_lines", "evaluation_video") for name in CIRCUITS
    )
    graph = events.Graph()
    assert {"encoder", "policy", "value"} <= {part for node in graph.node for part in node.name.split("/")} | {
        name for node in graph.node for name in re.findall(r"\[(\w+)\]", node.name)
    }
    for name in CIRCUITS:
        assert [event.step for event in events.Images(f"evaluation_driven_lines/{name}")] == [1000, 2000]
        with Image.open(
            io.BytesIO(events.Images(f"evaluation_driven_lines/{name}")[-1].encoded_image_string)
        ) as picture:
            assert picture.size[0] == 500
        with Image.open(io.BytesIO(events.Images(f"evaluation_video/{name}")[-1].encoded_image_string)) as video:
            assert (video.format, video.size) == ("GIF", (128, 112))
            assert video.n_frames > 3
    with Image.open(run_folder / "evaluation" / "latest.png") as sheet:
        assert sheet.size == (1000, 2 * 515)


@needs_kart
@pytest.mark.timeout(600)  # next to the others of this run, so that one worker makes it
def test_a_worse_policy_does_not_replace_the_best(run_folder):
    best = checkpoint.load(run_folder / "best.pt")
    assert (best.score, best.counters.agent_steps) == (1e9, 1000)


@needs_kart
def test_evaluation_alternates_test_circuits_then_drives_all(tmp_path):
    overrides = [
        *KART,
        *OFTEN,
        ALONE,
        "levels.MarioCircuit.Act3=test",
        "evaluation.levels=1",
        "evaluation.video_seconds=0",
        "evaluation.episodes=2",
        "kart.no_progress_limit=0.5",
    ]
    save_policy(tmp_path, overrides, 1000)
    with Evaluator(tmp_path) as evaluator:
        records, scalars = evaluator.round()
        assert [record.episode.level[-1] for record in records] == ["1", "1", "4", "4"]
        first = (records[0].episode.episodic_return + records[1].episode.episodic_return) / 2
        assert scalars.values["evaluation/train_return"] == pytest.approx(first)
        first = (first + scalars.values["evaluation_sampled/train_return"]) / 2
        assert checkpoint.load(tmp_path / "best.pt").score == pytest.approx(first)
        save_policy(tmp_path, overrides, 2000)
        records, scalars = evaluator.round()
        assert [record.episode.level[-1] for record in records] == ["1", "1", "3", "3"]
        second = (records[0].episode.episodic_return + records[1].episode.episodic_return) / 2
        assert scalars.values["evaluation/train_return"] == pytest.approx(second), "of the newest checkpoint alone"
        second = (second + scalars.values["evaluation_sampled/train_return"]) / 2
        best = checkpoint.load(tmp_path / "best.pt")
        assert best.score == pytest.approx(max(first, second))
        assert best.counters.agent_steps == (2000 if second > first else 1000)
        turn = {tag: value for tag, value in scalars.values.items() if tag.startswith("evaluation/test_")}
        assert turn["evaluation/test_episodes"] == 2
        assert turn["evaluation/test_return"] == fmean(record.episode.episodic_return for record in records[2:])

        evaluator.messages.send("training has ended")
        (line, *rest), scalars = evaluator.round()
        assert line == "Evaluating it on the 1 other unseen circuits too (Ctrl-C skips the rest) ..."
        assert [(record.episode.level[-1], record.agent_steps) for record in rest] == [("4", 2000)] * 2
        everything = [record.episode.episodic_return for record in (*records[2:], *rest)]
        assert scalars.agent_steps == 2000
        assert scalars.values["evaluation/test_episodes"] == scalars.values["evaluation_sampled/test_episodes"] == 4
        assert scalars.values["evaluation/test_return"] == pytest.approx(fmean(everything))
        assert scalars.values["evaluation/train_return"] == pytest.approx(
            fmean(record.episode.episodic_return for record in records[:2])
        )
        evaluator.process.join(60)
        assert evaluator.process.exitcode == 0
    assert checkpoint.load(tmp_path / "best.pt").score == best.score


def test_replacement_evaluator_takes_only_newer_checkpoints(tmp_path):
    save_policy(tmp_path, [*CARTPOLE, *OFTEN], 1000)
    save_policy(tmp_path, [*CARTPOLE, *OFTEN], 2000)
    with Evaluator(tmp_path, first_step=2000) as evaluator:
        assert not evaluator.messages.poll(3)
        save_policy(tmp_path, [*CARTPOLE, *OFTEN], 3000)
        assert evaluator.round()[1].agent_steps == 3000


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(["a", "b", "c"]), max_size=30), st.integers(1, 9), st.integers(1, 20))
def test_every_circuit_has_its_turn_as_often_as_any_other(groups, limit, rounds):
    circuits = mixed(KartWorld(Config()), [f"{group}.{number}" for number, group in enumerate(groups)])
    assert sorted(circuits) == sorted(f"{group}.{number}" for number, group in enumerate(groups))
    turns = Turns(circuits, limit)
    taken = [turns.take() for _ in range(rounds)]
    assert all(len(set(some)) == len(some) == min(limit, len(circuits)) for some in taken)
    counts = [sum(circuit in some for some in taken) for circuit in circuits]
    assert max(counts, default=0) - min(counts, default=0) <= 1


def test_neighbours_are_of_different_groups():
    circuits = mixed(
        KartWorld(Config()), [f"random.{kind}.{number}" for kind in ("ice", "mud", "dirt") for number in range(4)]
    )
    assert all(len({circuit.split(".")[1] for circuit in circuits[at : at + 3]}) == 3 for at in range(10))


@pytest.mark.parametrize("is_recorded", [False, True], ids=["network", "recorded"])
def test_evaluator_works_without_circuits_and_pictures(tmp_path, is_recorded):
    path = save_policy(tmp_path, [*CARTPOLE, *OFTEN, "evaluation.episodes=10"])  # more than are driven side by side
    with open_driver(path, [], "cpu") as driver:
        policy = by_programs(driver).policy if is_recorded else driver.policy
        alone = [drive(driver.world, driver.env, policy, "", greedy=True, seed=seed) for seed in range(10)]
    with Evaluator(tmp_path, programs=policy.programs if is_recorded else None) as evaluator:
        records, scalars = evaluator.round()
        assert scalars.values["evaluation/train_return"] == fmean(one.episode.episodic_return for one in records)
        assert (tmp_path / "best.pt").exists()
        assert psutil.Process(evaluator.process.pid).nice() == min(19, psutil.Process().nice() + EVALUATOR)
        assert EVALUATOR > AGENT
    assert not (tmp_path / "evaluation" / "latest.png").exists()
    best, newest = checkpoint.load(tmp_path / "best.pt"), checkpoint.load(path)
    assert best.score is not None
    assert best.counters == newest.counters
    assert all(torch.equal(best.network[name], tensor) for name, tensor in newest.network.items())
    assert sorted(record.episode for record in records) == sorted(one.episode for one in alone)


ALONE_IN_PROCESS = """
import pickle, sys
from multiprocessing import Pipe
from pathlib import Path
from kartrl.run.evaluation import evaluator
ours, theirs = Pipe()
ours.send("training has ended")
folder, config, programs = pickle.loads(Path("arguments").read_bytes())
evaluator.run(folder, config, theirs, programs=programs)
sys.exit("torch" in sys.modules)
"""


def test_recorded_network_is_evaluated_without_pytorch(tmp_path):
    path = save_policy(tmp_path, [*CARTPOLE, *OFTEN, "evaluation.episodes=2"])
    with open_driver(path, [], "cpu") as driver:
        programs = by_programs(driver).policy.programs
    arguments = tmp_path, checkpoint.load(path).config, programs
    (tmp_path / "arguments").write_bytes(pickle.dumps(arguments))
    command = [sys.executable, "-c", ALONE_IN_PROCESS]
    subprocess.run(command, cwd=tmp_path, env=environment(), timeout=100, check=True)
    assert checkpoint.load(tmp_path / "best.pt").score is not None
    assert any((tmp_path / "evaluation").iterdir())


def test_a_film_has_its_length_and_renders_nothing_else():
    class Rendering(gymnasium.Env):
        rendered: list[int] = []  # noqa: RUF012
        steps = 0

        def render(self):
            self.rendered.append(self.steps)
            return np.zeros((224, 256, 3), np.uint8)

    env, film = Rendering(), Film(3, 5)
    for env.steps in range(20):
        film.look(env)
    assert env.rendered == [0, 3, 6, 9, 12]
    assert [picture.shape for picture in film.pictures] == [(112, 128, 3)] * 5


def test_environment_without_rendering_is_evaluated(tmp_path, capfd):
    blind = [*OFTEN, "environment.id=spaces_zoo:Blind-v0", "model.hidden_size=16"]
    save_policy(tmp_path, blind)
    with Evaluator(tmp_path, start=get_context("spawn")) as evaluator:  # with this test's stderr
        for agent_steps in (2000, 3000):
            (record,), _ = evaluator.round()
            assert record.episode.episodic_return == 20
            save_policy(tmp_path, blind, agent_steps)
    assert (tmp_path / "best.pt").exists()
    said = "evaluations have no videos: the environment cannot be filmed: render() raised NotImplementedError"
    assert capfd.readouterr().err.count(said) == 1


def test_env_opened_only_once_drives_episodes_in_sequence(tmp_path):
    overrides = [*OFTEN, "environment.id=spaces_zoo:Single-v0", "evaluation.episodes=3", "evaluation.video_seconds=0"]
    save_policy(tmp_path, [*overrides, "model.hidden_size=16"])
    with Evaluator(tmp_path) as evaluator:
        records, _ = evaluator.round()
    assert [record.episode.episodic_return for record in records] == [20, 20, 20]


@needs_kart
@pytest.mark.timeout(600)
@needs_browser
def test_tensorboard_shows_curves_lines_and_videos(run_folder, tmp_path):
    records, sender = context().Pipe(duplex=False)
    logger = context().Process(
        target=run_logger, args=(checkpoint.load(run_folder / "best.pt").config, run_folder, records, 0)
    )
    logger.start()
    for step in (1000, 2000):
        sender.send(Scalars(step, {"losses/entropy": 1.0 / step, "charts/episodic_return": step / 100}))
        sender.send(
            Histograms(
                step,
                {"weights/policy.weight": checkpoint.load(run_folder / "best.pt").network["policy.weight"].numpy()},
            )
        )
    sender.send(None)
    logger.join(60)
    sender.close()
    tags = ("losses/entropy", "charts/episodic_return", *(f"evaluation_driven_lines/{name}" for name in CIRCUITS))
    image = "plugin/timeseries/imageData?imageId="
    with tensorboard(run_folder.parent, tmp_path / "told") as shown:
        wanted = ("driven_lines", "losses/entropy")  # of two folders, which it reads one after the other

        def known(tag: str) -> bool:
            return tag in json.dumps(shown.fetch("timeseries/tags"))

        wait_for(lambda: all(map(known, wanted)), 100, "TensorBoard to read the logs")
        address = f"{shown.address}?tagFilter=losses|episodic_return|driven_lines|video#timeseries"
        with open_browser() as browser:
            page = browser.new_page(viewport={"width": 1400, "height": 4000})
            page.goto(address)
            for tag in tags:
                page.get_by_text(tag, exact=True).first.wait_for(timeout=100_000)
            page.locator(f"img[src*='{image}']").nth(3).wait_for(timeout=100_000)
