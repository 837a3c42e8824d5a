"""Which policy drives where none is named, and policies made to be given away."""

import argparse
import io
import shlex
import sys
from pathlib import Path

import pytest
import torch
from commands import assert_clear, run
from gymnasium.spaces import Discrete
from needs import needs_kart
from policies import CARTPOLE, KART, make_checkpoint, save_policy
from rich.console import Console

from kartrl.commands.export import describe, export
from kartrl.commands.play import find_rival
from kartrl.commands.shared import policy
from kartrl.commands.shared.policy import find_policy
from kartrl.config import dump, read
from kartrl.config.ini import settings
from kartrl.envs.observation_spec import plain
from kartrl.envs.spec import ActionSpec
from kartrl.envs.worlds import load_world
from kartrl.errors import UserError
from kartrl.launch import typed
from kartrl.learning import checkpoint
from kartrl.learning.checkpoint import Checkpoint
from kartrl.learning.counters import Counters
from kartrl.learning.learner import make_learner
from kartrl.models import make_network
from kartrl.run.folders import find_checkpoint

NO_OPTIONS = argparse.Namespace(
    checkpoint=None, alone=False, ghost=None, replay=None, opponents=0, game="bundled", state=None
)


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=300)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The current folder, without runs, and a kartrl without weights of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(policy, "SHIPPED", tmp_path / "package" / "kart.pt")
    return tmp_path


def add_run(name, *overrides, best=True):
    """A run in the current folder's logs; its newest checkpoint."""
    folder = Path("logs") / name
    config = read(overrides=["model.hidden_size=16", *overrides])
    newest = folder / "checkpoints" / "0000002000.pt"
    for path in (newest, folder / "best.pt") if best else (newest,):
        checkpoint.save(path, make_checkpoint(2000)._replace(config=config))
    (folder / "config.cfg").write_text(dump(config), encoding="utf-8")
    return newest


def test_the_newest_run_drives_and_is_named(home, console):
    add_run("older")
    add_run("newer")
    assert find_policy(None, False, console) == Path("logs/newer/best.pt")
    assert console.file.getvalue() == "Policy: logs/newer/best.pt, of the newest run (-p RUN: another)\n"
    newest = add_run("newest", best=False)
    assert find_policy(None, False, console) == newest
    (home / "logs" / "newest" / "config.cfg").write_text("[of]\nanother = version\n", encoding="utf-8")
    assert find_policy(None, False, console) == newest, "its checkpoint tells what it is of"
    newest.write_bytes(b"of another version")
    assert find_policy(None, False, console) == Path("logs/newer/best.pt"), "passed over"
    assert find_policy("older", False, console) == Path("logs/older/best.pt")


def test_circuits_are_driven_by_a_policy_that_knows_circuits(home, console):
    add_run("kart")
    add_run("pole", *CARTPOLE)
    assert find_policy(None, False, console) == Path("logs/pole/best.pt")
    assert find_policy(None, True, console) == Path("logs/kart/best.pt")


def test_without_a_run_the_policy_that_comes_along_drives(home, console):
    with pytest.raises(UserError, match=r"logs has no kart run .*train.*-p RUN") as caught:
        find_policy(None, True, console)
    assert_clear(caught.value)
    checkpoint.save(policy.SHIPPED, make_checkpoint(10))
    assert find_policy(None, True, console) == policy.SHIPPED
    assert "which comes with kartrl" in console.file.getvalue()
    add_run("pole", *CARTPOLE)
    assert find_policy(None, True, console) == policy.SHIPPED


@needs_kart
def test_window_has_a_ghost_by_default(home, console, monkeypatch):
    assert find_rival(NO_OPTIONS, console) is None
    checkpoint.save(policy.SHIPPED, make_checkpoint(10))
    assert find_rival(NO_OPTIONS, console) == policy.SHIPPED
    assert console.file.getvalue().startswith("Ghost: ")
    add_run("kart", "kart.game=bundled")
    add_run("pole", *CARTPOLE)
    best = Path("logs/kart/best.pt")
    assert find_rival(NO_OPTIONS, console) == best
    for others in ({"alone": True}, {"opponents": 1}, {"ghost": Path("a.bk2")}, {"replay": Path("a.bk2")}):
        assert find_rival(argparse.Namespace(**{**vars(NO_OPTIONS), **others}), console) is None
    with pytest.raises(UserError, match="--alone"):
        find_rival(argparse.Namespace(**{**vars(NO_OPTIONS), "alone": True, "checkpoint": str(best)}), console)


