"""The algorithms, a file for each paper, and the one table of their names."""

from typing import Any

from kartrl.algorithms.a2c import A2C
from kartrl.algorithms.a3c import A3C
from kartrl.algorithms.acer import ACER
from kartrl.algorithms.algorithm import Algorithm
from kartrl.algorithms.appo import APPO
from kartrl.algorithms.impala import Impala
from kartrl.algorithms.laser import Relevance
from kartrl.algorithms.ppo import PPO
from kartrl.algorithms.rewards import make_transform
from kartrl.config import Config
from kartrl.models import Distribution

ALGORITHMS: dict[str, type[Algorithm[Any]]] = {
    "a2c": A2C,
    "a3c": A3C,
    "acer": ACER,
    "appo": APPO,
    "impala": Impala,
    "ppo": PPO,
}


def heads_of(config: Config) -> frozenset[str]:
    """The heads that the algorithm needs of its network; see `ActorCritic`."""
    return ALGORITHMS[config.algorithm.name].heads


def make_algorithm(config: Config, distribution: Distribution) -> Algorithm[Any]:
    """The algorithm that `algorithm.name` names, with its own section."""
    section, algorithm = config.algorithm, ALGORITHMS[config.algorithm.name]
    masks = config.laser.threshold and algorithm.has_vtrace
    relevance = (Relevance(config.laser, distribution),) if masks else ()
    transform = make_transform(section.reward_transform, section.reward_scale)
    return algorithm(getattr(config, section.name), section.discount, transform, distribution, *relevance)
