"""How many trainings fit side by side on this machine, and the cores of each."""

import os

from rich.console import Console

from kartrl.comparison.training import confined
from kartrl.config import Config
from kartrl.errors import UserError
from kartrl.hardware.machine import cores, free_memory

Cores = list[int]  # their numbers


def make_slots(config: Config, wanted: int | None, console: Console) -> list[Cores]:
    """The cores of each training that runs at the same time: equally many, as many trainings as cores and memory hold.

    Where a process cannot be given cores of its own, as on macOS, one training at a time has all.

    Args:
        wanted: number of trainings at a time; None: as many as fit.

    Raises:
        UserError: the configuration cannot be trained here, or more are wanted than there are cores.
    """
    from kartrl.envs.worlds import load_world
    from kartrl.metrics.trackers import check_tracker
    from kartrl.sizing.auto import choose_sizes
    from kartrl.sizing.inspection import inspect_env
    from kartrl.sizing.memory import replay_shape, run_bytes

    if config.cluster.ray != "none":
        raise UserError("cluster.ray: tune trains on this machine alone; start tune on each machine to share a study")
    check_tracker(config)
    config = load_world(config).prepare(console)
    spec = inspect_env(config)
    config, own = load_world(config).fit(spec), os.cpu_count() or 1
    numbers = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(own))
    number = cores()
    if wanted is not None and wanted > number:
        raise UserError(f"--parallel {wanted}: this machine has {number} cores; each training needs one")
    with confined(numbers[:1]):
        sizes = choose_sizes(config, spec)
        shape = replay_shape(config, spec, sizes)
        needed = run_bytes(config, spec, sizes) + (0 if shape is None else shape.size())
    fitting = number if hasattr(os, "sched_getaffinity") else 1
    count = wanted or max(1, min(fitting, free_memory() // needed))
    each = number // count
    return [numbers[each * place : each * (place + 1)] for place in range(count)]
