"""`kartrl record`: a video of a trained policy, and the world's plot of it, such as the line that a kart drives."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import HEAVY_HEAD
from rich.console import Console

from kartrl.commands.shared.arguments import (
    Parser,
    add_levels,
    add_max_steps,
    add_policy,
    add_world,
    policies_of,
)
from kartrl.commands.shared.policy import Driving, find_policy
from kartrl.commands.shared.progress import Progress
from kartrl.envs.episode import Drive
from kartrl.envs.worlds import CONSOLE_FPS
from kartrl.files import ANOTHER, explained, output_file, safe_name, unused_file, user_path
from kartrl.metrics.tables import Line, fitted, make_console, say
from kartrl.metrics.video import Mp4Writer, png
from kartrl.options import positive

if TYPE_CHECKING:
    from kartrl.driving.driver import Driver


def add_arguments(parser: Parser) -> None:
    parser.runs(
        run,
        "record my-run -l MarioCircuit.Act4",
        "record logs/my-run/checkpoints/0000500000.pt -l RainbowRoad.Act1 -o rainbow.mp4",
    )
    add_levels(parser, "the circuit, such as MarioCircuit.Act3, or a path", one=True)
    add_policy(parser)
    add_world(parser)
    parser.add_argument(
        "-o",
        "--output",
        type=user_path,
        metavar="FILE",
        help="the MP4 file; the picture of the line is saved beside it",
    )
    parser.add_argument("--episodes", type=positive, default=1, help="races to record (default 1)")
    add_max_steps(parser, film=True)


def run(options: argparse.Namespace) -> int:
    """Record; returns the exit status."""
    console = make_console()
    (name,) = policies_of(options)
    path = find_policy(name, bool(options.state), console)
    record(path, Driving.of(options), options.output, options.episodes, console)
    return 0


def record(path: Path, driving: Driving, output: Path | None, episodes: int, console: Console) -> Path:
    """Record episodes, one after another, in one MP4, save the world's plot of them next to it, and print a table.

    After Ctrl-C, what has been filmed is kept.

    Args:
        driving: on one level; on none if the policy has only one, or none.
        output: the MP4; None: named after the level, in the current folder. The plot has the suffix .png.

    Returns:
        The MP4.

    Raises:
        UserError: the checkpoint, level or device is missing, there are several levels, or the output cannot be
            written.
        KeyboardInterrupt: before there was anything to keep.
    """
    with driving.opened(path, console, render=True, single=True) as driver:
        world = driver.world
        level = next(iter(driver.levels), "")
        name = world.name_level(level) if level else world.config.environment.id
        wanted, drawn = output_file(output, safe_name(name), ".mp4"), None
        with explained(wanted, "write", ANOTHER), unused_file(wanted, ".png") as video:
            drives = _film(driver, level, name, video, episodes, driving.greedy, console)
            if drives:
                drawn = world.draw(level, drives, f"{name}, after {driver.agent_steps:,} agent steps")
            if drawn is not None:
                video.with_suffix(".png").write_bytes(png(drawn))
    if drives:
        recorded = [one.episode for one in drives]
        (first, *headings), *rows = world.list_episodes(recorded)
        lines = [Line(number, cells, level=False) for number, *cells in rows]
        console.print(fitted(first, headings, [lines], console.width, HEAVY_HEAD))
        for text in world.tell_more(recorded):
            say(console, text)
    more = "" if drawn is None else f"\n{world.picture_word.capitalize()}: {video.with_suffix('.png')}"
    say(console, f"Video: {video}{more}")
    return video


def _film(
    driver: "Driver", level: str, name: str, video: Path, episodes: int, greedy: bool, console: Console
) -> list[Drive]:
    """Film episodes, and return those that ended; Ctrl-C ends the film."""
    from kartrl.driving.episodes import drive

    fps = CONSOLE_FPS if hasattr(driver.env.unwrapped, "on_frame") else driver.world.pictures_per_second(driver.env)
    drives: list[Drive] = []
    with Mp4Writer(video, fps) as mp4, Progress(console, episodes) as progress:
        try:
            for seed in range(episodes):
                progress.begin(f"recording {name}, episode {seed + 1} of {episodes}")
                driven = drive(
                    driver.world,
                    driver.env,
                    driver.network,
                    level,
                    greedy=greedy,
                    seed=seed,
                    on_picture=mp4.add,
                    on_step=lambda: progress.step(lambda: f", {mp4.frames / fps:.0f} s of video"),
                )
                drives.append(driven)
                progress.end()
        except KeyboardInterrupt:
            if not mp4.frames:
                raise
            console.print("Interrupted; the video so far is kept")
    return drives
