"""Aggregates episodes to the scalars of TensorBoard and the CSV."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean

from kartrl.config.levels import group_of
from kartrl.envs.episode import Episode


def training_scalars(episodes: Sequence[Episode], grouped: bool = False) -> dict[str, float]:
    """Means over training episodes, `train/...`, and per circuit, `train_circuits/<circuit>/...`.

    Args:
        grouped: use one tag per group of circuits instead of per circuit, if there are many.
    """
    values = _prefixed("train", _means(episodes))
    for name, group in _by_circuit(episodes, grouped):
        values |= _prefixed(f"train_circuits/{name}", _means(group))
    return values


def evaluation_scalars(
    episodes: Sequence[Episode], newest: Sequence[Episode] = (), grouped: bool = False
) -> dict[str, float]:
    """Means per circuit, `evaluation_<use>/<circuit>/...`, and over all train and all test circuits.

    The latter are `evaluation/<use>_return`, `_finished`, `_progress` and `_best_lap`.

    Args:
        episodes: of this round.
        newest: newest episodes of all circuits, over which the overall means are taken; a round may cover only some.
        grouped: use one tag per group of circuits instead of per circuit, if there are many.
    """
    newest = newest or episodes
    values: dict[str, float] = {}
    for use in ("train", "test"):
        for name, same in _by_circuit(
            (episode for episode in (newest if grouped else episodes) if episode.use == use), grouped
        ):
            values |= _prefixed(f"evaluation_{use}/{name}", _means(same))
        means = _means([episode for episode in newest if episode.use == use])
        for key in ("return", "finished", "progress", "best_lap"):
            value = means.get("episodic_return" if key == "return" else key)
            if value is not None:
                values[f"evaluation/{use}_{key}"] = value
    return values


def _means(episodes: Sequence[Episode]) -> dict[str, float]:
    """Means over `episodes`; laps, progress and finished races only if there are circuits."""
    if not episodes:
        return {}
    values = {
        "episodic_return": fmean(episode.episodic_return for episode in episodes),
        "episodic_length": fmean(episode.agent_steps for episode in episodes),
    }
    if any(episode.circuit for episode in episodes):
        values["progress"] = fmean(episode.progress for episode in episodes)
        values["finished"] = fmean(episode.finished for episode in episodes)
        laps = [lap for episode in episodes for lap in episode.lap_times]
        if laps:
            values["lap_time"] = fmean(laps)
            values["best_lap"] = min(laps)
    return values


def _by_circuit(episodes: Iterable[Episode], grouped: bool) -> list[tuple[str, list[Episode]]]:
    groups: defaultdict[str, list[Episode]] = defaultdict(list)
    for episode in episodes:
        if episode.circuit:
            groups[group_of(episode.circuit) if grouped else episode.circuit].append(episode)
    return sorted(groups.items())


def _prefixed(prefix: str, values: dict[str, float]) -> dict[str, float]:
    return {f"{prefix}/{key}": value for key, value in values.items()}
