"""What is searched: ranges and choices, checked against the configuration."""

import pytest
from commands import assert_clear
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from kartrl.config import read
from kartrl.errors import UserError
from kartrl.tuning.space import check_effect, defaults_in, grid, overrides, read_space

CARTPOLE = read(["cartpole"])


def test_ranges_and_choices_become_distributions():
    space = read_space(
        [
            "optimizer.learning_rate=linear log:1e-4:1e-2 1e-5",
            "appo.entropy_cost=0..0.03",
            "model.hidden_size=log:16:1e3",
            "evaluation.episodes=1 .. 1_000",
            "model.core=lstm, none",
            "model.channels=16 32 32,32 64 64",
            "environment.kwargs.size=(3, 4),(5, 6)",
            "environment.kwargs.level=1..3",
        ],
        "--search",
        CARTPOLE,
    )
    assert [parameter.distribution for parameter in space] == [
        FloatDistribution(1e-4, 1e-2, log=True),
        FloatDistribution(0, 0.03),
        IntDistribution(16, 1000, log=True),
        IntDistribution(1, 1000),
        CategoricalDistribution(["lstm", "none"]),
        CategoricalDistribution(["16 32 32", "32 64 64"]),
        CategoricalDistribution(["(3, 4)", "(5, 6)"]),
        IntDistribution(1, 3),
    ]
    params = {"optimizer.learning_rate": 0.002, "appo.entropy_cost": 0.01}
    assert overrides(space[:2], params) == ["optimizer.learning_rate=linear 0.002 1e-5", "appo.entropy_cost=0.01"]


def test_toml_file_gives_the_same_space_as_arguments(tmp_path):
    file = tmp_path / "space.toml"
    model = '[model]\nlayer_norm = [true, false]\nhidden_size = "8..64"\nchannels = [[8, 8, 8], "4 8 8"]\n'
    arguments = 'environment.kwargs.size = [[3, 4], "(5, 6)"]\nenvironment.kwargs.wind = [{x = 1}, 2.5]\n'
    file.write_text(f'optimizer.learning_rate = "log:1e-4:1e-2"\n{arguments}{model}')
    given = ["optimizer.learning_rate=log:1e-4:1e-2"]
    given += ["environment.kwargs.size=[3, 4],(5, 6)", "environment.kwargs.wind={'x': 1},2.5"]
    given += ["model.layer_norm=true,false", "model.hidden_size=8..64", "model.channels=8 8 8,4 8 8"]
    assert read_space([str(file)], "--search", CARTPOLE) == read_space(given, "--search", CARTPOLE)


def test_grid_has_every_combination_in_order():
    space = read_space(["model.core=lstm,none", "model.hidden_size=8,16"], "--grid", CARTPOLE)
    assert [tuple(params.values()) for params in grid(space)] == [
        ("lstm", "8"),
        ("lstm", "16"),
        ("none", "8"),
        ("none", "16"),
    ]


def test_defaults_are_found_where_the_space_has_them():
    rate = "optimizer.learning_rate=linear log:1e-4:1e-2 1e-5"
    space = read_space([rate, "model.core=lstm,none", "model.hidden_size=16..64"], "--search", CARTPOLE)
    assert defaults_in(space, ["cartpole"], []) == {
        "optimizer.learning_rate": 0.001,
        "model.core": "none",
        "model.hidden_size": 64,
    }
    assert defaults_in(space, ["cartpole"], ["model.hidden_size=65"]) is None
    constant = read_space(["optimizer.learning_rate=log:1e-4:1e-2"], "--search", CARTPOLE)
    assert defaults_in(constant, ["cartpole"], []) is None, "its learning rate is a schedule"


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ("optimizer.learning_rat=log:1e-4:1e-2", "nearest valid one is 'learning_rate'"),
        ("optimiser.learning_rate=log:1e-4:1e-2", "nearest valid one is 'optimizer'"),
        ("optimizer.learning_rate=log:0:1", "must start above 0"),
        ("optimizer.learning_rate=-1..2", "must be 0 or more"),
        ("optimizer.learning_rate=1e-2..1e-2", "must be less than"),
        ("optimizer.learning_rate=log:1e-2", "expected LOW..HIGH"),
        ("optimizer.weight_decay=log:0:1", "must begin above 0"),
        ("optimizer.decay=0.5..1", "must be less than 1"),
        ("environment.kwargs.x=1..1e999", "must be less than"),
        ("model.hidden_size=1.5..4", "must be an integer"),
        ("model.core=lstm,gruu", "must be 'lstm', 'gru' or 'none'"),
        ("model.core=lstm", "--set gives one value"),
        ("model.core=lstm,lstm", "lstm is there twice"),
        ("optimizer.learning_rate=0.0001,1e-4", "1e-4 is there twice"),
        ("optimizer.learning_rate=linear 1e-3 0,linear 0.001 0.0", "linear 0.001 0.0 is there twice"),
        ("model.layer_norm=0..1", "takes no range"),
        ("run.seed=1..3", "tune gives it to each training"),
        ("environment.id=CartPole-v1,Acrobot-v1", "cannot be compared"),
        ("missing.toml", "or a TOML file (No such file"),
        ("broken.toml", "not valid TOML"),
        ("wrong.toml", "must be text"),
        ("empty.toml", "has no key"),
        ("endless.toml", "'inf' cannot be a choice"),
    ],
)
def test_search_refuses_what_no_trial_could_have(tmp_path, monkeypatch, item, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.toml").write_text("model = [")
    (tmp_path / "empty.toml").write_text("[model]")
    (tmp_path / "endless.toml").write_text("environment.kwargs.size = [inf, 1]")
    (tmp_path / "wrong.toml").write_text("model.hidden_size = 3")
    with pytest.raises(UserError) as raised:
        read_space([item], "--search", CARTPOLE)
    assert said in str(raised.value)
    assert_clear(raised.value)


def test_grid_refuses_ranges_and_too_many_combinations():
    with pytest.raises(UserError, match=r"hidden_size: needs a list of values"):
        read_space(["model.hidden_size=8..64"], "--grid", CARTPOLE)
    many = ",".join(map(str, range(1, 102)))
    with pytest.raises(UserError, match="10,201 combinations"):
        read_space([f"model.hidden_size={many}", f"evaluation.episodes={many}"], "--grid", CARTPOLE)


def test_keys_of_an_unused_algorithm_are_refused():
    space = read_space(["ppo.clip_range=0.1..0.3"], "--search", CARTPOLE)
    with pytest.raises(UserError, match=r"ppo\.clip_range: has no effect"):
        check_effect(space, CARTPOLE)
    check_effect((*space, *read_space(["algorithm.name=appo,ppo"], "--search", CARTPOLE)), CARTPOLE)
