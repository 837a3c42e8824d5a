"""The sizes that `auto` chooses, and what does not go together."""

import itertools
import multiprocessing
import time
from types import SimpleNamespace

import pytest
import torch
from commands import assert_clear
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Tuple

from kartrl.acting.sizes import slab_shape
from kartrl.acting.slab import Slab
from kartrl.config import read
from kartrl.envs.observation_spec import plain
from kartrl.envs.spec import ActionSpec, Continuous, EnvSpec
from kartrl.errors import UserError
from kartrl.hardware.devices import learner_device, predictor_device
from kartrl.sizing import auto
from kartrl.sizing.auto import choose_sizes, forward_seconds
from kartrl.sizing.memory import AGENT_BYTES, replay_shape, run_bytes

SLOW = EnvSpec("slow", plain(54, 54, 1), ActionSpec.of(Discrete(6)), 3e-3)
QUICK = EnvSpec("quick", plain(4), ActionSpec.of(Discrete(2)), 1e-5)
SMALL = ("environment.id=X", "model.hidden_size=16", "system.device=cpu")


@pytest.fixture(autouse=True)
def _four_cores(monkeypatch):
    """And memory, of which other tests may have taken much just now."""
    monkeypatch.setattr(auto, "cores", lambda: 4)
    for module in ("acting.sizes", "sizing.auto", "sizing.memory"):
        monkeypatch.setattr(f"kartrl.{module}.free_memory", lambda: 64 * 10**9)


def test_agents_of_one_environment_are_many():
    sizes = choose_sizes(read(overrides=["system.device=cpu", "system.envs_per_agent=1"]), SLOW)
    assert (sizes.agents, sizes.groups_per_agent, sizes.group_size) == (24, 1, 1)
    assert 12 <= sizes.min_groups <= 16, "at least half of the groups, and some for every core to step meanwhile"
    assert (sizes.training_blocks, sizes.trainers, sizes.torch_threads) == (24, 1, 1)


def test_a_network_larger_than_memory_is_refused():
    with pytest.raises(UserError, match=r"\[model\]: .* are free; lower model\.hidden_size") as refused:
        choose_sizes(read(overrides=[*SMALL, "model.hidden_size=65536", "model.core=lstm"]), QUICK)
    assert_clear(refused.value)


@pytest.mark.parametrize(
    ("spec", "algorithm", "size"),
    [(SLOW, "a3c", 2), (QUICK, "a3c", 4), (SLOW, "appo", 2), (QUICK, "appo", 2)],
)
def test_groups_are_stepped_for_about_four_milliseconds(spec, algorithm, size):
    sizes = choose_sizes(read(overrides=[*SMALL, f"algorithm.name={algorithm}"]), spec)
    assert (sizes.agents, sizes.groups_per_agent, sizes.group_size) == (4, 2, size)
    assert sizes.training_blocks == 8, "an unroll of each environment"
    assert sizes.prediction_groups == 2, "those of an agent"
    sizes = choose_sizes(read(overrides=[*SMALL, "system.predictors=1"]), spec)
    assert (sizes.prediction_groups, sizes.group_size) == (8, 2 if spec == SLOW else 4), "those of all"


@pytest.mark.parametrize(
    ("cores", "settings", "envs"),
    [(4, [], 8), (8, [], 8), (16, [], 4), (32, [], 2), (16, ["agents=4"], 8), (16, ["learners=4"], 4)],
)
def test_groups_are_smaller_where_a_gpu_has_many_agents(monkeypatch, cores, settings, envs):
    monkeypatch.setattr(auto, "cores", lambda: cores)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    overrides = ["environment.id=X", "model.hidden_size=16", *(f"system.{item}" for item in settings)]
    sizes = choose_sizes(read(overrides=overrides), QUICK)
    assert sizes.groups_per_agent * sizes.group_size == envs


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
    assert (sizes.groups_per_agent, sizes.group_size, sizes.training_blocks) == (1, 5, 4)


