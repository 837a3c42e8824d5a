"""The algorithms, one file per paper, by their names in the table of their sections."""

import importlib
from typing import Any

from torch import Tensor

from kartrl.algorithms.algorithm import Algorithm
from kartrl.algorithms.laser import Relevance
from kartrl.algorithms.ppo import needs_unrolls
from kartrl.algorithms.rewards import make_transform
from kartrl.config import Config
from kartrl.config.algorithms import ALGORITHMS as SECTIONS
from kartrl.models import Distribution

ALGORITHMS: dict[str, type[Algorithm[Any]]] = {
    name: getattr(importlib.import_module(f"{__name__}.{name}"), section.__name__) for name, section in SECTIONS.items()
}


def heads_of(config: Config) -> frozenset[str]:
    """The network heads that the algorithm needs; see `ActorCritic`."""
    return ALGORITHMS[config.algorithm.name].heads


def state_of(config: Config, network: dict[str, Tensor]) -> dict[str, Tensor]:
    """The names, shapes and dtypes of the algorithm's `state_dict` after an update, given the network's."""
    lags = _has_mask(config) and config.laser.form == "paper"
    return network if lags else ALGORITHMS[config.algorithm.name].state_of(network)


def _has_mask(config: Config) -> bool:
    """Whether LASER's mask is on and the algorithm supports it."""
    return config.laser.threshold > 0 and ALGORITHMS[config.algorithm.name].has_vtrace


def make_algorithm(config: Config, distribution: Distribution) -> Algorithm[Any]:
    """Make the algorithm called `algorithm.name`, with its own section."""
    section, algorithm = config.algorithm, ALGORITHMS[config.algorithm.name]
    relevance = (Relevance(config.laser, distribution),) if _has_mask(config) else ()
    transform = make_transform(section.reward_transform, section.reward_scale)
    own = config.own
    if getattr(own, "shuffle", None) == "auto":
        own = own.model_copy(update={"shuffle": "unrolls" if needs_unrolls(config) else "steps"})
    return algorithm(own, section.discount, transform, distribution, *relevance)
