"""The evaluator: during training, drives the newest checkpoint on every level and reports the results."""

import contextlib
import itertools
import signal
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any, Generic, NoReturn, SupportsFloat, TypeVar

import gymnasium
import numpy as np
import torch

from kartrl.algorithms import heads_of
from kartrl.config import Config
from kartrl.envs.episode import Drive, Episode
from kartrl.envs.world import Env, World
from kartrl.envs.worlds import load_world
from kartrl.errors import UserError
from kartrl.files import write_whole
from kartrl.interrupts import deferred
from kartrl.learning import checkpoint
from kartrl.learning.best_checkpoint import BestCheckpoint
from kartrl.learning.checkpoint import Checkpoint
from kartrl.metrics.episode_metrics import evaluation_scalars
from kartrl.metrics.event_writer import EventWriter
from kartrl.metrics.records import EpisodeRecord, Scalars
from kartrl.metrics.video import contact_sheet, gif, png, shrunk
from kartrl.models import ActorCritic, Network
from kartrl.runtime.driving import OnPicture, drive
from kartrl.runtime.processes import yield_cores
from kartrl.runtime.pulse import Pulse

GIF_WIDTH, GIF_FPS = 128, 5.0  # small: there is one for each level every minute
NAMES = ("evaluation", "evaluation_sampled")  # of scalars: with greedy, and with sampled actions
LOOK_SECONDS = 1.0  # between two checks for a new checkpoint
DEVICE = torch.device("cpu")  # a GPU, if there is one, belongs to the learner
Level = TypeVar("Level")


def run(run_folder: Path, config: Config, server: Connection, signs: Connection | None = None) -> None:
    """Body of the evaluator process; ends on SIGTERM, when its parent is gone, or when it is told that training ended.

    At its start and every `config.evaluation.minutes`, if there is a new checkpoint, it drives on at most
    `config.evaluation.circuits` train and as many test levels. If there are more, the train levels are always the same
    ones, from as many groups as possible, so that checkpoints can be compared; the test levels take turns. Then it

    - sends to `server` an `EpisodeRecord` for each episode with greedy actions, and finally a `Scalars` with their
      means and those of as many episodes with sampled actions,
    - writes the world's images and videos for TensorBoard to `run_folder/evaluation`, and all images to `latest.png`
      there,
    - saves the checkpoint as `run_folder/best.pt` if its score, the mean over these train levels of its mean return on
      each, with greedy and sampled actions, is the best so far; see `BestCheckpoint`.

    Args:
        server: a pipe to the server. Any message from it means that training has ended: the newest checkpoint is
            evaluated, unless it has been, and the process ends.
        signs: receives signs of life; see `Pulse`.
    """
    signal.signal(signal.SIGTERM, deferred(_end))
    yield_cores()
    torch.set_num_threads(1)
    pulse = Pulse(signs)
    pulse.beat()
    evaluator = Evaluator(run_folder, config, server, pulse)
    try:
        evaluator.loop()
    except BrokenPipeError:  # the server is gone
        return
    finally:
        evaluator.close()