def test_single_core_agent_steps_all_environments_together():
    sizes = choose_sizes(read(overrides=SMALL), QUICK, cpus=1)
    assert (sizes.agents, sizes.groups_per_agent, sizes.group_size, sizes.training_blocks) == (1, 1, 8, 1)
    sizes = choose_sizes(read(overrides=[*SMALL, "system.training_batch_size=4"]), QUICK, cpus=1)
    assert (sizes.groups_per_agent, sizes.group_size, sizes.training_blocks) == (2, 4, 1), "a batch of half of them"


@pytest.mark.parametrize("agents", [2, 8, 32])
@pytest.mark.parametrize(("algorithm", "lag"), [("impala", 4), ("appo", 1)])
def test_batch_grows_with_environments_to_bound_policy_lag(agents, algorithm, lag):
    overrides = [*SMALL, f"system.agents={agents}", "system.envs_per_agent=8", f"algorithm.name={algorithm}"]
    sizes = choose_sizes(read(overrides=overrides), QUICK)
    assert sizes.agents * sizes.groups_per_agent / sizes.training_blocks == lag
    assert sizes.max_lag >= 4 * lag


@pytest.mark.parametrize(
    ("environments", "given", "length"),
    [
        (4, [], 64),
        (8, [], 64),
        (12, [], 42),
        (16, [], 32),
        (32, [], 32),
        (8, ["algorithm.name=ppo"], 32),
        (8, ["model.core=gru"], 32),
        (64, [], 16),
        (128, [], 8),
        (1024, [], 8),
        (96, [], 10),
        (128, ["algorithm.name=impala"], 32),  # makes updates of a quarter of the environments' unrolls
        (128, ["algorithm.name=a2c"], 8),
        (128, ["algorithm.name=a3c", "a3c.hogwild=true"], 32),  # each worker makes its own updates
        (128, ["model.core=gru"], 32),
        (128, ["algorithm.unroll_length=20"], 20),
        (128, ["replay.methods=queue uniform"], 8),
    ],
)
def test_unroll_length_shrinks_with_environments_per_update(environments, given, length):
    overrides = [*SMALL, "system.agents=4", f"system.envs_per_agent={environments // 4}", *given]
    config = read(overrides=overrides)
    sizes = choose_sizes(config, QUICK)
    assert sizes.unroll_length == length
    assert slab_shape(config, QUICK, sizes).unroll_length == length


def test_unrolls_of_all_learners_count_in_an_update():
    overrides = [*SMALL, "system.learners=4", "system.agents=4", "system.envs_per_agent=8"]
    assert choose_sizes(read(overrides=overrides), QUICK).unroll_length == 8


def test_an_update_of_broken_blocks_is_refused():
    with pytest.raises(UserError, match="multiple of 4"):
        choose_sizes(read(overrides=[*SMALL, "system.envs_per_agent=8", "system.training_batch_size=10"]), QUICK)


STEPS = 1e-6, 1.5e-3, 2e-3, 3e-3, 1.0  # seconds
GIVEN = [
    ["algorithm.name=impala", "system.training_batch_size=6"],
    ["system.training_batch_size=1"],
    ["algorithm.name=acer", "system.training_batch_size=10", "replay.methods=uniform prioritised"],
    ["algorithm.name=a3c", "system.training_batch_size=7", "system.predictors=1"],
    ["algorithm.name=impala", "replay.methods=queue uniform", "system.training_batch_size=6"],
    ["replay.methods=queue uniform", "replay.shares=.6 .4"],
    ["replay.methods=queue uniform", "replay.shares=.6 .4", "system.training_batch_size=5"],
    ["replay.methods=queue uniform", "replay.capacities=5", "replay.start=1"],
    ["algorithm.name=acer", "replay.capacities=9", "replay.start=1"],
    ["replay.methods=queue uniform", "system.training_batch_size=8", "system.envs_per_agent=8"],
    ["system.training_batch_size=9", "system.envs_per_agent=3"],
    ["system.training_batch_size=64", "system.envs_per_agent=1"],
    ["system.training_batch_size=30", "system.agents=3"],
    ["algorithm.name=ppo"],
]


