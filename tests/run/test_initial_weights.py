"""Which weights a new run may begin with."""

import shlex

import pytest
from commands import assert_clear, run
from gymnasium.spaces import Discrete
from needs import needs_kart
from policies import make_checkpoint

from kartrl.commands.shared.policy import SHIPPED
from kartrl.config import read
from kartrl.envs.observation_spec import ObservationPart, ObservationSpec, plain
from kartrl.envs.spec import ActionSpec, Continuous, EnvSpec
from kartrl.envs.worlds import load_world
from kartrl.errors import UserError
from kartrl.learning import checkpoint
from kartrl.learning.counters import Counters
from kartrl.run.initial_weights import anew, load_initial
from kartrl.sizing.inspection import inspect_env

PARTS = ObservationSpec.packed([ObservationPart("speed", (2,)), ObservationPart("camera", (40, 40, 3))])
SPEC = EnvSpec("cart", plain(4), ActionSpec.of(Discrete(2)), 0.0)
IMAGE = ("environment.height=20", "environment.width=20", "model.channels=4", "model.kernels=4", "model.strides=4")


@pytest.fixture
def given(tmp_path):
    path = tmp_path / "given.pt"
    checkpoint.save(path, make_checkpoint(500))
    return path


def config(*overrides):
    return read(overrides=["model.hidden_size=16", *overrides])


def test_a_new_run_counts_from_zero_and_draws_anew(given):
    here = config("run.seed=7", "run.init=given.pt", "model.precision=fp32")
    initial = load_initial(given, here, SPEC)
    begun = anew(initial, here)
    assert initial.counters.agent_steps == 500
    assert (begun.config, begun.counters, begun.optimizer, begun.random) == (here, Counters(), {}, {})
    assert begun.network is initial.network
    with_optimizer = config("run.init=given.pt", "run.init_optimizer=true")
    assert anew(load_initial(given, with_optimizer, SPEC), with_optimizer).optimizer.keys() == initial.optimizer.keys()


@pytest.mark.parametrize(
    ("overrides", "spec", "said"),
    [
        (["model.hidden_size=32"], SPEC, ["model.hidden_size is 16 there, 32 here"]),
        (["algorithm.name=acer"], SPEC, ["algorithm.name is appo there, acer here", "add --set algorithm.name=appo"]),
        (["model.core=lstm"], SPEC, ["model.core is none there, lstm here; add --set model.core=none"]),
        ([], SPEC._replace(observation=plain(6)), ["observations are 4 numbers there, 6 numbers here"]),
        ([], SPEC._replace(action=ActionSpec.of(Discrete(3))), ["2 actions there, 3 actions here"]),
        (
            [],
            SPEC._replace(observation=PARTS),
            [
                "the part camera of observations is missing there, 40x40x3 here",
                "speed of observations is missing there",
            ],
        ),
        (
            ["model.hidden_size=8"],
            SPEC._replace(observation=plain(20, 20, 1), action=ActionSpec((Continuous((-1.0,) * 2, (1.0,) * 2),))),
            ["hidden_size", "observations are 4 numbers there, 20x20x1 here", "2 actions there, 2 continuous actions"],
        ),
        (
            ["kart.actions=left right"],
            SPEC,
            ["is none left", "left right here; add --set 'kart.actions=none left"],
        ),
        (["run.init=x", "run.init_optimizer=true", "optimizer.name=sgd"], SPEC, ["state of adam", "this run has sgd"]),
        (
            ["run.init=x", "run.init_optimizer=true", "optimizer.kl_target=0.01"],
            SPEC,
            ["state of adam", "optimizer.kl_target is 0.0 there, 0.01 here"],
        ),
    ],
)
def test_differing_weights_are_named_in_one_line(given, overrides, spec, said):
    with pytest.raises(UserError, match=r"given\.pt") as caught:
        load_initial(given, config(*overrides), spec)
    assert_clear(caught.value)
    assert all(words in str(caught.value) for words in said), caught.value


def fitted(path, overrides, files=()):
    """Load the weights for a kart with this configuration."""
    kart = read(files, ["kart.game=bundled", *overrides])
    one = load_world(load_world(kart).prepare_one())
    spec = inspect_env(one.config)
    return load_initial(path, one.fit(spec), spec)


@needs_kart
def test_bundled_weights_fit_the_race_preset():
    assert fitted(SHIPPED, [], ["race"]).counters.agent_steps > 0


@needs_kart
def test_refused_init_builds_nothing_and_names_what_fits(tmp_path, monkeypatch):
    monkeypatch.setenv("KARTRL_CACHE", str(tmp_path / "cache"))
    refused = run("train", "--init", str(SHIPPED), "--set", "kart.game=bundled", cwd=tmp_path)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused.stderr
    assert list(tmp_path.iterdir()) == []
    for difference in (
        "hidden_size is 192 there, 256 here",
        "grayscale is False",
        "channels is 32 64 64",
        "core is lstm",
    ):
        assert difference in refused.stderr
    options = shlex.split(refused.stderr.partition("; add ")[2])
    assert fitted(SHIPPED, [override for override in options if override != "--set"])


def test_init_from_another_world_names_its_arguments(tmp_path):
    small = config("environment.kwargs.size=4", "environment.id=x")
    network = checkpoint.make_network(small.model, plain(4), SPEC.action).state_dict()
    path = tmp_path / "small.pt"
    checkpoint.save(path, checkpoint.Checkpoint(small, network, {}, Counters(9), plain(4), SPEC.action))
    with pytest.raises(UserError, match=r"--set environment\.kwargs\.size=4$"):
        load_initial(path, config("environment.id=x"), SPEC._replace(observation=plain(8)))


def test_channels_that_mean_something_else_do_not_fit(tmp_path):
    """A stack of three grey images and one of colours have the same shape."""
    path, spec = tmp_path / "grey.pt", SPEC._replace(observation=plain(20, 20, 3))
    views = (3, "true"), (1, "false")
    grey, colours = (
        config(*IMAGE, f"environment.frame_stack={stack}", f"environment.grayscale={gray}") for stack, gray in views
    )
    network = checkpoint.make_network(grey.model, plain(20, 20, 3), SPEC.action).state_dict()
    checkpoint.save(path, checkpoint.Checkpoint(grey, network, {}, Counters(9), plain(20, 20, 3), SPEC.action))
    assert load_initial(path, grey, spec).counters == Counters(9)
    with pytest.raises(UserError, match=r"frame_stack is 3 there, 1 here.*grayscale is True there, False here"):
        load_initial(path, colours, spec)
    run_keys = {"init": "grey.pt", "init_optimizer": True}
    trained_on = grey.model_copy(update={"run": grey.run.model_copy(update=run_keys)})
    with pytest.raises(UserError, match="has no optimizer state"):
        load_initial(path, trained_on, spec)
