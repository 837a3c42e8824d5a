"""Refuses incompatible parts of a configuration: each function raises a `UserError` that says what to change."""

from typing import cast

from kartrl.algorithms import ALGORITHMS
from kartrl.algorithms.ppo import needs_unrolls
from kartrl.config import Config, System
from kartrl.config.algorithms import A3C, PPO
from kartrl.envs.spec import ActionSpec, EnvSpec
from kartrl.errors import UserError
from kartrl.hardware.devices import choose_device, learner_device, predictor_device

_OF_CENTRAL = (  # keys of [system] that do not apply to Hogwild workers
    "predictors",
    "trainers",
    "prediction_batch_size",
    "min_prediction_batch_size",
    "training_batch_size",
    "max_policy_lag",
    "learners",
    "devices",
    "predictor_devices",
)


def is_hogwild(config: Config) -> bool:
    """Whether workers act and learn by themselves, instead of agents, predictors and trainers together."""
    return isinstance(config.own, A3C) and config.own.hogwild


def check_hogwild(config: Config) -> None:
    """Refuse settings that Hogwild workers do not support, and unavailable devices."""
    system, section = config.system, cast(A3C, config.own)
    if config.run.reproducible:
        raise UserError("[a3c] hogwild: lock-free updates have no fixed order; set run.reproducible=false")
    for key in _OF_CENTRAL:
        if getattr(system, key) != System.model_fields[key].default:
            raise UserError(f"[system] {key}: not used by Hogwild workers; leave it at its default")
    if config.optimizer.kl_target:
        raise UserError("[optimizer] kl_target: Hogwild workers have no joint updates; set it to 0")
    for device in section.devices:
        choose_device(system.device if device == "auto" else device)


def check_updates(config: Config) -> None:
    """Refuse settings that a fixed order of updates rules out."""
    system, synchronous = config.system, ALGORITHMS[config.algorithm.name].synchronous
    reason = f"algorithm.name = {config.algorithm.name}" if synchronous else "run.reproducible"
    if synchronous and system.training_batch_size != "auto":
        raise UserError(
            f"[system] training_batch_size: {reason} takes one unroll of every environment; leave it at auto, "
            "and choose algorithm.unroll_length, system.agents and system.envs_per_agent"
        )
    if synchronous or config.run.reproducible:
        if system.trainers not in ("auto", 1):
            raise UserError(f"[system] trainers: {reason} needs one trainer (got {system.trainers})")
        if system.max_policy_lag != "auto":
            raise UserError(f"[system] max_policy_lag: with {reason} all weights are the newest; leave it at auto")
    if config.run.reproducible:
        if system.predictors not in ("auto", 1):
            raise UserError(f"[system] predictors: run.reproducible needs one predictor (got {system.predictors})")
        for key in ("prediction_batch_size", "min_prediction_batch_size"):
            if getattr(system, key) != "auto":
                raise UserError(f"[system] {key}: run.reproducible predicts for fixed batches; leave it at auto")
        if config.run.minutes:
            raise UserError("[run] minutes: run.reproducible allows no limit of time; set run.minutes=0")
        if config.evaluation.minutes:
            raise UserError(
                "[evaluation] minutes: evaluation at fixed times is not reproducible; set evaluation.minutes=0, "
                "and run `kartrl evaluate` afterwards"
            )


def check_envs(config: Config, spec: EnvSpec) -> None:
    """Refuse more environments per agent than a process can have."""
    wanted, most = config.system.envs_per_agent, spec.most_envs
    if wanted != "auto" and 0 < most < wanted:
        raise UserError(
            f"[system] envs_per_agent: a process can have {most} at most (got {wanted}): {spec.limit}; set it to auto"
        )


def check_own_network(config: Config, on_cpu: bool) -> None:
    """Refuse settings that agents which run the network themselves do not support.

    Args:
        on_cpu: whether the learner and they are on the CPUs of one machine.
    """
    if not on_cpu:
        raise UserError("[system] predictors = 0: only with a learner on the CPU, and not on nodes; use auto, or 1")
    if (key := config.needs_predictor) is not None:
        raise UserError(f"[system] predictors = 0: {key} needs a predictor; use auto, or 1")


def check_actions(config: Config, action: ActionSpec) -> None:
    """Refuse actions that the algorithm cannot learn."""
    name = config.algorithm.name
    if not ALGORITHMS[name].accepts(action):
        others = ", ".join(sorted(other for other, algorithm in ALGORITHMS.items() if algorithm.accepts(action)))
        masks = " with masks (environment.action_masks)" if action.masked else ""
        raise UserError(f"[algorithm] name: {name} does not learn {action.title}{masks}; use {others}")


def check_shuffle(config: Config) -> None:
    """Refuse minibatches of single steps where whole unrolls are needed."""
    name = config.algorithm.name
    if isinstance(config.own, PPO) and config.own.shuffle == "steps" and (key := needs_unrolls(config)):
        raise UserError(
            f"[{name}] shuffle: single steps have no memory, and no place in a replay; "
            f"set {key}=none, or {name}.shuffle=auto"
        )


def check_learners(config: Config) -> None:
    """Refuse settings that several learners do not support, and unavailable devices."""
    system = config.system
    devices = [learner_device(system, rank) for rank in range(system.learners)]
    for rank in range(system.learners):
        predictor_device(system, rank)
    if system.learners == 1:
        return
    several = f"[system] learners = {system.learners}:"
    if config.replays:
        raise UserError(f"{several} not with replays, as each would have its own; set replay.methods to none")
    if config.run.reproducible:
        raise UserError(f"{several} not with run.reproducible; set it to 1")
    if len({device.type for device in devices}) > 1 or devices[0].type not in ("cpu", "cuda"):
        raise UserError(f"{several} all must be on the CPU, or each on a GPU, not on {', '.join(map(str, devices))}")
    if devices[0].type == "cuda" and len(set(devices)) < len(devices):
        raise UserError(f"{several} each needs its own GPU, got {', '.join(map(str, devices))}")


def check_replays(config: Config) -> None:
    """Refuse replays that the algorithm cannot learn from."""
    name, methods = config.algorithm.name, config.replay.methods
    if config.laser.threshold and not ALGORITHMS[name].has_vtrace:
        others = ", ".join(sorted(other for other, algorithm in ALGORITHMS.items() if algorithm.has_vtrace))
        raise UserError(f"[laser] threshold: {name} has no V-trace to mask; use {others}")
    if config.clear.clones and not config.replays:
        raise UserError("[clear] clones replayed steps, but nothing is replayed; set replay.methods, or set it to 0")
    if config.clear.value_cost and config.model.normalise_returns:
        raise UserError(
            "[clear] value_cost: with model.normalise_returns, values of then and now are in different units; "
            "set one of the two to 0 or false"
        )
    if methods in (("auto",), ("none",)):
        return
    if not ALGORITHMS[name].replays:
        others = ", ".join(sorted(other for other, algorithm in ALGORITHMS.items() if algorithm.replays))
        raise UserError(f"[replay] methods: {name} learns from fresh unrolls only; for replays use {others}")
    if config.own.alternates and "queue" in methods:
        raise UserError(f"[replay] methods: {name} always learns from fresh batches too; leave out queue")
    if not config.own.alternates and "queue" not in methods:
        raise UserError(f"[replay] methods: {name} needs fresh unrolls in each batch; name queue too")