@pytest.mark.parametrize("given", GIVEN, ids=" ".join)
@pytest.mark.parametrize("reproducible", [False, True])
def test_no_machine_and_no_timing_makes_a_setting_invalid(given, reproducible, monkeypatch):
    fixed = ["run.reproducible=true", "evaluation.minutes=0"] if reproducible else []
    config = read(overrides=["environment.id=X", "model.hidden_size=16", *given, *fixed])
    monkeypatch.setattr(auto, "forward_seconds", lambda config, spec, batches: dict.fromkeys(batches, 1.0))
    for number, memory, gpu in itertools.product((1, 2, 3, 7, 96), (10**9, 64 * 10**9), (False, True)):
        monkeypatch.setattr(torch.cuda, "is_available", lambda gpu=gpu: gpu)
        monkeypatch.setattr(auto, "cores", lambda number=number: number)
        monkeypatch.setattr(auto, "free_memory", lambda memory=memory: memory)
        for seconds in STEPS:
            sizes = choose_sizes(config, QUICK._replace(step_seconds=seconds))
            batch = sizes.training_blocks * sizes.group_size + sizes.replayed
            if config.system.training_batch_size != "auto":
                assert batch == config.system.training_batch_size
            if reproducible:
                assert sizes.agents * sizes.groups_per_agent % sizes.training_blocks == 0
            mixed = [each.share for each in config.replays if config.algorithm.name != "acer"]
            assert sizes.replayed == batch * sum(mixed)
            assert all((share * batch).denominator == 1 for share in mixed)
            assert sizes.unroll_length <= min((each.capacity for each in config.replays), default=64)


def test_a_batch_makes_groups_smaller_only_as_far_as_it_must():
    for batch, size in [(16, 4), (12, 4), (10, 2), (6, 2), (5, 1)]:
        overrides = [*SMALL, "algorithm.name=impala", f"system.training_batch_size={batch}"]
        sizes = choose_sizes(read(overrides=overrides), QUICK)
        assert (sizes.group_size, sizes.groups_per_agent, sizes.agents) == (size, 2, 4)
        sizes = choose_sizes(read(overrides=overrides), QUICK._replace(step_seconds=2.5e-3))
        assert sizes.group_size == min(size, 2)


def test_agents_are_fewer_where_their_unrolls_fill_the_memory(monkeypatch):
    large = SLOW._replace(observation=plain(1000, 1000, 3))
    monkeypatch.setattr(auto, "cores", lambda: 64)
    for memory in (4 * 10**9, 16 * 10**9):
        for module in ("acting.sizes", "sizing.auto"):
            monkeypatch.setattr(f"kartrl.{module}.free_memory", lambda memory=memory: memory)
        config = read(overrides=[*SMALL, "model.channels=4 4 4", "model.pooling=average"])
        sizes = choose_sizes(config, large)
        assert 1 <= sizes.agents < 20
        assert slab_shape(config, large, sizes).size() < memory


def test_the_ring_holds_an_update_and_the_block_being_filled():
    for batch in (8, 64):
        sizes = choose_sizes(
            read(overrides=[*SMALL, "system.envs_per_agent=2", f"system.training_batch_size={batch}"]), QUICK
        )
        groups = sizes.agents * sizes.groups_per_agent
        assert (sizes.ring - 1) * groups >= sizes.training_blocks


def test_large_batches_are_measured_cheaper(monkeypatch):
    # of the processor: by the clock, what else goes on may cost more than there is to be gained
    monkeypatch.setattr(auto, "time", SimpleNamespace(perf_counter=time.thread_time))
    seconds = forward_seconds(read(), SLOW, [1, 16])
    assert 0 < seconds[16] < seconds[1]


@pytest.mark.parametrize("spec", [SLOW, QUICK])
def test_slab_has_its_stated_size(spec):
    config = read(overrides=[*SMALL, "system.agents=3"])
    sizes = choose_sizes(config, spec)
    shape = slab_shape(config, spec, sizes)
    slab = Slab(multiprocessing.get_context("spawn"), shape)
    size = sum(getattr(slab, name).nbytes for name in shape.layout())
    assert size <= shape.size() == len(slab.memory.view) <= 1.3 * size


