"""What `auto` chose: written down, kept where it works, and chosen anew, with a line, where it does not."""

import pytest
from gymnasium.spaces import Discrete

from kartrl.config import dump, read, settings
from kartrl.config.chosen import Chosen, unchosen
from kartrl.envs.observation_spec import plain
from kartrl.envs.spec import ActionSpec, EnvSpec
from kartrl.errors import UserError
from kartrl.sizing import auto
from kartrl.sizing.resolve import decided, decisions, resolve

SPEC = EnvSpec("quick", plain(4), ActionSpec.of(Discrete(2)), 1e-5)
BASE = ("environment.id=X", "model.hidden_size=16", "system.device=cpu")
KINDS = (
    (),
    ("algorithm.name=ppo",),
    ("algorithm.name=acer", "replay.capacities=4000"),
    ("algorithm.name=impala", "replay.methods=queue uniform", "replay.capacities=4000"),
    ("algorithm.name=a3c", "a3c.hogwild=true"),
    ("algorithm.name=ppo", "run.reproducible=true", "evaluation.minutes=0"),
    ("system.predictors=1",),
    ("model.core=lstm",),
)


@pytest.fixture
def on(monkeypatch):
    """Go on with this many cores, and enough memory."""

    def go(cores):
        monkeypatch.setattr(auto, "cores", lambda: cores)
        for module in ("acting.sizes", "sizing.auto", "sizing.memory"):
            monkeypatch.setattr(f"kartrl.{module}.free_memory", lambda: 64 * 10**9)

    return go


def resolved(overrides, moved=False, base=""):
    lines = []
    config, sizes = resolve(read(overrides=overrides, base=base), SPEC, lines.append, moved)
    return config, sizes, lines


def autos(config):
    """Lines of the file that say auto."""
    return [line for line in dump(config, comments=False).splitlines() if "auto" in line]


def learning(config, sizes):
    """Environments in all, unroll length and batch."""
    envs = sizes.agents * sizes.groups_per_agent * sizes.group_size
    return envs, sizes.unroll_length, sizes.training_blocks * sizes.group_size, sizes.replayed


@pytest.mark.parametrize("kind", KINDS)
def test_a_stored_configuration_makes_the_same_run_on_any_cores(on, kind):
    on(16)
    config, sizes, lines = resolved([*BASE, *kind])
    assert not lines
    for cores in (1, 2, 3, 32):
        on(cores)
        again, its, lines = resolved((), base=dump(config))
        assert again == config
        assert autos(again) == autos(config)
        assert learning(again, its) == learning(config, sizes)
        assert (its.agents, its.max_lag, its.predictors) == (sizes.agents, sizes.max_lag, sizes.predictors)
        assert not lines


@pytest.mark.parametrize("kind", KINDS)
def test_another_machine_keeps_batch_and_reports_other_changes(on, kind):
    on(16)
    config, sizes, _ = resolved([*BASE, *kind])
    for cores in (1, 2, 3, 32):
        on(cores)
        again, its, lines = resolved((), moved=True, base=dump(config))
        assert learning(again, its)[1:] == learning(config, sizes)[1:]
        if config.algorithm.name == "ppo":  # all environments make up the batch
            assert learning(again, its) == learning(config, sizes)
        changed = {key for key, value in decided(config).items() if decided(again).get(key) != value}
        assert len(lines) == bool(changed)
        assert all(f"{key} " in lines[0].partition(";")[0] for key in changed)


def test_choice_of_auto_is_read_as_number_and_as_chosen(on):
    on(4)
    config, sizes, _ = resolved([*BASE, "system.envs_per_agent=4"])
    text = dump(config)
    assert f"\nagents = auto ({sizes.agents})\n" in text
    assert "\nenvs_per_agent = 4\n" in text, "given"
    assert "\nprediction_batch_size = auto\n" in text, "there is no predictor"
    assert settings(read(base=text))["system.agents"] == 4, "TensorBoard's hyperparameters are numbers"
    given = [*BASE, "system.envs_per_agent=4", "algorithm.reward_transform=none"]
    assert unchosen(read(base=text)) == read(overrides=given), "the last one depends on the environment alone"
    assert decisions(config).startswith("auto chose agents 4, min_agents 2, predictors 0, trainers 1, ")
    assert decisions(config).endswith("; given: device cpu, envs_per_agent 4")


@pytest.mark.parametrize(
    "value", ["auto (0)", "auto (auto)", "auto ()", "auto (x)", "auto (1.5)", "auto (2000)", "auto (auto (2))"]
)
def test_impossible_choice_of_auto_is_refused(value):
    with pytest.raises(UserError, match=r"\[system\] agents: must be "):
        read(overrides=[f"system.agents={value}"])


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        (["system.envs_per_agent=5"], ["algorithm.unroll_length"]),  # batches are whole groups of 5
        (["system.agents=3", "algorithm.name=ppo"], ["algorithm.unroll_length"]),
        (["algorithm.name=ppo"], ["algorithm.unroll_length", "system.training_batch_size"]),
        (["replay.methods=queue uniform", "replay.shares=.9 .1"], ["algorithm.unroll_length"]),
        (["algorithm.name=a3c", "a3c.hogwild=true"], ["algorithm.unroll_length", "system.agents"]),
    ],
)
def test_a_choice_never_makes_a_configuration_invalid(on, change, kept):
    on(4)
    config, _, _ = resolved(BASE)
    again, _, lines = resolved(change, base=dump(config))
    assert all(decided(again)[key] == decided(config)[key] for key in kept)
    changed = [key for key, value in decided(config).items() if decided(again).get(key) != value]
    assert len(lines) == bool(changed)


def test_given_numbers_that_do_not_fit_are_still_refused(on):
    on(4)
    config, _, _ = resolved(BASE)
    with pytest.raises(UserError, match="training_batch_size: 5 environments are stepped together"):
        resolved(["system.envs_per_agent=5", "system.training_batch_size=6"], base=dump(config))
    with pytest.raises(UserError, match="agents with 900 environments would take"):
        resolved(["system.envs_per_agent=900", "algorithm.unroll_length=10000", "system.agents=1000"])


def test_absent_device_is_chosen_anew_and_reported(on):
    on(4)
    config, _, lines = resolved(["environment.id=X", "system.device=auto (mps)"])
    if config.system.device == "mps":
        pytest.skip("it is here")
    assert isinstance(config.system.device, Chosen)
    assert lines == [f"auto chooses anew for this machine: system.device {config.system.device} instead of mps"]


def test_a_machine_with_too_little_memory_gets_fewer_agents(on, monkeypatch):
    on(16)
    config, sizes, _ = resolved(["environment.id=X", "model.hidden_size=16", "system.device=cpu"])
    large = SPEC._replace(observation=plain(200, 200, 3))
    monkeypatch.setattr("kartrl.acting.sizes.free_memory", lambda: 10**8)
    monkeypatch.setattr("kartrl.sizing.auto.free_memory", lambda: 10**8)
    lines = []
    again, its = resolve(config, large, lines.append)
    assert its.agents < sizes.agents
    assert learning(again, its)[1:] == learning(config, sizes)[1:]
    assert lines[0].endswith(
        f"; as before: algorithm.unroll_length {sizes.unroll_length}, system.training_batch_size "
        f"{config.system.training_batch_size}, model.precision fp32"
    )
