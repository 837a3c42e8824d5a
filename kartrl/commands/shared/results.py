"""The results of commands for other programs: JSON and CSV, described in docs/reference/json.md."""

import argparse
import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console

from kartrl.comparison.statistics import mean_interval
from kartrl.envs.episode import Result
from kartrl.envs.world import World
from kartrl.files import json_text
from kartrl.metrics.tables import make_console


def add_formats(parser: argparse.ArgumentParser, rows: str) -> None:
    """Add the options --json and --csv; what they print is described in docs/reference/json.md.

    Args:
        rows: what the CSV has a row for.
    """
    formats = parser.add_mutually_exclusive_group()
    formats.add_argument("--json", action="store_true", help="print the results as a JSON object, all else on stderr")
    formats.add_argument("--csv", action="store_true", help=f"print a row of CSV for each {rows}, all else on stderr")


def console_for(options: argparse.Namespace) -> Console:
    """Where a command with `add_formats` prints what is for people."""
    return make_console(stderr=options.json or options.csv)


def print_results(options: argparse.Namespace, rows: Iterable[Mapping[str, Any]], **fields: Any) -> None:
    """Print results in the format that was asked for, if one was: the fields as JSON, or the rows as CSV."""
    if options.json:
        print_json(**fields)
    elif options.csv:
        print(csv_text(rows), end="")


def print_json(**fields: Any) -> None:
    """Print one object on stdout: see `json_text`."""
    print(json_text(fields))


def as_json(results: Sequence[Result], world: World, about: Mapping[str, Any]) -> dict[str, Any]:
    """The results of one policy; `about`: its first keys."""
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


def csv_text(rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows as CSV; keys within keys are joined by a dot, values of a list by a space, and None is empty."""
    flat = [_flat(row) for row in rows]
    text = io.StringIO()
    writer = csv.DictWriter(text, [*dict.fromkeys(key for row in flat for key in row)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue()


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, Mapping):
            flat |= {f"{key}.{name}": inner for name, inner in _flat(value).items()}
        else:
            flat[key] = " ".join(map(str, value)) if isinstance(value, list | tuple) else value
    return flat


def _rows(results: Sequence[Result]) -> list[dict[str, Any]]:
    return [
        {
            "level": result.level,
            "split": result.use,
            "seed": seed,
            "return": float(episode.episodic_return),
            "length": episode.agent_steps,
            "terminated": int(episode.finished),
            "success": None if episode.success is None else int(episode.success),
        }
        for result in results
        for seed, episode in zip(result.seeds, result.episodes, strict=True)
    ]