@pytest.mark.parametrize(("core", "state_size"), [("lstm", 32), ("none", 0)])
def test_the_slab_has_room_for_decisions_and_states(core, state_size):
    config = read(overrides=[*SMALL, f"model.core={core}"])
    for action, decision_size in [
        (ActionSpec.of(Discrete(6)), 1 + 2 + 6),
        (ActionSpec((Continuous((-1,) * 3, (1,) * 3),)), 3 + 2 + 6),
    ]:
        spec = QUICK._replace(action=action)
        shape = slab_shape(config, spec, choose_sizes(config, spec))
        assert (shape.decision_size, shape.state_size) == (decision_size, state_size)


@pytest.mark.parametrize(
    ("space", "title"),
    [
        (MultiDiscrete([2, 3]), "2 discrete actions (2 x 3)"),
        (MultiBinary(1), "1 binary action"),
        (Tuple((Discrete(2), Box(-1, 1, (1,)))), "2 actions and 1 continuous action"),
    ],
)
def test_kinds_of_actions_that_only_acer_lacks_are_one_line(space, title):
    spec = QUICK._replace(action=ActionSpec.of(space))
    with pytest.raises(UserError) as caught:
        choose_sizes(read(overrides=[*SMALL, "algorithm.name=acer"]), spec)
    assert str(caught.value) == f"[algorithm] name: acer does not learn {title}; use a2c, a3c, appo, impala, ppo"
    for name in ("a2c", "a3c", "appo", "impala", "ppo"):
        choose_sizes(read(overrides=[*SMALL, f"algorithm.name={name}"]), spec)


SYNCHRONOUS = (*SMALL, "algorithm.name=a2c")
REPRODUCIBLE = (*SMALL, "run.reproducible=true", "evaluation.minutes=0")


def test_a_synchronous_update_is_one_unroll_of_every_environment():
    sizes = choose_sizes(read(overrides=[*SYNCHRONOUS, "system.agents=3", "system.envs_per_agent=4"]), QUICK)
    assert (sizes.training_blocks, sizes.group_size) == (3 * 2, 2)
    assert (sizes.ring, sizes.trainers) == (1, 1), "agents wait for the update"
    assert sizes.torch_threads == 4, "which may have their cores meanwhile"


@pytest.mark.parametrize(
    ("settings", "threads"),
    [
        (SMALL, (1, 4)),
        ((*SMALL, "system.torch_threads=2"), (2, 2)),
        (SYNCHRONOUS, (4, 4)),
        (REPRODUCIBLE, (1, 1)),
        ((*SMALL, "system.learners=2"), (1, 1)),
        ((*SMALL, "algorithm.name=a3c", "a3c.hogwild=true"), (1, 1)),
    ],
)
def test_more_threads_are_for_single_asynchronous_learners(settings, threads):
    sizes = choose_sizes(read(overrides=settings), QUICK)
    assert (sizes.torch_threads, sizes.most_threads) == threads


@pytest.mark.parametrize("spec", [SLOW, QUICK])
def test_reproducible_sizes_do_not_depend_on_the_clock(spec, monkeypatch):
    def measure(*_):
        raise AssertionError("measured")

    monkeypatch.setattr(auto, "forward_seconds", measure)
    for name in ("impala", "a2c"):
        config = read(overrides=[*REPRODUCIBLE, f"algorithm.name={name}"])
        sizes = choose_sizes(config, spec)
        assert sizes == choose_sizes(config, spec._replace(step_seconds=1.0))
        assert (sizes.predictors, sizes.trainers) == (1, 1)
        assert sizes.agents * sizes.groups_per_agent % sizes.training_blocks == 0


@pytest.mark.parametrize("number", [3, 7, 11, 13])
def test_reproducible_batches_are_whole_for_any_core_count(number, monkeypatch):
    monkeypatch.setattr(auto, "cores", lambda: number)
    for name in ("impala", "acer"):
        config = read(overrides=["run.reproducible=true", "evaluation.minutes=0", f"algorithm.name={name}"])
        sizes = choose_sizes(config, QUICK)
        assert sizes.agents * sizes.groups_per_agent % sizes.training_blocks == 0


