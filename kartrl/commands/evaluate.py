"""Driving a trained policy: one episode, or a table over circuits."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from kartrl.config import Config
from kartrl.config.levels import circuit_name
from kartrl.envs import make_env
from kartrl.envs.episode import Episode
from kartrl.envs.wrappers import atari_spec
from kartrl.kart.circuit_map import circuit_map
from kartrl.kart.retro import game_folder
from kartrl.kart.selection import circuits_of, uses_by_name, with_circuits
from kartrl.learning import checkpoint
from kartrl.models import Network
from kartrl.runtime.devices import choose_device

CONSOLE_FPS = 60  # of an SNES and an Atari alike
OnPicture = Callable[[np.ndarray], None]
USES = {"train": "trained", "test": "unseen", "none": "other"}


class Drive(NamedTuple):
    """One episode and, for the kart, where it went: float32 [L], one value for each step and one for the start."""

    episode: Episode
    x: np.ndarray  # map position, growing east
    y: np.ndarray  # map position, growing south
    speed: np.ndarray
    progress: np.ndarray  # laps


class Driver(NamedTuple):
    """A trained network on the environment it was trained for; see `open_driver`."""

    config: Config
    agent_steps: int
    env: "gymnasium.Env[Any, Any]"
    model: Network
    device: torch.device
    circuits: tuple[str, ...]  # names, or absolute paths of start states; none where there are no circuits


class Result(NamedTuple):
    """All episodes of an evaluation on one circuit."""

    circuit: str  # "" where there are no circuits
    use: str  # "train", "test" or "none", in the configuration that was trained with
    episodes: tuple[Episode, ...]


@contextlib.contextmanager
def open_driver(  # type: ignore[no-untyped-def]
    path: Path, circuits: Sequence[str], device: str, render: bool = False, console: Console | None = None
):
    """Context manager: the `Driver` of a checkpoint, its environment able to drive on these circuits.

    Args:
        circuits: as the keys of [levels]; without any, those that the checkpoint's configuration trains or tests on.
        device: auto, cpu, cuda or mps; auto is the CPU, which is as fast as any for one observation at a time.
        render: whether the environment gives pictures.
        console: shows how far the building of circuits has come.

    Raises:
        UserError: the checkpoint, a circuit or the device is not there or not usable.
    """
    loaded = checkpoint.load(path)
    config = loaded.config
    checkpoint.check_imports(config)
    chosen = choose_device("cpu" if device == "auto" else device)
    model = checkpoint.load_network(loaded, chosen)
    torch.set_num_threads(1)  # more are no faster for one observation, and far slower on a machine that also trains
    if not circuits:
        config = with_circuits(config, console)
        found = config.circuits("train") + config.circuits("test")
    else:
        found = circuits_of(circuits, config.environment.game, console) if config.is_kart else ()
    env = make_env(config, found, training=False, render=render)
    try:
        yield Driver(config, loaded.counters.agent_steps, env, model, chosen, found)
    finally:
        env.close()


def drive(
    env: "gymnasium.Env[Any, Any]",
    model: Network,
    circuit: str | None,
    *,
    greedy: bool,
    device: torch.device,
    seed: int,
    use: str = "train",
    on_picture: OnPicture | None = None,
    every_frame: bool = False,
) -> Drive:
    """Drive one episode.

    Args:
        env: from `make_env`, able to drive on `circuit`.
        model: in evaluation mode, on `device`.
        circuit: None where there are no circuits.
        greedy: take the likeliest action rather than sample.
        seed: of the environment's and of the sampling's randomness; the same seed gives the same drive.
        use: what the episode is said to be for.
        on_picture: called with what `env.render()` shows, uint8 [H, W, 3], at the start and after each step.
        every_frame: have `on_picture` called for each video frame instead, where the environment can (the kart).
    """
    world = env.unwrapped
    frames = every_frame and on_picture is not None and hasattr(world, "on_frame")
    if frames:
        world.on_frame = on_picture  # type: ignore[attr-defined]
    rows: list[tuple[float, float, float, float]] = []
    try:
        for info, terminated, _ in steps(env, model, circuit, greedy=greedy, device=device, seed=seed):  # noqa: B007  # the last counts
            if on_picture is not None and not frames:
                on_picture(env.render())  # type: ignore[arg-type]
            if "x" in info:
                rows.append((info["x"], info["y"], info["speed"], info["progress"]))
    finally:
        if frames:
            world.on_frame = None  # type: ignore[attr-defined]
    x, y, speed, progress = np.array(rows, np.float32).reshape(-1, 4).T
    return Drive(Episode.of(info, terminated, use), x, y, speed, progress)


@torch.inference_mode()
def steps(
    env: "gymnasium.Env[Any, Any]",
    model: Network,
    circuit: str | None,
    *,
    greedy: bool,
    device: torch.device,
    seed: int,
    noop: int | None = None,
) -> Iterator[tuple[dict[str, Any], bool, bool]]:
    """Drive one episode step by step; the arguments are those of `drive`.

    Args:
        noop: ticks of idling before the kart may drive; None: drawn, as in training.

    Yields:
        `info`, whether the episode is terminated, and whether it has ended, at the start and after each step.
    """
    generator = torch.Generator(device).manual_seed(seed)
    state = model.initial_state(1)
    reset = torch.ones(1, dtype=torch.bool, device=device)
    options = {name: value for name, value in (("circuit", circuit), ("noop", noop)) if value is not None}
    observation, info = env.reset(seed=seed, options=options or None)
    terminated = ended = False
    while True:
        yield info, terminated, ended
        if ended:
            return
        batch = torch.tensor(np.asarray(observation), device=device).unsqueeze(0)
        parameters, _, state = model.step(batch, reset, state)
        reset = torch.zeros_like(reset)
        action = parameters.argmax(1) if greedy else torch.multinomial(parameters.exp(), 1, generator=generator)
        observation, _, terminated, truncated, info = env.step(int(action))
        ended = terminated or truncated


def map_of(config: Config, circuit: str) -> np.ndarray | None:
    """The map of a circuit, uint8 [1024, 1024, 3]; None for a game whose map is not known."""
    return circuit_map(game_folder(config.environment.game), circuit)


def pictures_per_second(config: Config, env: "gymnasium.Env[Any, Any]") -> float:
    """How many pictures make a second of play, with one for each step."""
    if not config.is_kart and atari_spec(config.environment.id) is not None:  # says 30, whatever the frame skip
        return CONSOLE_FPS / config.environment.frame_skip
    return float(env.unwrapped.metadata.get("render_fps", 30))


def lap_line(episode: Episode) -> str:
    """What an episode came to, in one line."""
    if not episode.lap_times:
        return f"{episode.progress:.2f} laps, none completed"
    laps = "  ".join(f"{time:.2f}" for time in episode.lap_times)
    end = f"race {sum(episode.lap_times):.2f} s" if episode.finished else f"{episode.progress:.2f} laps driven"
    return f"laps {laps}, {end}"


def evaluate(
    path: Path, circuits: Sequence[str], episodes: int, greedy: bool, device: str, console: Console
) -> list[Result]:
    """Drive so many episodes on each circuit, and print a table.

    Args:
        path: the checkpoint.
        circuits: as the keys of [levels]; without any, those that the checkpoint's configuration trains or tests on.

    Raises:
        UserError: the checkpoint, a circuit or the device is not there or not usable.
    """
    with open_driver(path, circuits, device, console=console) as driver:
        config = driver.config
        chosen: Sequence[str | None] = driver.circuits or [None]
        uses = uses_by_name(config.levels.circuits, map(circuit_name, driver.circuits))
        results = []
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
            task = progress.add_task("", total=len(chosen) * episodes)
            for circuit in chosen:
                name = circuit_name(circuit) if circuit else ""
                use = uses.get(name, "none") if circuit else "train"
                done: list[Episode] = []
                for seed in range(episodes):
                    progress.update(
                        task, description=f"{name or config.environment.id}, episode {seed + 1} of {episodes}"
                    )
                    done.append(
                        drive(
                            driver.env, driver.model, circuit, greedy=greedy, device=driver.device, seed=seed, use=use
                        ).episode
                    )
                    progress.advance(task)
                results.append(Result(name, use, tuple(done)))
    how = "greedy" if greedy else "sampled"
    console.print(
        f"{path}: {driver.agent_steps:,} agent steps, {how}, {episodes} episode{'s' * (episodes > 1)} each",
        highlight=False,
        soft_wrap=True,
    )
    console.print(kart_table(results) if config.is_kart else plain_table(results, config.environment.id))
    return results


def kart_table(results: Sequence[Result]) -> Table:
    """A row for each circuit, and one for all of the same use where there are several."""
    table = Table()
    table.add_column("circuit", no_wrap=True)
    table.add_column("use", no_wrap=True)
    for column in ("races finished", "mean lap, s", "best lap, s", "mean return", "laps driven"):
        table.add_column(column, justify="right")
    for use, label in USES.items():
        group = [result for result in results if result.use == use]
        table.add_section()
        for result in group:
            table.add_row(result.circuit, label, *_cells(result.episodes))
        if len(group) > 1:
            table.add_row(
                "all", label, *_cells([episode for result in group for episode in result.episodes]), style="bold"
            )
    return table


def plain_table(results: Sequence[Result], name: str) -> Table:
    """One row for an environment without circuits."""
    table = Table()
    for column in ("environment", "episodes", "mean return", "lowest", "highest", "mean length"):
        table.add_column(column, justify="left" if column == "environment" else "right")
    for result in results:
        returns = [episode.episodic_return for episode in result.episodes]
        length = fmean(episode.agent_steps for episode in result.episodes)
        numbers = f"{fmean(returns):.2f}", f"{min(returns):.2f}", f"{max(returns):.2f}", f"{length:.1f}"
        table.add_row(name, str(len(returns)), *numbers)
    return table


def _cells(episodes: Sequence[Episode]) -> list[str]:
    laps = [lap for episode in episodes for lap in episode.lap_times]
    return [
        f"{sum(episode.finished for episode in episodes)} of {len(episodes)}",
        f"{fmean(laps):.2f}" if laps else "-",
        f"{min(laps):.2f}" if laps else "-",
        f"{fmean(episode.episodic_return for episode in episodes):.2f}",
        f"{fmean(episode.progress for episode in episodes):.2f}",
    ]
