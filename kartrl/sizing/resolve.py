"""Decides what a run is made with: all that a configuration leaves to `auto`, once, before the run begins."""

import operator
from collections.abc import Callable

from kartrl.acting.sizes import Sizes
from kartrl.algorithms import ALGORITHMS
from kartrl.config import Config
from kartrl.config.chosen import Chosen, chosen, is_auto, unchosen
from kartrl.envs.spec import EnvSpec
from kartrl.envs.worlds import load_world
from kartrl.errors import UserError
from kartrl.hardware.devices import choose_device
from kartrl.sizing.auto import choose_sizes
from kartrl.sizing.compatibility import is_hogwild
from kartrl.sizing.precision import resolve_precision, right_precision

OF_LEARNING = ("algorithm.unroll_length", "system.training_batch_size", "model.precision")
"""What `auto` chose that stays on another machine, where the rest is chosen anew."""
DECIDED = (
    "system.device",
    "system.agents",
    "system.min_agents",
    "system.envs_per_agent",
    "system.predictors",
    "system.trainers",
    "system.prediction_batch_size",
    "system.min_prediction_batch_size",
    "system.training_batch_size",
    "system.max_policy_lag",
    "system.torch_threads",
    "algorithm.unroll_length",
    "model.precision",
)
"""The keys whose `auto` depends on the machine."""


def resolve(config: Config, spec: EnvSpec, say: Callable[[str], None], moved: bool = False) -> tuple[Config, Sizes]:
    """The configuration with what `auto` chooses, and the sizes.

    What it chose before, as in a run's config.cfg or checkpoint, is kept. If that does not work here, it is chosen anew
    but for `OF_LEARNING`, and if need be all of it.

    Args:
        say: gets a line if something is chosen anew, and if bf16 cannot be.
        moved: choose anew what depends on the machine, unless the run is to be reproducible.

    Raises:
        UserError: settings or numbers are incompatible, or need more memory or another device than there is.
    """
    config = load_world(config).fit(spec)
    trials = [config]
    if unchosen(config) != config:
        trials = [config] * (not moved or config.run.reproducible) + [unchosen(config, OF_LEARNING), unchosen(config)]
    for trial in trials:
        try:
            resolved, sizes = _resolve(trial, spec)
            break
        except UserError:
            if trial is trials[-1]:
                raise
    resolved = right_precision(resolved, spec, sizes, say)
    before, now = decided(config), decided(resolved)
    changes = [
        f"{key} {now.get(key, 'auto')} instead of {value}"
        for key, value in before.items()
        if isinstance(value, Chosen) and now.get(key) != value
    ]
    if changes:
        kept = [f"{key} {before[key]}" for key in OF_LEARNING if key in before and now.get(key) == before[key]]
        stays = f"; as before: {', '.join(kept)}" if kept else ""
        say(f"auto chooses anew for this machine: {', '.join(changes)}{stays}")
    return resolved, sizes


def decided(config: Config) -> dict[str, int | str]:
    """The values of `DECIDED` that were given or chosen, by section.key."""
    values = {key: operator.attrgetter(key)(config) for key in DECIDED}
    return {key: value for key, value in values.items() if value != "auto"}


def decisions(config: Config) -> str:
    """What `auto` chose and what was given, in one line."""
    parts: dict[bool, list[str]] = {True: [], False: []}
    for key, value in decided(config).items():
        parts[isinstance(value, Chosen)].append(f"{key.partition('.')[2]} {value}")
    own = f"; given: {', '.join(parts[False])}" if parts[False] else ""
    return f"auto chose {', '.join(parts[True]) or 'nothing'}{own}"


def _resolve(config: Config, spec: EnvSpec) -> tuple[Config, Sizes]:
    device = choose_device(config.system.device).type if is_auto(config.system.device) else config.system.device
    config = resolve_precision(config, spec)
    sizes = choose_sizes(config, spec)
    values: dict[str, int | str] = {
        "system.device": device,
        "system.agents": sizes.agents,
        "system.min_agents": sizes.min_agents,
        "system.envs_per_agent": sizes.groups_per_agent * sizes.group_size,
        "system.predictors": sizes.predictors,
        "system.trainers": sizes.trainers,
        "system.prediction_batch_size": sizes.prediction_groups * sizes.group_size,
        "system.min_prediction_batch_size": sizes.min_groups * sizes.group_size,
        "system.training_batch_size": sizes.training_blocks * sizes.group_size + sizes.replayed,
        "system.max_policy_lag": sizes.max_lag,
        "system.torch_threads": sizes.torch_threads,
        "algorithm.unroll_length": sizes.unroll_length,
    }
    without_effect = set[str]()
    if is_hogwild(config):
        without_effect |= {"predictors", "trainers", "training_batch_size", "max_policy_lag"}
    if config.cluster.ray != "none":  # each node chooses its own
        without_effect |= {"agents", "min_agents", "envs_per_agent", "predictors", "max_policy_lag"}
    if not sizes.predictors or config.run.reproducible or config.cluster.ray != "none":
        without_effect |= {"prediction_batch_size", "min_prediction_batch_size"}
    if ALGORITHMS[config.algorithm.name].synchronous or config.run.reproducible:
        without_effect.add("max_policy_lag")
    for place, value in values.items():
        name, _, key = place.partition(".")
        section = getattr(config, name)
        if getattr(section, key) == "auto" and key not in without_effect:
            config = config.model_copy(update={name: section.model_copy(update={key: chosen(value)})})
    return config, sizes