def test_reproducible_predictions_are_of_all_agents_at_once():
    sizes = choose_sizes(read(overrides=REPRODUCIBLE), QUICK)
    assert sizes.prediction_groups >= sizes.agents > 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ([*SYNCHRONOUS, "system.training_batch_size=8"], "training_batch_size: algorithm.name = a2c takes one unroll"),
        (["algorithm.name=ppo", "ppo.shuffle=steps", "model.core=gru"], r"\[ppo\] shuffle: .* set model.core=none"),
        (["appo.shuffle=steps", "replay.methods=queue uniform"], r"\[appo\] shuffle: .* set replay.methods=none"),
        ([*SYNCHRONOUS, "system.trainers=2"], r"trainers: algorithm.name = a2c needs one trainer \(got 2\)"),
        ([*REPRODUCIBLE, "system.trainers=2"], r"trainers: run.reproducible needs one trainer \(got 2\)"),
        ([*REPRODUCIBLE, "system.predictors=2"], r"predictors: run.reproducible needs one predictor \(got 2\)"),
        (
            [*REPRODUCIBLE, "system.prediction_batch_size=8"],
            "prediction_batch_size: run.reproducible predicts for fixed",
        ),
        ([*REPRODUCIBLE, "system.min_prediction_batch_size=8"], "min_prediction_batch_size: run.reproducible"),
        ([*REPRODUCIBLE, "system.max_policy_lag=8"], "max_policy_lag: with run.reproducible"),
        ([*SYNCHRONOUS, "system.max_policy_lag=8"], "max_policy_lag: with algorithm.name = a2c"),
        ([*REPRODUCIBLE, "run.minutes=1"], "set run.minutes=0"),
        ([*REPRODUCIBLE, "evaluation.minutes=1"], "set evaluation.minutes=0"),
        (
            [*REPRODUCIBLE, "system.agents=3", "system.envs_per_agent=2", "system.training_batch_size=4"],
            r"all 6 environments must make up a whole number of batches \(got 4\)",
        ),
    ],
)
def test_numbers_that_an_order_of_updates_rules_out_are_refused(settings, message):
    with pytest.raises(UserError, match=message):
        choose_sizes(read(overrides=settings), QUICK)


@pytest.mark.parametrize(
    ("settings", "predictors"),
    [
        ([], 0),
        (["system.envs_per_agent=2"], 0),
        (["system.envs_per_agent=1"], 1),
        (["system.predictors=2"], 2),
        (["algorithm.name=ppo"], 0),
        (["run.reproducible=true", "evaluation.minutes=0"], 1),
        (["system.prediction_batch_size=16"], 1),
        (["system.min_prediction_batch_size=4"], 1),
        (["system.predictor_devices=cpu"], 1),
    ],
)
def test_cpu_agents_predict_alone_unless_predictors_are_set(settings, predictors):
    sizes = choose_sizes(read(overrides=["system.device=cpu", *settings]), QUICK)
    assert sizes.predictors == predictors
    if predictors == 0:
        assert (sizes.prediction_groups, sizes.min_groups) == (sizes.groups_per_agent,) * 2
    assert choose_sizes(read(overrides=["system.device=cpu"]), QUICK, cpus=2).predictors == 1, "on a node"


def test_agents_use_predictor_if_memory_lacks_own_networks(monkeypatch):
    config = read(overrides=["system.device=cpu", "system.agents=8"])
    monkeypatch.setattr(auto, "free_memory", lambda: int(8 * 2.1 * AGENT_BYTES))
    assert choose_sizes(config, QUICK).predictors == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["system.min_prediction_batch_size=4"], "predictors = 0: system.min_prediction_batch_size needs a predictor"),
        (["system.predictor_devices=cpu"], "predictors = 0: system.predictor_devices needs a predictor"),
        (["run.reproducible=true", "evaluation.minutes=0"], r"predictors: run.reproducible needs one .*\(got 0\)"),
    ],
)
def test_settings_of_predictors_are_refused_without_one(settings, message):
    with pytest.raises(UserError, match=message):
        choose_sizes(read(overrides=["system.device=cpu", "system.predictors=0", *settings]), QUICK)
    with pytest.raises(UserError, match="predictors = 0: only with a learner on the CPU"):
        choose_sizes(read(overrides=["system.device=cpu", "system.predictors=0"]), QUICK, cpus=2)


