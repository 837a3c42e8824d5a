"""Evaluation of a policy."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kartrl.driving.driver import open_driver
from kartrl.driving.evaluation import Evaluation
from kartrl.envs.episode import Result
from kartrl.envs.seeds import keep_generators, restore_generators
from kartrl.errors import UserError
from kartrl.library.configuration import as_names, settings_of
from kartrl.library.policy import Policy
from kartrl.run.folders import find_checkpoint


def evaluate(
    policy: Policy | str | Path,
    *,
    episodes: int = 5,
    levels: str | Sequence[str] = (),
    greedy: bool = True,
    overrides: Mapping[str, Any] | None = None,
    max_steps: int | None = None,
    device: str = "cpu",
) -> list[Result]:
    """Run episodes of a policy, as `kartrl evaluate` does: on each level, with the seeds from 0 on, on all cores.

    Args:
        policy: from `load_policy`, or what it takes.
        episodes: for each level, at least 1.
        levels: one or several, as on the command line; if empty, those that the policy was trained or tested on.
        greedy: take the most likely actions; else sample.
        overrides: settings of the environment that differ from training, "section.key" -> value.
        max_steps: agent steps after which an episode is truncated; None: the run's `evaluation.max_steps`.
        device: as for `load_policy`.

    Returns:
        The episodes on each level; one `Result` if there are no levels.

    Raises:
        UserError: bad input, as for `load_policy` and `make_env`.
    """
    for name, number in (("episodes", episodes), ("max_steps", 1 if max_steps is None else max_steps)):
        if not isinstance(number, int | np.integer) or number < 1:
            raise UserError(f"evaluate: {name} = {str(number)[:40]}: must be a whole number, at least 1")
    path = policy.path if isinstance(policy, Policy) else find_checkpoint(str(policy), "evaluate")
    threads, generators = torch.get_num_threads(), keep_generators()
    try:
        with open_driver(
            path, as_names(levels), device, overrides=settings_of(overrides), max_steps=max_steps
        ) as driver:
            return Evaluation(driver, episodes).run(greedy=greedy)
    finally:
        torch.set_num_threads(threads)
        restore_generators(generators)
