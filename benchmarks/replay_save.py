"""How long training waits for a replay that is being saved.

    python benchmarks/replay_save.py --steps 1000000
    python benchmarks/replay_save.py --steps 1000000 --method prioritised --folder /mnt/disk

A replay of this many steps of Pong (84 x 84, four frames) is filled and saved, and saved again with the steps that
arrived in between. Beside that a thread does what a trainer does for each update: it inserts a batch of fresh unrolls
and samples as many. Shown are how long it waits for the replay's lock, and how long inserting and sampling take, each
time the longest and the median, without a save and during both.
"""

import argparse
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from rich.progress import track

sys.path.insert(0, str(Path(__file__).parents[1]))
from kartrl.config.replay import Replay as Section
from kartrl.envs.observation_spec import plain
from kartrl.replay import MemoryShape, Mixture, make_mixture
from kartrl.replay.replay_folder import ReplayFolder
from kartrl.trajectory import Trajectory

LENGTH, BATCH, SIDE, STACK = 20, 16, 84, 4  # steps of an unroll, unrolls of a batch, pixels, frames
DECISION = 9  # columns: an action of six, its log-probability, the value, and the policy's parameters
FRAMES = 997  # different ones
RATE = 1000.0  # fresh agent steps per second


class Turn(NamedTuple):
    """What one update's work on the replay took."""

    waited: float  # seconds for the lock
    worked: float  # seconds to insert and sample


class Player:
    """Batches of unrolls of random frames, each of which begins where the one before ended."""

    def __init__(self, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        frames = self._random.integers(0, 256, (FRAMES, SIDE, SIDE), dtype=np.uint8)
        self._stacks = np.stack([np.roll(frames, STACK - 1 - number, axis=0) for number in range(STACK)], axis=3)
        self._at = self._random.integers(0, FRAMES, BATCH)
        self._number = 0

    def batch(self) -> Trajectory[np.ndarray]:
        """The next one."""
        steps = (LENGTH, BATCH)
        observation = self._stacks[(self._at + np.arange(LENGTH + 1)[:, None]) % FRAMES]
        self._at, self._number = self._at + LENGTH, self._number + 1
        return Trajectory(
            observation=observation,
            first=np.zeros((LENGTH + 1, BATCH), bool),
            initial_state=np.zeros((BATCH, 0), np.float32),
            decision=self._random.random((*steps, DECISION), np.float32),
            reward=self._random.random(steps, np.float32),
            terminated=np.zeros(steps, bool),
            valid=np.ones(steps, bool),
            version=np.full(steps, self._number),
            online=np.ones(BATCH, bool),
            importance=np.ones(BATCH, np.float32),
            serial=np.full(BATCH, -1),
        )


def filled(method: str, steps: int, player: Player) -> Mixture:
    """A replay by this method that holds as many steps."""
    section = Section(methods=f"queue {method}", capacities=str(steps))
    unrolls = steps // LENGTH + BATCH
    shape = MemoryShape(unrolls, LENGTH, plain(SIDE, SIDE, STACK), STACK, DECISION, 0)
    mixture = make_mixture(
        section, section.drawn("none"), shape, torch.Generator().manual_seed(0), lambda: 0.0, embed=None
    )
    for _ in track(range(-(-steps // (LENGTH * BATCH))), f"filling {steps:,} steps", transient=True):
        mixture.insert(player.batch())
    return mixture


class TrainerLike(threading.Thread):
    """Inserts and samples as often as training at `RATE` would, until told to end."""

    def __init__(self, mixture: Mixture, player: Player) -> None:
        super().__init__(daemon=True)
        self._mixture, self._player, self._ended = mixture, player, threading.Event()
        self.turns: list[Turn] = []

    def run(self) -> None:
        while not self._ended.wait(LENGTH * BATCH / RATE):
            batch = self._player.batch()
            before = time.perf_counter()
            with self._mixture.lock:
                begin = time.perf_counter()
                self._mixture.insert(batch)
                self._mixture.sample(2 * BATCH)
            self.turns.append(Turn(begin - before, time.perf_counter() - begin))

    def end(self) -> list[Turn]:
        """End, and return what each update's work took."""
        self._ended.set()
        self.join()
        return self.turns


def row(name: str, seconds: float, written: int, turns: list[Turn]) -> str:
    """A row of the table: milliseconds, longest and median."""
    figures = [f"{1e3 * max(values):.0f}, {1e3 * statistics.median(values):.1f}" for values in zip(*turns, strict=True)]
    return f"| {name} | {seconds:.1f} | {written / 1e6:,.0f} | {len(turns)} | {' | '.join(figures)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1_000_000, help="in the replay (default 1000000, 7.2 GB)")
    parser.add_argument("--method", default="uniform", choices=("uniform", "prioritised"))
    parser.add_argument("--folder", type=Path, help="where to save it (default: a temporary folder)")
    parser.add_argument("--seconds", type=float, default=20, help="between the two saves (default 20)")
    options = parser.parse_args()
    player = Player()
    mixture = filled(options.method, options.steps, player)
    print("| | seconds | MB written | updates meanwhile | ms waited: longest, median | ms worked: longest, median |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(dir=options.folder) as path:
        folder = ReplayFolder(Path(path) / "replay", mixture)
        for number, name in enumerate(("first save", "second save"), 1):
            thread = TrainerLike(mixture, player)
            thread.start()
            time.sleep(options.seconds)
            print(row("no save", options.seconds, 0, thread.end()), flush=True)
            thread = TrainerLike(mixture, player)
            held = _size(Path(path))
            begin = time.perf_counter()
            thread.start()
            folder.save(f"{number}")
            seconds = time.perf_counter() - begin
            print(row(name, seconds, _size(Path(path)) - held, thread.end()), flush=True)
            folder.remove_others(f"{number}")


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


if __name__ == "__main__":
    main()