def test_unrolls_that_no_memory_holds_are_refused():
    config = read(overrides=["system.agents=1024", "system.envs_per_agent=65536", "algorithm.unroll_length=10000"])
    with pytest.raises(UserError, match=r"of 1024 agents .* would take .* GB of memory"):
        choose_sizes(config, SLOW)


def test_learners_divide_the_cores():
    sizes = choose_sizes(read(overrides=[*SMALL, "system.learners=2"]), QUICK)
    assert (sizes.agents, sizes.groups_per_agent, sizes.group_size, sizes.training_blocks) == (2, 2, 2, 4)
    assert choose_sizes(read(overrides=[*SMALL, "system.learners=16"]), QUICK).agents == 1


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["algorithm.name=acer"], "learners = 2: not with replays, as each would have its own"),
        (["run.reproducible=true", "evaluation.minutes=0"], "learners = 2: not with run.reproducible"),
        (["algorithm.name=a3c", "a3c.hogwild=true"], "learners: not used by Hogwild workers"),
        (["system.devices=cpu cuda:99"], "device cuda:99: not available"),
        (["system.predictor_devices=cpu toaster"], "device toaster: not available"),
    ],
)
def test_settings_against_several_learners_are_one_line(overrides, message):
    with pytest.raises(UserError, match=message) as error:
        choose_sizes(read(overrides=[*SMALL, "system.learners=2", *overrides]), QUICK)
    assert "\n" not in str(error.value)


def test_learners_alternate_gpus_and_predictors_take_others(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)

    def devices(*overrides):
        system = read(overrides=[f"system.{item}" for item in overrides]).system
        return [[str(of(system, rank)) for rank in range(system.learners)] for of in (learner_device, predictor_device)]

    assert devices() == [["cuda"], ["cuda"]]
    assert devices("learners=3") == [["cuda:0", "cuda:1", "cuda:2"]] * 2
    assert devices("devices=cuda:0", "predictor_devices=cuda:1") == [["cuda:0"], ["cuda:1"]]
    assert devices("learners=2", "devices=cuda:0 cuda:1", "predictor_devices=cuda:2 cuda:3") == [
        ["cuda:0", "cuda:1"],
        ["cuda:2", "cuda:3"],
    ]
    with pytest.raises(UserError, match=r"each needs its own GPU, got cuda:1, cuda:1"):
        choose_sizes(read(overrides=[*SMALL, "system.learners=2", "system.devices=cuda:1"]), QUICK)
    with pytest.raises(UserError, match=r"all must be on the CPU, or each on a GPU, not on cuda:0, cpu"):
        choose_sizes(read(overrides=[*SMALL, "system.learners=2", "system.devices=cuda:0 cpu"]), QUICK)


HOGWILD = (*SMALL, "algorithm.name=a3c", "a3c.hogwild=true")


