"""Saves replays in children that are killed at every stage of it; test_replay_folder.py runs this in its own process.

    python killing_replays.py FOLDER

Prints, as JSON, at what the children were killed, and which checkpoint was then the newest.
"""

import json
import sys
from collections import Counter
from pathlib import Path

import torch
from killing import save_in_a_child
from mixtures import Playing, assert_same, everything, fill, make

from kartrl.files import write_whole
from kartrl.replay import Mixture, replay_folder
from kartrl.replay.replay_folder import ReplayFolder


def save(folder: ReplayFolder, path: Path, name: str) -> None:
    """As the server does, with a checkpoint that is nothing but a mark."""
    folder.save(name)
    write_whole(path / f"{name}.pt", b"", durable=True)
    folder.remove_others(name)


def restored(path: Path, name: str) -> Mixture:
    mixture = make()
    ReplayFolder(path, mixture).restore(name)
    return mixture


def main(path: Path) -> None:
    torch.set_num_threads(1)
    replay_folder.PIECE = 4_000
    mixture, playing = make(), Playing(0)
    fill(mixture, playing, 12)
    folder = ReplayFolder(path, mixture)
    save(folder, path, "1")
    before = {file: file.read_bytes() for file in path.iterdir()}
    states = {"1": everything(mixture)}
    fill(mixture, playing, 6)
    states["2"] = everything(mixture)
    newest: Counter[str] = Counter()
    names: list[str] = []

    def attempt(at: int | None = None, size: int | None = None) -> bool:
        """Whether the child was killed."""
        for file in path.iterdir():
            file.unlink()
        for file, content in before.items():
            file.write_bytes(content)
        status, name = save_in_a_child(lambda: save(folder, path, "2"), at, size)
        names.append(name)
        there = "2" if (path / "2.pt").exists() else "1"
        newest[there] += 1
        assert_same(everything(restored(path, there)), states[there])
        return status != 0

    for size in (0, 1, 1000, 3000):
        assert attempt(size=size)
    at = 0
    while attempt(at=at):
        at += 1
    print(json.dumps({"newest": newest, "killed_at": sorted(set(names))}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
