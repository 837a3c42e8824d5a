"""The sizes that `auto` chooses, and what does not go together."""

import multiprocessing

import numpy as np
import pytest

from kartrl.config import read
from kartrl.envs.spec import ActionSpec, EnvSpec
from kartrl.errors import UserError
from kartrl.runtime import sizes as tuning
from kartrl.runtime.sizes import choose_sizes, forward_seconds, slab_bytes
from kartrl.runtime.slab import Slots

SLOW = EnvSpec("slow", (54, 54, 1), "uint8", ActionSpec("discrete", 6), 3e-3)
QUICK = EnvSpec("quick", (4,), "float32", ActionSpec("discrete", 2), 1e-5)
SMALL = ("environment.id=X", "model.hidden_size=16", "system.device=cpu")


@pytest.fixture(autouse=True)
def _four_cores(monkeypatch):
    monkeypatch.setattr(tuning, "cores", lambda: 4)


def test_agents_of_one_environment_are_many():
    sizes = choose_sizes(read(overrides=["system.device=cpu", "system.envs_per_agent=1"]), SLOW)
    assert (sizes.agents, sizes.groups_per_agent, sizes.group_size) == (24, 1, 1)
    assert 12 <= sizes.min_groups <= 16, "at least half of the groups, and some for every core to step meanwhile"
    assert (sizes.training_blocks, sizes.trainers, sizes.torch_threads) == (8, 1, 1)


@pytest.mark.parametrize(("spec", "size"), [(SLOW, 2), (QUICK, 8)])
def test_groups_are_stepped_for_about_four_milliseconds(spec, size):
    sizes = choose_sizes(read(overrides=SMALL), spec)
    assert (sizes.agents, sizes.groups_per_agent, sizes.group_size) == (4, 2, size)
    assert sizes.training_blocks * size == 8
    assert sizes.prediction_groups == 8


def test_numbers_given_are_kept():
    given = [
        "agents=3",
        "envs_per_agent=6",
        "training_batch_size=12",
        "prediction_batch_size=9",
        "min_prediction_batch_size=6",
        "trainers=2",
    ]
    sizes = choose_sizes(read(overrides=[*SMALL, *(f"system.{item}" for item in given)]), QUICK)
    assert (sizes.agents, sizes.groups_per_agent, sizes.group_size) == (3, 2, 3)
    assert (sizes.training_blocks, sizes.prediction_groups, sizes.min_groups, sizes.trainers) == (4, 3, 2, 2)


def test_an_odd_number_of_environments_makes_one_group():
    sizes = choose_sizes(read(overrides=[*SMALL, "system.envs_per_agent=5"]), QUICK)
    assert (sizes.groups_per_agent, sizes.group_size, sizes.training_blocks * 5) == (1, 5, 10)


def test_an_update_of_broken_blocks_is_refused():
    with pytest.raises(UserError, match="multiple of 4"):
        choose_sizes(read(overrides=[*SMALL, "system.envs_per_agent=8", "system.training_batch_size=10"]), QUICK)


def test_the_ring_holds_an_update_and_the_block_being_filled():
    for batch in (8, 64):
        sizes = choose_sizes(
            read(overrides=[*SMALL, "system.envs_per_agent=2", f"system.training_batch_size={batch}"]), QUICK
        )
        groups = sizes.agents * sizes.groups_per_agent
        assert (sizes.ring - 1) * groups >= sizes.training_blocks


def test_large_batches_are_measured_cheaper():
    seconds = forward_seconds(read(), SLOW, [1, 16])
    assert 0 < seconds[16] < seconds[1]


@pytest.mark.parametrize("spec", [SLOW, QUICK])
def test_the_slab_is_as_large_as_it_says(spec):
    config = read(overrides=[*SMALL, "system.agents=3"])
    sizes = choose_sizes(config, spec)
    numbers = (sizes.agents, sizes.groups_per_agent, sizes.group_size, sizes.ring, config.impala.unroll_length)
    slots = Slots(multiprocessing.get_context("spawn"), *numbers, spec.observation_shape, spec.observation_dtype)
    size = sum(value.nbytes for value in vars(slots).values() if isinstance(value, np.ndarray))
    assert size <= slab_bytes(config, spec, sizes) <= 1.3 * size
