"""Folders of runs that have ended, as a training leaves them, for what reads them."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from kartrl.config import dump, read
from kartrl.metrics.episodes_csv import EpisodeRow
from kartrl.metrics.scalars_csv import Row


def write_run(
    folder: Path,
    *overrides: str,
    returns: Sequence[float] = (1.0,),
    scalars: Mapping[str, Sequence[float]] | None = None,
    levels: Sequence[tuple[str, int]] = (),
    env: str = "CartPole-v1",
) -> Path:
    """An episode every 100 steps and 6 seconds; each tag of `scalars` every 1000 steps and 60 seconds.

    Args:
        levels: level of each episode, and whether it was finished, if there are levels.
    """
    folder.mkdir(parents=True)
    config = read(overrides=[f"environment.id={env}", *overrides])
    given = [part for override in (f"environment.id={env}", *overrides) for part in ("--set", override)]
    about = {"command": shlex.join(["kartrl", "train", *given])}
    (folder / "config.cfg").write_text(dump(config, about=about), encoding="utf-8")
    episodes = [
        EpisodeRow(6.0 * number, 100 * number, "0", level, value, 10, finished)
        for number, (value, (level, finished)) in enumerate(
            zip(returns, levels or [("", 0)] * len(returns), strict=True), 1
        )
    ]
    values = [
        Row(60.0 * number, 1000 * number, tag, value)
        for tag, series in (scalars or {}).items()
        for number, value in enumerate(series, 1)
    ]
    for name, fields, rows in (("episodes", EpisodeRow._fields, episodes), ("scalars", Row._fields, values)):
        lines = [",".join(map(str, row)) for row in (fields, *rows)]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder
