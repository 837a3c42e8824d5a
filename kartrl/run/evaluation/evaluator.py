"""The evaluator: during training, drives the newest checkpoint on every level and reports the results."""

import contextlib
import math
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import fmean
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from kartrl.acting.program import Program
from kartrl.config import Config
from kartrl.driving.driver import Driver
from kartrl.driving.episodes import Start
from kartrl.driving.levels import drive_levels, load_policy
from kartrl.driving.recorded_actor import Recorded, graph_of
from kartrl.envs.episode import Drive, Episode
from kartrl.envs.named_modules import named_modules, trust_here
from kartrl.envs.observation_spec import ObservationSpec
from kartrl.envs.seeds import seed_generators
from kartrl.envs.world import Env
from kartrl.envs.worlds import load_world
from kartrl.envs.wrappers.own_folder import OwnFolder
from kartrl.errors import UserError, remedy
from kartrl.learning import checkpoint_file
from kartrl.learning.best_checkpoint import BestCheckpoint
from kartrl.learning.checkpoint_file import NETWORK, CheckpointFile
from kartrl.metrics.episode_metrics import evaluation_scalars
from kartrl.metrics.records import Confirmation, EpisodeRecord, Scalars
from kartrl.processes.interrupts import deferred
from kartrl.processes.pipes import Pulse
from kartrl.processes.spawn import AGENT, EVALUATOR, environments_hosted, yield_cores
from kartrl.run.evaluation.files import GIF_FPS, EvaluationFiles, Film
from kartrl.run.evaluation.turns import Turns, mixed

if TYPE_CHECKING:
    from kartrl.models import ActorCritic

NAMES = ("evaluation", "evaluation_sampled")  # of scalars: with greedy, and with sampled actions
MOST_ENVS = 4  # that are stepped together: an emulator takes 14 MB
LOOK_SECONDS = 1.0  # between two checks for a new checkpoint
TELL_SECONDS = 10.0  # between two lines about the progress on all test levels
UsedLevel = tuple[str, str]  # "train" or "test", and the level


def run(
    run_folder: Path,
    config: Config,
    server: Connection,
    signs: Connection | None = None,
    first_step: int | None = None,
    most_envs: int = MOST_ENVS,
    programs: Mapping[int, Program] | None = None,
) -> None:
    """Body of the evaluator process; ends on SIGTERM, when its parent is gone, or when its server reports the end.

    At its start and every `config.evaluation.minutes`, if there is a new checkpoint, it drives on at most
    `config.evaluation.levels` train and as many test levels. If there are more, the train levels are always the same
    ones, from as many groups as possible, so that checkpoints can be compared; the test levels take turns. When
    training has ended, the last checkpoint drives on all test levels. Each time it

    - sends to `server` an `EpisodeRecord` for each episode with greedy actions, and finally a `Scalars` with their
      means and those of as many episodes with sampled actions,
    - writes the world's images and videos for TensorBoard to `run_folder/evaluation`, and all images to `latest.png`
      there; if there is a tracker, it sends each `Video` to `server` too,
    - saves the checkpoint as `run_folder/best.pt` if its score, the mean over these train levels of its mean return on
      each, with greedy and sampled actions, is the best so far; see `BestCheckpoint`.

    Args:
        server: a pipe to the server, which also receives lines for the user. A number from it asks for a
            `Confirmation` of the newest checkpoint by so many greedy episodes. Any other message means that training
            has ended: the newest checkpoint is evaluated, unless it has been, and the process ends.
        first_step: agent steps of the checkpoint that the run was resumed from, or that was evaluated last: what was
            written about later ones is removed, and no earlier one is evaluated. None: there is no such checkpoint.
        most_envs: environments that are stepped together at most.
        programs: the network's, as agents have them: this process then does without PyTorch.
    """
    signal.signal(signal.SIGTERM, deferred(_end))
    yield_cores(EVALUATOR if config.evaluation.minutes else AGENT)  # else it only confirms an end, which all wait for
    trust_here(named_modules(config.model))  # as the server does
    pulse = Pulse(signs)
    pulse.beat()
    with (
        environments_hosted(),
        contextlib.closing(Evaluator(run_folder, config, server, pulse, first_step, most_envs, programs)) as evaluator,
    ):
        try:
            evaluator.loop()
        except (BrokenPipeError, EOFError):  # the server is gone
            return


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(0)


class Evaluator:
    """The state that the evaluator process keeps between rounds."""

    def __init__(
        self,
        run_folder: Path,
        config: Config,
        server: Connection,
        pulse: Pulse,
        first_step: int | None,
        most_envs: int = MOST_ENVS,
        programs: Mapping[int, Program] | None = None,
    ) -> None:
        self._pulse, self._programs = pulse, programs
        self._run_folder, self._config, self._server = run_folder, config, server
        self._world = world = load_world(config)
        world.beat = pulse.beat
        limit = config.evaluation.levels
        levels = {use: mixed(world, world.levels(use)) for use in ("train", "test")}
        # Always the same ones, as they determine best.pt.
        levels["train"] = levels["train"][:limit] if world.all_levels() else [""]
        self._turns = {use: Turns(names, limit) for use, names in levels.items()}
        self._best = BestCheckpoint(run_folder / "best.pt", levels["train"], config, world.contents())
        self._first_step = -1 if first_step is None else first_step
        self._evaluated: CheckpointFile | None = None  # the newest one, and its episodes so far
        self._episodes: dict[str, dict[UsedLevel, list[Episode]]] = {}
        self._sent: set[tuple[str, str, int]] = set()  # of these: use, level and seed
        self._films = min(config.evaluation.video_seconds, config.evaluation.minutes) > 0
        seed_generators(0)  # each episode has its own seed; environments may draw when they are made
        self._envs, self._most_envs = [self._open_env()], most_envs
        self._has_ended = False  # training
        self._files = EvaluationFiles(run_folder / "evaluation", first_step)

    def loop(self) -> None:
        """Wait for new checkpoints and evaluate them, until training has ended."""
        pause = 60 * self._config.evaluation.minutes
        due, seen = 0.0 if pause else math.inf, None
        while not self._has_ended:
            self._pulse.beat()
            message = self._server.recv() if self._server.poll(LOOK_SECONDS) else None
            if isinstance(message, int):
                self._confirm(message)
                continue
            self._has_ended = message is not None
            if not self._has_ended and time.monotonic() < due:
                continue
            path = checkpoint_file.newest(self._run_folder)
            if path is None or path == seen:
                continue
            due, seen = time.monotonic() + pause, path
            try:
                loaded = checkpoint_file.read(path)
                if not self._has_ended and loaded.counters.agent_steps <= self._first_step:
                    seen = None
                    continue
                driver = self._opened(path, loaded)
            except UserError:  # a newer one has replaced it meanwhile
                due, seen = 0.0, None
                continue
            self._evaluated, self._episodes, self._sent = loaded, {name: {} for name in NAMES}, set()
            self._round(driver, loaded)
        if self._evaluated is not None:
            self._complete(driver, self._evaluated)

    def _opened(self, path: Path, loaded: CheckpointFile) -> Driver:
        """The network of a checkpoint, with this process's environments."""
        policy, levels = self._policy(path, loaded), self._world.all_levels()
        steps = loaded.counters.agent_steps
        return Driver(self._world, steps, self._envs, policy, levels, path, self._most_envs, self._open_another)

    def _policy(self, path: Path, loaded: CheckpointFile) -> "ActorCritic | Recorded":
        if self._programs is not None:
            names = [name for *_, name in next(iter(self._programs.values())).weights]
            if loaded.arrays.keys() >= {f"{NETWORK}/{name}" for name in names}:  # or it has some that are not saved
                return Recorded(self._programs, loaded.weights(names))
        return load_policy(path)

    def _confirm(self, episodes: int) -> None:
        """Drive at least so many greedy episodes with the newest checkpoint; it is the best if that ends the run."""
        newest = checkpoint_file.newest_readable(self._run_folder, checkpoint_file.read)
        if newest is None:
            self._server.send(Confirmation(0, math.nan, 0))
            return
        (path, loaded), levels = newest, self._turns["train"].levels
        first = 2 * self._config.evaluation.episodes
        each = math.ceil(episodes / len(levels))
        starts = [Start(level, seed, "train", None) for level in levels for seed in range(first, first + each)]
        drives = drive_levels(self._opened(path, loaded), starts, greedy=True, most_processes=1)
        returns = [driven.episode.episodic_return for driven in drives]
        goal, mean = self._config.run.stop_return, fmean(returns)
        if goal != "none" and mean >= goal:
            of_level = {level: returns[index * each : (index + 1) * each] for index, level in enumerate(levels)}
            with self._files.warning():
                self._best.offer(loaded, of_level, confirmed=True)
        self._server.send(Confirmation(loaded.counters.agent_steps, mean, len(returns)))

    def _round(self, driver: Driver, loaded: CheckpointFile) -> None:
        """Drive on the levels whose turn it is with these weights, and report."""
        step = loaded.counters.agent_steps
        levels = [(use, level) for use, turns in self._turns.items() for level in turns.take()]
        tags: dict[str, UsedLevel] = {}  # of images, and the level that each shows
        for use, level in levels:
            tags.setdefault(f"{use}/{self._label(level)}", (use, level))
        greedy, films = self._drive_greedily(driver, levels, tags.values())
        sampled = self._drive(driver, levels, {}, greedy=False)
        pictures = {}
        for use, level in levels:
            self._pulse.beat()
            pictures[use, level] = self._picture(use, level, greedy[use, level], step)
        word = self._world.picture_word.replace(" ", "_")
        for tag, shown in tags.items():
            self._pulse.beat()
            film = films[shown].pictures if films else []
            graph = partial(graph_of, driver.policy, ObservationSpec.from_json(loaded.about["observation"]))
            video = self._files.write(loaded.counters, tag, word, pictures[shown], film, graph)
            if video is not None and self._config.run.tracker != "none":
                self._server.send(video)
        returns = {
            level: [one.episode.episodic_return for drives in (greedy, sampled) for one in drives[use, level]]
            for use, level in levels
            if use == "train"
        }
        self._pulse.beat()
        self._files.show([picture for picture in pictures.values() if picture is not None])
        with self._files.warning():
            self._best.offer(loaded, returns)
        self._report(loaded, greedy, sampled)  # last: it means that the round's files are written

    def _complete(self, driver: Driver, loaded: CheckpointFile) -> None:
        """Drive on the test levels that have not had their turn with these weights, and report."""
        left = [("test", level) for level in self._turns["test"].levels]
        left = [level for level in left if level not in self._episodes[NAMES[0]]]
        if not left:
            return
        word = f"other unseen {self._world.level_word}s"
        self._server.send(f"Evaluating it on the {len(left)} {word} too (Ctrl-C skips the rest) ...")
        total, done, told = 2 * self._config.evaluation.episodes * len(left), 0, time.monotonic()

        def count() -> None:
            nonlocal done, told
            done += 1
            if time.monotonic() - told > TELL_SECONDS:
                told = time.monotonic()
                self._server.send(f"{done} of {total} episodes on the {word}")

        greedy = self._drive(driver, left, {}, greedy=True, on_end=count)
        self._report(loaded, greedy, self._drive(driver, left, {}, greedy=False, on_end=count))

    def _report(
        self, loaded: CheckpointFile, greedy: dict[UsedLevel, list[Drive]], sampled: dict[UsedLevel, list[Drive]]
    ) -> None:
        """Send the means over all episodes of the checkpoint so far, of which these are the newest."""
        scalars: dict[str, float] = {}
        for name, driven in zip(NAMES, (greedy, sampled), strict=True):
            self._episodes[name] |= {level: [one.episode for one in drives] for level, drives in driven.items()}
            episodes = [episode for same in self._episodes[name].values() for episode in same]
            scalars |= evaluation_scalars(self._world, episodes, name)
        self._server.send(Scalars(loaded.counters.agent_steps, scalars, loaded.counters.seconds))

    def close(self) -> None:
        """Free the emulators and close the event file."""
        for env in self._envs:
            env.close()
        self._files.close()

    def _label(self, level: str) -> str:
        """The name under which a level's images are shown."""
        if not level:
            return self._config.environment.id
        name = self._world.name_level(level)
        return self._world.group_of(name) if self._world.grouped else name

    def _open_env(self) -> Env:
        """The environment, with rendering if it supports that."""
        if self._films:
            try:
                return self._open(render=True)
            except Exception as error:  # third-party code may raise anything
                self._stop_filming(error)
        return self._open(render=False)

    def _open_another(self) -> Env:
        return self._open(self._films)

    def _open(self, render: bool) -> Env:
        world = self._world
        return OwnFolder(lambda: world.open_env(world.all_levels(), training=False, render=render))

    def _stop_filming(self, error: Exception) -> None:
        """Evaluate without videos from now on, and say why."""
        self._films = False
        reason = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}{remedy(error)}"
        print(f"kartrl: evaluations have no videos: {' '.join(reason.split())}", file=sys.stderr, flush=True)

    def _drive_greedily(
        self, driver: Driver, levels: Sequence[UsedLevel], filmed: Iterable[UsedLevel]
    ) -> tuple[dict[UsedLevel, list[Drive]], dict[UsedLevel, Film]]:
        """See `_drive`; and the films, if the environment renders any."""
        if self._films:
            try:
                gap = max(1, round(self._world.pictures_per_second(self._envs[0]) / GIF_FPS))
                films = {level: Film(gap, self._config.evaluation.video_seconds * GIF_FPS) for level in filmed}
                return self._drive(driver, levels, films, greedy=True), films
            except Exception as error:  # if it was not `render` that failed, it is raised again below
                self._stop_filming(error)
        return self._drive(driver, levels, {}, greedy=True), {}

    def _drive(
        self,
        driver: Driver,
        levels: Sequence[UsedLevel],
        films: Mapping[UsedLevel, Film],
        *,
        greedy: bool,
        on_end: Callable[[], None] = lambda: None,
    ) -> dict[UsedLevel, list[Drive]]:
        """`evaluation.episodes` episodes on each level; the first on each level of `films` is filmed.

        Those with greedy actions are sent to the server as they end. `on_end` is called after each. All cores are used
        once training has ended.
        """
        step, count = driver.agent_steps, self._config.evaluation.episodes
        seeds = range(count) if greedy else range(count, 2 * count)
        starts = []
        for use, level in levels:
            film = films.get((use, level))
            look = [film.look if film and seed == seeds[0] else None for seed in seeds]
            starts += [Start(level, seed, use, see, see is not None) for seed, see in zip(seeds, look, strict=True)]

        def send(start: Start, driven: Drive) -> None:
            self._pulse.beat()
            key = start.use, start.level, start.seed
            if greedy and key not in self._sent:  # it is driven again if it could not be filmed
                self._sent.add(key)
                self._server.send(EpisodeRecord(step, driven.episode, evaluated=True))
            on_end()

        processes = None if self._has_ended else 1
        drives = drive_levels(driver, starts, greedy=greedy, on_end=send, most_processes=processes)
        return {level: drives[index * count : (index + 1) * count] for index, level in enumerate(levels)}

    def _picture(self, use: str, level: str, drives: list[Drive], step: int) -> np.ndarray | None:
        kind = "unseen" if use == "test" else "trained on"
        name = f"{self._world.name_level(level)} ({kind})" if level else self._config.environment.id
        return self._world.draw(level, drives, f"{name}, {step:,} agent steps", inches=5)