class Beating(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Signals at each step that its process makes progress."""

    def __init__(self, env: Env, pulse: Pulse) -> None:
        super().__init__(env)
        self._pulse = pulse

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """See Gymnasium."""
        self._pulse.beat()
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """See Gymnasium."""
        self._pulse.beat()
        return self.env.step(action)


class Turns(Generic[Level]):
    """Levels that take turns, at most so many at a time."""

    def __init__(self, levels: Sequence[Level], limit: int) -> None:
        self.levels, self._limit = tuple(levels), limit
        self._next = 0

    def take(self) -> list[Level]:
        """The levels whose turn it is."""
        count = max(1, len(self.levels))
        taken = [self.levels[(self._next + index) % count] for index in range(min(len(self.levels), self._limit))]
        self._next = (self._next + len(taken)) % count
        return taken


def mixed(world: World, levels: Sequence[str]) -> list[str]:
    """The levels, alternating between groups, so that any few neighbours are from several groups."""
    groups: dict[str, list[str]] = defaultdict(list)
    for level in levels:
        groups[world.group_of(world.name_level(level))].append(level)
    return [level for row in itertools.zip_longest(*groups.values()) for level in row if level is not None]


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(0)


class Evaluator:
    """The state that the evaluator process keeps between rounds."""

    def __init__(self, run_folder: Path, config: Config, server: Connection, pulse: Pulse) -> None:
        self._pulse = pulse
        self._run_folder, self._folder = run_folder, run_folder / "evaluation"
        self._config, self._server = config, server
        self._world = world = load_world(config)
        limit = config.evaluation.circuits
        levels = {use: mixed(world, world.levels(use)) for use in ("train", "test")}
        # Always the same ones, as they determine best.pt.
        levels["train"] = levels["train"][:limit] if world.all_levels() else [""]
        self._turns = {use: Turns(names, limit) for use, names in levels.items()}
        self._best = BestCheckpoint(run_folder / "best.pt", levels["train"], config)
        self._newest: dict[str, dict[tuple[str, str], list[Episode]]] = {name: {} for name in NAMES}
        self._films = config.evaluation.video_seconds > 0
        self._env = Beating(self._open_env(), pulse)
        self._events: EventWriter | None = None
        self._warned = False

    def loop(self) -> None:
        """Wait for new checkpoints and evaluate them, until training has ended."""
        pause = 60 * self._config.evaluation.minutes
        due, seen, ended = 0.0, None, False
        while not ended:
            self._pulse.beat()
            ended = self._server.poll(LOOK_SECONDS)
            if not ended and time.monotonic() < due:
                continue
            path = checkpoint.newest(self._run_folder)
            if path is None or path == seen:
                continue
            due, seen = time.monotonic() + pause, path
            try:
                loaded = checkpoint.load(path)
            except UserError:  # a newer one has replaced it meanwhile
                due, seen = 0.0, None
                continue
            self.round(loaded)

    def round(self, loaded: Checkpoint) -> None:
        """Drive on the levels whose turn it is with these weights, and report."""
        network = checkpoint.load_network(loaded, DEVICE)
        step = loaded.counters.agent_steps
        episodes: dict[str, list[Episode]] = {name: [] for name in NAMES}
        pictures, shown = [], set()
        returns: dict[str, list[float]] = {}  # on the train levels
        for use, level in [(use, level) for use, turns in self._turns.items() for level in turns.take()]:
            drives, film = self._drive(network, use, level)
            driven = [one.episode for one in drives], self._sample(network, use, level)
            for name, same in zip(NAMES, driven, strict=True):
                self._newest[name][use, level] = same
                episodes[name] += same
            if use == "train":
                returns[level] = [episode.episodic_return for same in driven for episode in same]
            for one in drives:
                self._server.send(EpisodeRecord(step, one.episode, evaluated=True))
            picture = self._picture(use, level, drives, step)
            if picture is not None:
                pictures.append(picture)
            tag = f"{use}/{self._label(level)}"
            if tag not in shown:
                shown.add(tag)
                self._write(loaded, tag, picture, film)
        with self._warning():
            if pictures:
                write_whole(
                    self._folder / "latest.png", png(contact_sheet(pictures, columns=2 if len(pictures) <= 6 else 4))
                )
            self._best.offer(loaded, returns)
        scalars: dict[str, float] = {}
        for name in NAMES:
            newest = [episode for same in self._newest[name].values() for episode in same]
            scalars |= evaluation_scalars(self._world, episodes[name], newest, name)
        self._server.send(Scalars(step, scalars))  # last: it means that the round's files are written

    def close(self) -> None:
        """Free the emulator and close the event file."""
        self._env.close()
        if self._events is not None:
            self._events.close()

    def _label(self, level: str) -> str:
        """The name under which a level's images are shown."""
        if not level:
            return self._config.environment.id
        name = self._world.name_level(level)
        return self._world.group_of(name) if self._world.grouped else name

    def _open_env(self) -> Env:
        """The environment, with rendering if it supports that."""
        levels = self._world.all_levels()
        if self._films:
            try:
                return self._world.open_env(levels, training=False, render=True)
            except Exception as error:  # third-party code may raise anything
                self._stop_filming(error)
        return self._world.open_env(levels, training=False)

    def _stop_filming(self, error: Exception) -> None:
        """Evaluate without videos from now on, and say why."""
        self._films = False
        reason = " ".join((str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}").split())
        print(f"kartrl: evaluations have no videos: {reason}", file=sys.stderr, flush=True)

    def _drive(self, network: Network, use: str, level: str) -> tuple[list[Drive], list[np.ndarray]]:
        """The drives on one level, and small images of the first of them, if the environment renders any."""
        if self._films:
            try:
                return self._film(network, use, level)
            except Exception as error:  # if it was not `render` that failed, it is raised again below
                self._stop_filming(error)
        return [self._drive_once(network, use, level, seed) for seed in range(self._config.evaluation.episodes)], []

    def _sample(self, network: Network, use: str, level: str) -> list[Episode]:
        """Episodes on one level with sampled actions, with other seeds than the greedy ones."""
        count = self._config.evaluation.episodes
        return [
            drive(self._world, self._env, network, level, greedy=False, seed=seed, use=use).episode
            for seed in range(count, 2 * count)
        ]

    def _film(self, network: Network, use: str, level: str) -> tuple[list[Drive], list[np.ndarray]]:
        """See `_drive`."""
        section = self._config.evaluation
        steps_per_picture = max(1, round(self._world.pictures_per_second(self._env) / GIF_FPS))
        film: list[np.ndarray] = []
        seen = 0

        def look(picture: np.ndarray) -> None:
            nonlocal seen
            if seen % steps_per_picture == 0 and len(film) < section.video_seconds * GIF_FPS:
                film.append(shrunk(picture, GIF_WIDTH))
            seen += 1

        drives = [self._drive_once(network, use, level, 0, look)]
        drives += [self._drive_once(network, use, level, seed) for seed in range(1, section.episodes)]
        return drives, film

    def _drive_once(self, network: Network, use: str, level: str, seed: int, look: OnPicture | None = None) -> Drive:
        return drive(self._world, self._env, network, level, greedy=True, seed=seed, use=use, on_picture=look)

    def _picture(self, use: str, level: str, drives: list[Drive], step: int) -> np.ndarray | None:
        kind = "unseen" if use == "test" else "trained on"
        name = f"{self._world.name_level(level)} ({kind})" if level else self._config.environment.id
        return self._world.draw(level, drives, f"{name}, {step:,} agent steps", inches=5)

    def _write(self, loaded: Checkpoint, name: str, picture: np.ndarray | None, film: list[np.ndarray]) -> None:
        """Write a level's pictures to the event file."""
        step = loaded.counters.agent_steps
        with self._warning():
            if self._events is None:
                self._folder.mkdir(parents=True, exist_ok=True)
                if not any(self._folder.glob("events.*")):
                    _write_graph(self._folder, loaded)
                self._events = EventWriter(self._folder, purge_step=step)
            if picture is not None:
                word = self._world.picture_word.replace(" ", "_")
                self._events.image(step, f"evaluation_{word}s/{name}", png(picture), *picture.shape[:2])
            if film:
                self._events.image(step, f"evaluation_video/{name}", gif(film, GIF_FPS), *film[0].shape[:2])
            self._events.flush()

    @contextlib.contextmanager
    def _warning(self) -> Iterator[None]:
        """Context manager: warn once about a file that cannot be written; training continues."""
        try:
            yield
        except OSError as error:
            if self._events is not None:
                self._events.close()
                self._events = None
            if not self._warned:
                self._warned = True
                reason = error.strerror or str(error)
                print(
                    f"kartrl: evaluations are not written to {self._folder} ({reason}); training continues",
                    file=sys.stderr,
                    flush=True,
                )


class StepModule(torch.nn.Module):
    """The network inside a module without exported methods, as tracing for TensorBoard's graph requires."""

    def __init__(self, network: ActorCritic) -> None:
        super().__init__()
        self.network = network

    def forward(self, observation: torch.Tensor, reset: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.network.step(observation, reset, state)


def _write_graph(folder: Path, loaded: Checkpoint) -> None:
    """Write the network's graph, in an event file of its own, before any other of the folder."""
    from torch.utils.tensorboard import SummaryWriter  # here: the server imports this module too, only for its name

    section = loaded.config.model.model_copy(
        update={"precision": "fp32"}
    )  # tracing does not support bf16; the layers are the same
    network = ActorCritic(section, loaded.observation_shape, loaded.action, heads_of(loaded.config)).eval()
    dtype = torch.uint8 if len(loaded.observation_shape) == 3 else torch.float32
    observation = torch.zeros(1, *loaded.observation_shape, dtype=dtype)
    with warnings.catch_warnings(), SummaryWriter(str(folder)) as writer:
        warnings.filterwarnings("ignore", message=r".*torch\.jit\.", category=DeprecationWarning)
        writer.add_graph(StepModule(network), (observation, torch.ones(1, dtype=torch.bool), network.initial_state(1)))