def test_hogwild_workers_have_one_environment_each():
    sizes = choose_sizes(read(overrides=HOGWILD), QUICK)
    assert (sizes.agents, sizes.min_agents, sizes.group_size, sizes.torch_threads) == (4, 2, 1, 1)
    given = choose_sizes(read(overrides=[*HOGWILD, "system.agents=18", "system.envs_per_agent=3"]), QUICK)
    assert (given.agents, given.group_size) == (18, 3)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["run.reproducible=true"], "hogwild: lock-free updates have no fixed order"),
        (["system.trainers=2"], "trainers: not used by Hogwild workers"),
        (["system.training_batch_size=8"], "training_batch_size: not used by Hogwild workers"),
        (["optimizer.kl_target=0.01"], "kl_target: Hogwild workers have no joint updates"),
        (["a3c.devices=cpu cuda:99"], "device cuda:99: not available"),
        (["a3c.devices=toaster"], "device toaster: not available"),
        (["replay.methods=queue uniform"], "methods: a3c learns from fresh unrolls only"),
        (["laser.threshold=0.3"], "threshold: a3c has no V-trace to mask"),
        (["clear.policy_cost=0.01"], "clones replayed steps, but nothing is replayed"),
    ],
)
def test_settings_against_hogwild_are_one_line(overrides, message):
    with pytest.raises(UserError, match=message) as error:
        choose_sizes(read(overrides=[*HOGWILD, *overrides]), QUICK)
    assert "\n" not in str(error.value)


ACER = ("algorithm.name=acer", *SMALL)


def test_replayed_updates_are_no_policy_lag_that_drops_unrolls():
    without = choose_sizes(read(overrides=[*ACER, "acer.replay_ratio=0"]), QUICK)
    replaying = choose_sizes(read(overrides=[*ACER, "acer.replay_ratio=4"]), QUICK)
    assert replaying.max_lag == 5 * without.max_lag
    assert replaying.training_blocks == without.training_blocks == 2, "a quarter of the environments"


def test_replay_that_does_not_fit_is_refused_with_its_need(monkeypatch):
    monkeypatch.setattr("kartrl.sizing.memory.free_memory", lambda: 4 * 10**9)
    choose_sizes(read(overrides=[*ACER, "replay.capacities=500000"]), SLOW)
    with pytest.raises(
        UserError,
        match=r"^\[replay\] capacities: 1,000,000 steps would take 3\.\d GB .* 4\.0 GB are free, of which .* 1\.\d GB;",
    ):
        choose_sizes(read(overrides=[*ACER, "replay.capacities=1000000"]), SLOW)
    choose_sizes(read(overrides=[*ACER, "replay.capacities=1000000", "acer.replay_ratio=0"]), SLOW)


def test_compressed_replay_may_hold_more_steps_than_fit(monkeypatch):
    monkeypatch.setattr("kartrl.sizing.memory.free_memory", lambda: 4 * 10**9)
    bounded = [*ACER, "replay.capacities=500000", "replay.gigabytes=1"]
    with pytest.raises(UserError, match=r"would take 1\.\d GB of memory, and replay.gigabytes is 1; lower it"):
        choose_sizes(read(overrides=bounded), SLOW)
    config = read(overrides=[*bounded, "replay.compression=lz4"])
    assert replay_shape(config, SLOW, choose_sizes(config, SLOW)).size() == 10**9
    elite = [*bounded, "replay.compression=lz4", "replay.methods=elite", "model.hidden_size=512"]
    with pytest.raises(
        UserError, match=r"the features of 500,000 steps would take at least 1\.0 GB .* replay.gigabytes is 1; low"
    ):
        choose_sizes(read(overrides=elite), SLOW)


def test_compressed_replay_leaves_memory_and_room_for_an_unroll(monkeypatch):
    monkeypatch.setattr("kartrl.sizing.memory.free_memory", lambda: 4 * 10**9)
    compressed = [*ACER, "replay.compression=lz4"]
    config = read(overrides=[*compressed, "replay.capacities=5000000"])
    sizes = choose_sizes(config, SLOW)
    assert replay_shape(config, SLOW, sizes).size() == 4 * 10**9 - run_bytes(config, SLOW, sizes)
    with pytest.raises(UserError, match=r"capacities: 1,000,000,000 steps would take at least \d\d\.\d GB of memory"):
        choose_sizes(read(overrides=[*compressed, "replay.capacities=1000000000"]), SLOW)
    tiny = [*compressed, "replay.capacities=1000", "replay.gigabytes=0.0001"]
    with pytest.raises(
        UserError, match=r"1,000 steps would take at least 0\.\d MB .* replay.gigabytes is 0\.0001; low"
    ):
        choose_sizes(read(overrides=tiny), SLOW)
    monkeypatch.setattr("kartrl.sizing.memory.free_memory", lambda: 10**7)  # less is free once its processes run
    shape = replay_shape(config, SLOW, sizes, started=True)
    assert shape.limit == shape.fixed_bytes + shape.unroll_bytes


