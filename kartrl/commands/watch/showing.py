"""The window of `kartrl watch`, and its video."""

import contextlib
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from kartrl.commands.shared.policy import Driving, find_policy, fitting
from kartrl.commands.shared.progress import Progress
from kartrl.errors import UserError
from kartrl.files import ANOTHER, explained, output_file, unused_file
from kartrl.kart.play.watching import WatchWindow, draw
from kartrl.learning import checkpoint
from kartrl.metrics.tables import say
from kartrl.metrics.video import Mp4Writer
from kartrl.processes.interrupts import held
from kartrl.run.folders import find_checkpoint, find_run, find_training, is_training, names_policy
from kartrl.viewer.loop import keep_going
from kartrl.viewer.show import Show
from kartrl.viewer.window import Canvas, Window, has_display

FILM_FPS = 30  # maximum: drawing a frame takes longer than emulating it
LOOK_SECONDS = 0.2  # between polls for a run's first checkpoint


class Source(NamedTuple):
    """Source of the policy."""

    path: Path | None  # None: the followed run has no checkpoint yet
    follow: Path | None  # folder of a run in training


def watch(name: str | None, driving: Driving, output: Path | None, seconds: float, console: Console) -> None:
    """Show a policy until the window is closed, or record one episode on each level.

    Args:
        name: a checkpoint's file, or a run's name or folder: a run in training is followed from checkpoint to
            checkpoint. None: the newest run in training, else the newest run's best, else the one bundled with kartrl.
        seconds: maximum length of an episode; 0: unlimited.

    Raises:
        UserError: the checkpoint, a level or the device is missing, or the environment does not render.
    """
    windowed = output is None and has_display()
    source = _find(name, bool(driving.levels), windowed, console)
    if windowed:
        _show(source, driving._replace(max_steps=None), seconds, console)
        return
    video = output_file(output, "watch", ".mp4")
    if output is None:
        say(console, "No display: recording a video instead (-o FILE.mp4 chooses where)")
    if source.path is None:
        raise UserError(f"{source.follow}: no checkpoint to record yet; wait for the first one")
    with contextlib.closing(Canvas()) as canvas, driving.opened(source.path, console, render=True) as driver:
        show = Show(driver, source.path, source.follow, driving.greedy, seconds, partial(say, console))
        _film(show, canvas, video, console)


def _find(name: str | None, levels: bool, waits: bool, console: Console) -> Source:
    """What to show; see `watch`.

    Args:
        levels: whether the user names any.
        waits: whether a run that the user does not name may have no checkpoint yet.
    """
    if name is None and (training := find_training(fitting(levels))) is not None:
        newest = checkpoint.newest(training)
        if waits or newest is not None:
            say(console, f"Following {training}, which is training (watch RUN: another)")
            return Source(newest, training)
    if name is None or names_policy(name):
        return Source(find_policy(name, levels, console, "watch"), None)
    folder = find_run(name)
    if is_training(folder):
        return Source(checkpoint.newest(folder), folder)
    return Source(find_checkpoint(name, "watch"), None)


def _show(source: Source, driving: Driving, seconds: float, console: Console) -> None:
    with contextlib.closing(Window("KartRL")) as window:
        path = source.path or _first_checkpoint(source, window)
        if path is None:
            return
        window.wait("loading the policy ...")
        with driving.opened(path, console, render=True) as driver:
            show = Show(driver, path, source.follow, driving.greedy, seconds, partial(say, console))
            keep_going(WatchWindow(show, window), show.rate)


def _first_checkpoint(source: Source, window: Window) -> Path | None:
    """Wait for the first checkpoint of the followed run; None if the window is closed meanwhile. Ctrl-C interrupts."""
    folder = source.follow
    assert folder is not None, "without a checkpoint a run is followed"
    while (path := checkpoint.newest(folder)) is None:
        if not is_training(folder):
            raise UserError(f"{folder}: the run ended without a checkpoint")
        window.wait(f"waiting for the first checkpoint of {folder} ...")
        if window.left():
            return None
        time.sleep(LOOK_SECONDS)
    return path


def _film(show: Show, canvas: Canvas, wanted: Path, console: Console) -> None:
    """Record one round; after Ctrl-C, the video so far is kept."""
    every = max(1, round(show.rate / FILM_FPS))
    with (
        explained(wanted, "write", ANOTHER),
        unused_file(wanted) as video,
        Mp4Writer(video, show.rate / every) as mp4,
        Progress(console, None) as progress,
    ):
        try:
            while show.rounds == 0:
                progress.tell(f"recording {show.title}, {mp4.frames * every / show.rate:.0f} s")
                with held():  # so that Ctrl-C does not cut a frame
                    draw(canvas, show)
                    mp4.add(canvas.pixels())
                    for _ in range(every):
                        show.tick()
        except KeyboardInterrupt:
            say(console, "Interrupted; the video so far is kept")
    say(console, f"Video: {video}")
