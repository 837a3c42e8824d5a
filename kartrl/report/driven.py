"""What a report shows of a policy: greedy episodes on its levels, their lines, and a film; or what its run has left."""

import io
import itertools
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageSequence
from rich.console import Console

from kartrl.comparison.report import Table
from kartrl.driving.driver import Driver, open_driver
from kartrl.driving.episodes import reset_options, steps
from kartrl.driving.evaluation import Evaluation
from kartrl.envs.episode import Result
from kartrl.envs.worlds import CONSOLE_FPS, load_world
from kartrl.envs.wrappers.pictures import picture_of
from kartrl.errors import UserError, located
from kartrl.metrics.event_writer import newest_images
from kartrl.metrics.tables import say
from kartrl.metrics.video import Mp4Writer, WebmWriter
from kartrl.report.levels import USES, driven_table, evaluation_table, training_table
from kartrl.report.runs import Runs, Told
from kartrl.run.evaluation.turns import mixed

SECONDS = 20.0  # of a film, at most
SHORT_SECONDS, MOST_EPISODES = 8.0, 50  # shorter episodes are followed by others, as long as the film is so short
MOST_FPS = 30.0
FILM_BYTES = 4_500_000  # of all films; in a page they are a third larger
MOST_FILMS, MOST_PICTURES = 4, 24
INCHES = 6.0  # width of a picture
Tell = Callable[[str], None]


class Film(NamedTuple):
    """A film to put into a page."""

    title: str
    mp4: bytes
    webm: bytes  # the same, for browsers without H.264
    still: np.ndarray  # one of its pictures, uint8 [H, W, 3]


class Picture(NamedTuple):
    """A picture to put into a page."""

    title: str
    image: np.ndarray  # uint8 [H, W, 3]


class Shown(NamedTuple):
    """What was driven for a report, or found in the folders of its runs."""

    films: list[Film]
    pictures: list[Picture]
    tables: list[Table]
    notes: list[str]  # what is missing, and why


def look(
    runs: Runs, levels: Sequence[str], episodes: int, max_steps: int | None, console: Console, tell: Tell
) -> Shown:
    """Drive the policies; show what evaluations during training have left where that is not wanted, or not possible.

    Args:
        levels: as a user names them; if empty, those that the evaluations drive.
        episodes: of each run on each level; 0: drive nothing.
        max_steps: agent steps after which an episode is truncated; None: the runs' `evaluation.max_steps`.
        tell: called often, with what is done.

    Raises:
        UserError: a level that the user names is missing.
    """
    shown = Shown([], [], [], [one.without for one in runs.every if one.policy is None])
    most_bytes = FILM_BYTES // min(MOST_FILMS, len(runs.told) * len(runs.comparison.tasks))
    for task in runs.comparison.tasks:
        groups = {label: tasks[task] for label, tasks in runs.told.items()}
        driven: dict[str, list[list[Result]]] = {}
        for label, members in groups.items():
            best, films, pictures = runs.best(label, task), list[Film](), list[Picture]()
            for one in (one for one in members if one.policy is not None and episodes):
                try:
                    results, drawn, cut = drive(one, levels, episodes, max_steps, console, tell)
                    driven.setdefault(label, []).append(results)
                    if cut:
                        shown.notes.append(f"{one.run.name}: {cut}")
                        say(console, shown.notes[-1])
                    if one is best:
                        pictures = drawn
                        if len(shown.films) < MOST_FILMS:
                            films.append(film(one, levels, most_bytes, max_steps, console, tell))
                except Exception as error:  # third-party code may raise anything
                    if levels or isinstance(error, MemoryError):
                        raise
                    shown.notes.append(f"{one.run.name}: {error if isinstance(error, UserError) else located(error)}")
            left = ([], []) if films and pictures else left_by(best, most_bytes, tell)
            shown.films.extend((films or left[0])[: MOST_FILMS - len(shown.films)])
            shown.pictures.extend((pictures or left[1])[: MOST_PICTURES - len(shown.pictures)])
        tables = [driven_table(groups, driven) if driven else evaluation_table(groups), training_table(groups)]
        shown.tables.extend(table for table in tables if table.rows)
    return shown


def drive(
    told: Told, levels: Sequence[str], episodes: int, max_steps: int | None, console: Console, tell: Tell
) -> tuple[list[Result], list[Picture], str]:
    """Drive a run's policy greedily, on each level from the seed 0 on.

    Args:
        levels: as a user names them; if empty, those that its evaluations drive.
        max_steps: as in `look`.
        tell: called at each step with what is done.

    Returns:
        The results, the lines on maps, and how many episodes `max_steps` has ended, "" if none.

    Raises:
        UserError: a level is missing, or the environment cannot be made.
    """
    assert told.path is not None
    with open_driver(told.path, levels, "auto", console=console, max_steps=max_steps) as driver:
        driver = driver._replace(levels=tuple(_few(driver, levels)))
        evaluation, pictures = Evaluation(driver, episodes), []

        def look(_: object) -> None:
            tell(f"driving {told.run.name}, {evaluation.done} of {evaluation.total} episodes")

        results = evaluation.run(greedy=True, on_step=look)
        for (level, drives), result in zip(evaluation.driven.items(), results, strict=True):
            title = f"{result.level or told.run.task}{USES[result.use]}"
            line = f"{title}, after {driver.agent_steps:,} agent steps"
            picture = driver.world.draw(level, [drives[seed] for seed in result.seeds], line, INCHES)
            pictures += [] if picture is None else [Picture(f"{told.run.name}: {line}", picture)]
        ended = [episode for result in results for episode in result.episodes]
        return results, pictures, driver.world.tell_limit(ended)