def test_a_replay_must_hold_an_unroll():
    with pytest.raises(UserError, match=r"at least algorithm.unroll_length, which is 32 \(got 31\)"):
        choose_sizes(read(overrides=[*ACER, "replay.capacities=31", "model.core=lstm"]), QUICK)


def test_stacked_observations_are_kept_frame_by_frame():
    stacked = SLOW._replace(observation=plain(84, 84, 4))
    config = read(overrides=[*ACER, "environment.frame_stack=4", "replay.capacities=100000"])
    one = replay_shape(config, stacked, choose_sizes(config, stacked))
    assert one.stack == 4
    assert one.size() < 1.1 * 100_000 * 84 * 84
    assert replay_shape(config, QUICK, choose_sizes(config, QUICK)).stack == 1


@pytest.mark.parametrize(
    ("overrides", "batch", "fresh"),
    [
        (["replay.methods=queue uniform"], 16, 8),
        (["replay.methods=queue uniform", "replay.shares=.25,.75"], 32, 8),
        (["replay.methods=uniform queue prioritised", "replay.shares=.7 .2 .1"], 40, 8),
        (["replay.methods=uniform queue prioritised", "replay.shares=.333 .333 .334"], 24, 8),
        (["replay.methods=queue uniform", "system.training_batch_size=32"], 32, 16),
    ],
)
def test_shares_give_whole_unrolls_beside_whole_fresh_blocks(overrides, batch, fresh):
    sizes = choose_sizes(read(overrides=["algorithm.name=impala", *SMALL, *overrides]), QUICK)
    assert sizes.training_blocks * sizes.group_size == fresh
    assert sizes.replayed == batch - fresh


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["replay.methods=queue uniform", "system.training_batch_size=13"], r"must be a multiple of 2 \(got 13\)"),
        (
            ["replay.methods=queue uniform", "system.training_batch_size=12", "system.envs_per_agent=8"],
            r"must be a multiple of 8 \(got 12\)",
        ),
        (["replay.methods=uniform"], r"^\[replay\] methods: impala needs fresh unrolls .*queue"),
        (
            ["algorithm.name=acer", "replay.methods=queue uniform"],
            r"acer always learns from fresh batches .*leave out queue",
        ),
        *(
            ([f"algorithm.name={name}", "replay.methods=queue uniform"], "for replays use acer, appo, impala$")
            for name in ("a2c", "a3c", "ppo")
        ),
        (
            ["replay.methods=queue uniform", "clear.value_cost=0.005", "model.normalise_returns=true"],
            r"^\[clear\] value_cost: with model.normalise_returns, values of then and now",
        ),
        (["clear.policy_cost=0.01"], r"^\[clear\] clones replayed steps, but nothing is replayed"),
        (
            ["algorithm.name=acer", "laser.threshold=0.3"],
            r"^\[laser\] threshold: acer has no V-trace to mask; use .*appo, impala",
        ),
        (["replay.methods=queue uniform", "replay.capacities=31", "model.core=gru"], "which is 32"),
    ],
)
def test_replays_that_do_not_go_with_the_rest_are_one_line(overrides, message):
    with pytest.raises(UserError, match=message) as error:
        choose_sizes(read(overrides=["algorithm.name=impala", *SMALL, *overrides]), QUICK)
    assert "\n" not in str(error.value)


def test_no_replay_is_nothing(monkeypatch):
    monkeypatch.setattr("kartrl.sizing.memory.free_memory", lambda: 10**9)
    for name in ("impala", "appo", "ppo"):
        config = read(overrides=[f"algorithm.name={name}", *SMALL, "replay.capacities=1000000000"])
        sizes = choose_sizes(config, SLOW)
        assert replay_shape(config, SLOW, sizes) is None
        assert sizes.replayed == 0
