"""The results of `kartrl evaluate` for other programs: JSON, and a CSV file with a row for each episode."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kartrl import __version__
from kartrl.comparison.statistics import mean_interval
from kartrl.envs.episode import Result
from kartrl.envs.world import World
from kartrl.files import write_whole


def print_json(**fields: Any) -> None:
    """Print one object on stdout: kartrl's version, then these fields."""
    print(json.dumps({"kartrl": __version__, **fields}, indent=1))


def as_json(results: Sequence[Result], world: World, about: Mapping[str, Any]) -> dict[str, Any]:
    """What docs/policies.md describes; `about`: its first keys."""
    return {
        **about,
        "environment": world.config.environment.id,
        "levels": [_level(result, world) for result in results],
        "episodes": _rows(results),
    }


def _level(result: Result, world: World) -> dict[str, Any]:
    returns = np.array([episode.episodic_return for episode in result.episodes])
    return {
        "level": result.level,
        "split": result.use,
        "episodes": len(returns),
        "return_mean": float(returns.mean()),
        "return_interval": mean_interval(returns),
        "return_min": float(returns.min()),
        "return_max": float(returns.max()),
        "terminated": sum(episode.finished for episode in result.episodes),
        "measures": world.measure(result.episodes),
    }


def write_csv(rows: Sequence[Mapping[str, Any]], file: Path) -> None:
    """Write rows with the same keys, replacing the file.

    Raises:
        OSError: it cannot be written.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0] if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_whole(file, text.getvalue().encode())


def _rows(results: Sequence[Result]) -> list[dict[str, Any]]:
    return [
        {
            "level": result.level,
            "split": result.use,
            "seed": seed,
            "return": float(episode.episodic_return),
            "length": episode.agent_steps,
            "terminated": int(episode.finished),
        }
        for result in results
        for seed, episode in zip(result.seeds, result.episodes, strict=True)
    ]