def film(
    told: Told, levels: Sequence[str], most_bytes: int, max_steps: int | None, console: Console, tell: Tell
) -> Film:
    """A film of a run's policy, from the start of an episode on a level, an unseen one if there is one.

    Raises:
        UserError: as `drive`, or the environment cannot be filmed.
    """
    assert told.path is not None
    with open_driver(told.path, levels, "auto", True, console, max_steps=max_steps) as driver:
        own = _few(driver, levels)
        level = own[0] if levels or not driver.levels else own[-1]
        fast = hasattr(driver.env.unwrapped, "on_frame")
        rate = CONSOLE_FPS if fast else driver.world.pictures_per_second(driver.env)
        every = max(1, round(rate / MOST_FPS))
        frames = itertools.islice(_frames(driver, level, rate), 0, round(SECONDS * rate), every)
        name = driver.world.name_level(level) if level else told.run.task
        use = USES[driver.world.find_uses([name]).get(name, "none")] if level else ""
        title = f"{told.run.name}: {name}{use}, after {driver.agent_steps:,} agent steps"
        return _encoded(title, frames, rate / every, most_bytes, tell)


def _few(driver: Driver, named: Sequence[str]) -> list[str]:
    """The levels to drive: those that a user names, or as many as an evaluation drives; the unseen ones are last."""
    world = driver.world
    if named or not driver.levels:
        return list(driver.levels) or [""]
    limit = world.config.evaluation.levels
    return [level for use in ("train", "test") for level in mixed(world, world.levels(use))[:limit]]


def _frames(driver: Driver, level: str, rate: float) -> Iterator[np.ndarray]:
    """The pictures of greedy episodes, uint8 [H, W, 3], until they are `SHORT_SECONDS` long."""
    inner, frames, shown = driver.env.unwrapped, list[np.ndarray](), 0
    if hasattr(inner, "on_frame"):
        inner.on_frame = frames.append
    for seed in range(MOST_EPISODES):
        for _ in steps(driver.env, driver.network, reset_options(driver.world, level), greedy=True, seed=seed):
            pictures = frames[:] or [picture_of(driver.env)]
            frames.clear()
            shown += len(pictures)
            yield from pictures
        if shown >= SHORT_SECONDS * rate:
            return


def _encoded(title: str, frames: Iterable[np.ndarray], fps: float, most_bytes: int, tell: Tell) -> Film:
    still: np.ndarray | None = None
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder) / "film.mp4", Path(folder) / "film.webm"
        most_bits = int(8 * most_bytes / (SECONDS + 2))
        with Mp4Writer(files[0], fps, 2 * most_bits // 3) as mp4, WebmWriter(files[1], fps, most_bits // 3) as webm:
            for frame in frames:
                if mp4.frames <= fps:  # that after a second
                    still = frame.copy()
                mp4.add(frame)
                webm.add(frame)
                tell(f"filming {title}, {mp4.frames / fps:.0f} s")
        if still is None:
            raise UserError("there are no pictures")
        return Film(title, files[0].read_bytes(), files[1].read_bytes(), still)


def left_by(told: Told, most_bytes: int, tell: Tell) -> tuple[list[Film], list[Picture]]:
    """The newest film and pictures that the run's evaluations have written for TensorBoard.

    Raises:
        OSError: they cannot be read.
    """
    films, pictures = list[Film](), list[Picture]()
    prefix = load_world(told.run.config).picture_word.replace(" ", "_")
    for tag, data in newest_images(told.folder / "evaluation").items():
        kind, _, name = tag.partition("/")
        use, _, level = name.partition("/")
        title = f"{told.run.name}: {level}{USES.get(use, '')}, from its evaluation"
        try:
            image = Image.open(io.BytesIO(data))
            if kind == f"evaluation_{prefix}s":
                pictures.append(Picture(title, np.asarray(image.convert("RGB"))))
            elif kind == "evaluation_video" and (not films or use == "test"):
                fps = 1000 / max(20, image.info.get("duration", 200))
                frames = (np.asarray(frame.convert("RGB")) for frame in ImageSequence.Iterator(image))
                films = [_encoded(title, frames, fps, most_bytes, tell)]
        except Exception:  # Pillow raises anything where a picture is damaged
            continue
    return films, pictures