def test_evaluate_and_export_as_typed_work(tmp_path):
    """`evaluate` without -p, then the same policy made small."""
    path = save_policy(tmp_path / "logs" / "pole", CARTPOLE)
    config = dump(checkpoint.load(path).config)
    (tmp_path / "logs" / "pole" / "config.cfg").write_text(config, encoding="utf-8")
    shown = run("evaluate", "--episodes", "1", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "Policy: logs/pole/checkpoints/0000001000.pt, of the newest run" in shown.stdout
    given = run("export", "pole", "-o", "small.pt", "--half", "--episodes", "2", cwd=tmp_path)
    assert given.returncode == 0, given.stderr
    card = (tmp_path / "small.md").read_text(encoding="utf-8")
    for words in ("| seed | 1 |", "| 1,000 agent steps", "half precision", "| licence |", "model.hidden_size = 16"):
        assert words in card
    assert card.count("CartPole-v1") >= 2, "what it drives, and its configuration"
    assert "| episodes | mean return |" in card
    shown = run("evaluate", "--episodes", "1", "-p", "checkpoint.pt", cwd=tmp_path)
    assert "Policy: logs/pole/checkpoints/0000001000.pt, of the newest run" in shown.stdout, shown.stderr
    (tmp_path / "small.pt").rename(tmp_path / "checkpoint.pt")
    shown = run("evaluate", "--episodes", "1", "-p", "checkpoint.pt", cwd=tmp_path)
    assert shown.stdout.startswith("checkpoint.pt: 1,000 agent steps"), "a file of this name is itself"
    bad = run("export", "pole", "-o", "small.mp4", cwd=tmp_path)
    assert (bad.returncode, bad.stderr.count("\n")) == (2, 1)


def kart_like(observation_shape=(54, 52, 1), actions=9):
    """A checkpoint whose network has made up its mind: far from all actions being equally likely."""
    own = ["run.name=secret", "run.logs=/home/somebody", "run.init=secret", "run.init_optimizer=true"]
    config = read(overrides=[*KART, *own, "cluster.ray=secret:6379", "levels./home/*/a.state=train"])
    torch.manual_seed(3)
    action = ActionSpec.of(Discrete(actions))
    learner = make_learner(config, make_network(config.model, plain(*observation_shape), action), action)
    for parameter in learner.network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    learner.optimizer.step()
    state = learner.state()
    state.network["policy.weight"] *= 300
    return Checkpoint(
        config, state.network, state.optimizer, Counters(12, 3, 1, 90.0), plain(*observation_shape), action
    )


def test_export_of_own_circuits_needs_them_before_overwriting(tmp_path, console):
    own = ["levels.*=none", "levels.random:3:asphalt=none", f"levels.{tmp_path}/mine.state=train"]
    given, path = kart_like(), tmp_path / "given.pt"
    checkpoint.save(path, given._replace(config=read(overrides=[*KART, *own])))
    output = tmp_path / "out.pt"
    output.write_text("earlier")
    for levels, message in (
        ([], r"only on circuits in files .* -l, or use --episodes 0"),
        (["Nowhere.Act1"], "Nowhere"),
    ):
        with pytest.raises(UserError, match=message):
            export(path, output, False, levels, 1, console)
    assert output.read_text() == "earlier"


@needs_kart
@pytest.mark.parametrize("half", [False, True])
def test_exported_policy_acts_as_before_and_has_nothing_else(tmp_path, console, half):
    original = kart_like()
    checkpoint.save(tmp_path / "given.pt", original)
    export(tmp_path / "given.pt", tmp_path / "small.pt", half, [], 0, console)
    small = checkpoint.load(tmp_path / "small.pt")
    assert (small.optimizer, dict(small.random), small.counters) == ({}, {}, original.counters)
    numbers = sum(tensor.numel() for tensor in original.network.values())
    assert (tmp_path / "small.pt").stat().st_size < (2 if half else 4) * numbers + 20_000
    for text in ((tmp_path / "small.md").read_text(encoding="utf-8"), dump(small.config)):
        assert "secret" not in text
        assert "/home" not in text
    observation = torch.randint(0, 256, (1, 200, 54, 52, 1), dtype=torch.uint8).repeat(2, 1, 1, 1, 1)
    first = torch.ones(2, 200, dtype=torch.bool)
    policies = []
    for one in (original, small):
        network = checkpoint.load_network(one, torch.device("cpu"))
        policies.append(network(observation, first, network.initial_state(200))[0].policy[0])
    before, after = policies
    assert before.argmax(1).unique().numel() > 2, "it does not do the same whatever it sees"
    if half:
        assert (before.argmax(1) == after.argmax(1)).float().mean() >= 0.98
        assert (before - after).abs().max() < 0.05 * before.std()
    else:
        assert torch.equal(before, after)


def test_card_has_all_to_train_the_same_again():
    own = ["levels.random:3:asphalt=none", "levels.MarioCircuit.Act2=none", "levels.MarioCircuit.Act4=test", *KART]
    config = read(["all_circuits"], own)
    card = describe("a.pt", kart_like()._replace(config=config), False, [], load_world(config))
    lines = [line.replace(" = ", "=", 1) for line in card.split("```")[1].split("\n") if line]
    again = read(overrides=lines)
    assert settings(again) == settings(config)
    expected = [("MarioCircuit.Act2", "none"), ("MarioCircuit.Act4", "test")]
    assert list(again.levels.uses.items())[-2:] == expected, "after *: later keys count"


def test_card_of_a_run_from_other_weights_says_so():
    for init, said in (("none", False), ("runs/mine/best.pt", True)):
        card = describe("a.pt", make_checkpoint(100, f"run.init={init}"), False, [], load_world(read()))
        (steps,) = [line for line in card.splitlines() if line.startswith("| steps |")]
        assert ("the run whose weights it began with" in steps) is said
        assert "mine" not in card


def test_a_card_lists_no_default_of_another_algorithm():
    config = read(["cartpole"], ["algorithm.name=a2c", "a2c.entropy_cost=0.02"])
    card = describe("a.pt", kart_like()._replace(config=config), False, [], load_world(config))
    lines = card.split("```")[1].split("\n")
    assert [line for line in lines if line.startswith("a2c.")] == ["a2c.entropy_cost = 0.02"]
    assert "algorithm.name = a2c" in lines


def test_weights_that_are_too_large_are_not_halved(tmp_path, console):
    large = make_checkpoint(10)
    large.network["value.bias"].fill_(1e6)
    checkpoint.save(tmp_path / "large.pt", large)
    with pytest.raises(UserError, match=r"too large for half precision; export it without --half") as caught:
        export(tmp_path / "large.pt", tmp_path / "small.pt", True, [], 0, console)
    assert_clear(caught.value)
    assert not (tmp_path / "small.pt").exists()


def test_bundled_policy_is_small_and_has_a_card():
    shipped = checkpoint.load(policy.SHIPPED)
    assert policy.SHIPPED.stat().st_size <= 1_000_000
    assert (shipped.optimizer, dict(shipped.random)) == ({}, {})
    card = policy.SHIPPED.with_suffix(".md").read_text(encoding="utf-8")
    assert "## Results" in card
    assert "| ROM | KartRL-Snes, build " in card


def test_failed_export_leaves_an_earlier_one_unchanged(tmp_path):
    state = make_checkpoint(100, "model.hidden_size=16")
    config = read([], ["environment.id=mine:Corridor-v0", "model.hidden_size=16"])
    checkpoint.save(tmp_path / "foreign.pt", state._replace(config=config))
    (tmp_path / "small.pt").write_text("earlier")
    bad = run("export", "foreign.pt", "-o", "small.pt", "--force", cwd=tmp_path)
    assert (bad.returncode, bad.stderr.count("\n")) == (2, 1), bad.stderr
    assert "imports the module mine" in bad.stderr
    assert (tmp_path / "small.pt").read_text() == "earlier"
    assert not (tmp_path / "small.md").exists()


def test_export_that_cannot_be_evaluated_leaves_files(tmp_path, console):
    pole = make_checkpoint(100, "model.hidden_size=16", *CARTPOLE)
    wrong = read(overrides=["model.hidden_size=16", *CARTPOLE, "environment.kwargs.nonsense=3"])
    checkpoint.save(tmp_path / "given.pt", pole._replace(config=wrong))
    for name in ("small.pt", "small.md"):
        (tmp_path / name).write_text("earlier")
    with pytest.raises(UserError):
        export(tmp_path / "given.pt", tmp_path / "small.pt", False, [], 1, console)
    assert {(tmp_path / name).read_bytes() for name in ("small.pt", "small.md")} == {b"earlier"}
    assert len([*tmp_path.iterdir()]) == 3


def test_a_folder_of_the_same_name_does_not_hide_a_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = save_policy(Path("logs", "game"), CARTPOLE)
    Path("game").mkdir()
    assert find_checkpoint("game") == path
    path.unlink()
    with pytest.raises(UserError, match=r"there is no checkpoint in the folder logs/game yet"):
        find_checkpoint("game")


def test_printed_commands_can_be_typed_where_the_path_has_spaces(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "My Projects" / "kartrl")])
    assert shlex.split(typed("train")) == [str(tmp_path / "My Projects" / "kartrl"), "train"]
