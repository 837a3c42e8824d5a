"""Aggregates episodes to the scalars of TensorBoard and the CSV."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from kartrl.envs.episode import Episode
from kartrl.envs.world import World


def training_scalars(world: World, episodes: Sequence[Episode]) -> dict[str, float]:
    """Means over training episodes, `charts/...`, and per level or, if there are many, per group of levels.

    The latter are `train_levels/<level>/...`, with the world's own word for a level.
    """
    if not episodes:
        return {}
    values = _prefixed("charts", world.measure(episodes))
    for name, same in _by_level(world, episodes):
        values |= _prefixed(f"train_{world.level_word}s/{name}", world.measure(same))
    return values


def evaluation_scalars(world: World, episodes: Sequence[Episode], name: str = "evaluation") -> dict[str, float]:
    """Means per level or group, `evaluation_<use>/<level>/...`, and over these train and these test levels.

    The latter are `evaluation/<use>_return`, `evaluation/<use>_episodes` (the number of episodes averaged), and one for
    each of `World.highlights`.

    Args:
        name: to use instead of "evaluation".
    """
    values: dict[str, float] = {}
    for use in ("train", "test"):
        same_use = [episode for episode in episodes if episode.use == use]
        for level, same in _by_level(world, same_use):
            values |= _prefixed(f"{name}_{use}/{level}", world.measure(same))
        if same_use:
            means = world.measure(same_use)
            values[f"{name}/{use}_return"] = means["episodic_return"]
            values[f"{name}/{use}_episodes"] = float(len(same_use))
            values |= {f"{name}/{use}_{key}": means[key] for key in world.highlights if key in means}
    return values


def _by_level(world: World, episodes: Iterable[Episode]) -> list[tuple[str, list[Episode]]]:
    groups: defaultdict[str, list[Episode]] = defaultdict(list)
    for episode in episodes:
        if episode.level:
            groups[world.group_of(episode.level) if world.grouped else episode.level].append(episode)
    return sorted(groups.items())


def _prefixed(prefix: str, values: dict[str, float]) -> dict[str, float]:
    return {f"{prefix}/{key}": value for key, value in values.items()}
