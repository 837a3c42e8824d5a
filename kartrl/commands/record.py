"""`kartrl record`: a video of a trained policy, and a picture of the line it drives."""

from collections.abc import Sequence
from pathlib import Path

import gymnasium
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from kartrl.commands.evaluate import (
    CONSOLE_FPS,
    Drive,
    Driver,
    drive,
    lap_line,
    map_of,
    open_driver,
    pictures_per_second,
)
from kartrl.config.levels import circuit_name
from kartrl.errors import UserError
from kartrl.kart.plots import Line, driven_lines
from kartrl.kart.retro import circuits, game_folder
from kartrl.metrics.video import Mp4Writer, png


def record(
    circuit: str | None, path: Path, output: Path | None, episodes: int, greedy: bool, device: str, console: Console
) -> Path | None:
    """Film episodes, one after another, in one MP4; for the kart, draw their lines beside it and print lap times.

    Args:
        circuit: as a key of [levels]; None where there are no circuits (for the kart they are listed, and no more).
        path: the checkpoint.
        output: the MP4; None: named after the circuit, in the current folder. The picture's name ends in .png instead.

    Returns:
        The MP4, or None where circuits were listed.

    Raises:
        UserError: the checkpoint, circuit or device is not there, or the output cannot be written.
    """
    with open_driver(path, [circuit] if circuit else [], device, render=True, console=console) as driver:
        if driver.config.is_kart and circuit is None:
            list_circuits(console, driver.config.environment.game)
            return None
        if len(driver.circuits) > 1:
            raise UserError(f"-s {circuit}: means {len(driver.circuits)} circuits; one can be filmed at a time")
        circuit = next(iter(driver.circuits), None)
        name = circuit_name(circuit) if circuit else driver.config.environment.id
        video = _named(output, name.replace("/", "-"))
        picture = video.with_suffix(".png")
        try:
            drives = _film(driver, circuit, name, video, episodes, greedy, console)
            if circuit is not None:
                best = min((one for one in drives), key=lambda one: (-one.episode.progress, sum(one.episode.lap_times)))
                title = f"{name}, after {driver.agent_steps:,} agent steps\n{lap_line(best.episode)}"
                lines = [Line(one.x, one.y, one.speed, one.episode.finished) for one in drives]
                picture.write_bytes(png(driven_lines(map_of(driver.config, circuit), lines, title)))
        except OSError as error:
            raise UserError(
                f"{video}: cannot write there ({error.strerror or error}); choose another place with -o"
            ) from error
        except gymnasium.error.DependencyNotInstalled as error:
            raise UserError(f"{driver.config.environment.id}: no pictures to film: {error}") from error
    console.print(_lap_table(drives) if circuit is not None else _plain_table(drives))
    console.print(
        f"Video: {video}" + (f"\nDriven line: {picture}" if circuit is not None else ""),
        highlight=False,
        soft_wrap=True,
    )
    return video


def list_circuits(console: Console, game: str = "auto") -> None:
    """Print the circuits that the game (auto, bundled or cartridge) has start states for.

    Raises:
        UserError: the game is not there.
    """
    folder = game_folder(game)
    console.print(f"Circuits of {folder.name} (record one with -s CIRCUIT -p CHECKPOINT):", highlight=False)
    for name in circuits(folder):
        console.print(f"  {name}", highlight=False)


def _named(output: Path | None, name: str) -> Path:
    if output is None:
        return Path(f"{name}.mp4")
    if output.is_dir():
        return output / f"{name}.mp4"
    if output.suffix == "":
        return output.with_suffix(".mp4")
    if output.suffix != ".mp4":
        raise UserError(f"-o {output}: the video is an MP4; give a name that ends in .mp4")
    return output


def _film(
    driver: Driver, circuit: str | None, name: str, video: Path, episodes: int, greedy: bool, console: Console
) -> list[Drive]:
    fps = CONSOLE_FPS if hasattr(driver.env.unwrapped, "on_frame") else pictures_per_second(driver.config, driver.env)
    drives = []
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[length]}"),
        TimeElapsedColumn(),
    )
    with (
        Mp4Writer(video, fps) as mp4,
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress,
    ):
        task = progress.add_task("", total=None, length="")

        def film(picture):  # type: ignore[no-untyped-def]
            mp4.add(picture)
            progress.update(task, length=f"{mp4.frames / fps:.0f} s of video")

        for seed in range(episodes):
            progress.update(task, description=f"filming {name}, episode {seed + 1} of {episodes}")
            drives.append(
                drive(
                    driver.env,
                    driver.model,
                    circuit,
                    greedy=greedy,
                    device=driver.device,
                    seed=seed,
                    on_picture=film,
                    every_frame=True,
                )
            )
    return drives


def _lap_table(drives: Sequence[Drive]) -> Table:
    laps = max(len(one.episode.lap_times) for one in drives)
    table = Table()
    for column in ("race", *(f"lap {lap + 1}" for lap in range(laps)), "total", "laps driven", "return"):
        table.add_column(column, justify="right")
    for number, one in enumerate(drives, 1):
        episode = one.episode
        times = [f"{time:.2f} s" for time in episode.lap_times]
        total = f"{sum(episode.lap_times):.2f} s" if episode.finished else "not finished"
        table.add_row(
            str(number),
            *times,
            *["-"] * (laps - len(times)),
            total,
            f"{episode.progress:.2f}",
            f"{episode.episodic_return:.2f}",
        )
    return table


def _plain_table(drives: Sequence[Drive]) -> Table:
    table = Table("episode", "return", "agent steps")
    for number, one in enumerate(drives, 1):
        table.add_row(str(number), f"{one.episode.episodic_return:.2f}", f"{one.episode.agent_steps:,}")
    return table
