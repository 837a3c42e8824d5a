"""Memory use does not grow with the length of a run."""

from collections import defaultdict

import psutil
import pytest
from commands import ENDLESS, Training, steps, wait_for

# at the environment's own pace, with small updates of one optimizer step each
SMALL = ["environment.id=CartPole-v1", "algorithm.unroll_length=2", "system.envs_per_agent=2", "appo.epochs=1"]
STEPS = 2 * 4  # of an update: the unroll's, and of how many environments
SPARE = 6_000_000  # bytes that a role's memory may grow, for what is only made once


def own_memory(training: Training) -> dict[str, int]:
    """Role -> bytes of its processes that are no file's: of those, the share depends on who else has them mapped."""
    memory: dict[str, int] = defaultdict(int)
    for process in training.family():
        title, used = process.cmdline()[0], process.memory_info()
        role = title.removeprefix("kartrl ").partition("-")[0] if title.startswith("kartrl ") else "server"
        memory[role] += used.rss - used.shared
    return memory


@pytest.mark.timeout(700)
@pytest.mark.skipif(not psutil.LINUX, reason="other systems do not tell files' memory apart")
@pytest.mark.parametrize(("begun", "long"), [(300, 1200), pytest.param(1000, 4000, marks=pytest.mark.slow)])
def test_memory_is_constant_over_thousands_of_updates(tmp_path, begun, long):
    """Between so many updates nothing may be added."""
    folder = tmp_path / "logs" / "run"
    small = [part for setting in SMALL for part in ("--set", setting)]
    with Training(tmp_path, *ENDLESS, *small) as training:
        wait_for(lambda: steps(folder) > begun * STEPS, 200, "the first updates")
        before = own_memory(training)
        wait_for(lambda: steps(folder) > long * STEPS, 400, "thousands of updates")
        after = own_memory(training)
    assert before.keys() == after.keys() == {"server", "agent", "logger"}
    for role, used in after.items():
        assert used - before[role] < SPARE, (role, before, after)
