"""Checkpoints: whole or not at all, and nothing in them is run."""

import functools
import json
import os
import pickle
import subprocess
import sys
import zipfile

import pytest
import safetensors.torch
import torch
from commands import assert_clear, environment
from gymnasium.spaces import Discrete
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from policies import make_checkpoint
from trajectories import ACTIONS, kind

from kartrl.config import Config, dump, read
from kartrl.driving.driver import open_driver
from kartrl.envs.observation_spec import plain
from kartrl.envs.spec import ActionSpec, Continuous
from kartrl.errors import UserError
from kartrl.learning import checkpoint
from kartrl.learning.checkpoint import Checkpoint
from kartrl.learning.checkpoint_file import FORMAT, digest
from kartrl.learning.counters import Counters
from kartrl.models import ActorCritic, make_network
from kartrl.run.resuming import resumed_config

DISCRETE = ActionSpec.of(Discrete(2))
CONTINUOUS = ActionSpec((Continuous((-1.0, -0.5), (1.0, 2.5)),))
STATES = [
    ["optimizer.name=rmsprop"],
    ["optimizer.name=rmsprop", "optimizer.momentum=0.5"],
    ["optimizer.name=adam"],
    ["optimizer.name=sgd"],
    ["optimizer.name=sgd", "optimizer.momentum=0.5"],
    ["algorithm.name=acer"],
]


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "run" / "checkpoints" / "0000000010.pt"
    checkpoint.save(path, make_checkpoint(10))
    return path


@functools.cache
def honest():
    return make_checkpoint(10)


def assert_same(one, other):
    groups = ("network", "optimizer", "random", "algorithm")
    empty = {group: {} for group in groups}
    assert one._replace(**empty) == other._replace(**empty)
    for group in groups:
        a, b = getattr(one, group), getattr(other, group)
        assert a.keys() == b.keys()
        for name, tensor in a.items():
            assert tensor.dtype == b[name].dtype
            assert torch.equal(tensor, b[name]), name


@pytest.mark.parametrize("overrides", STATES, ids=" ".join)
def test_round_trip(tmp_path, overrides):
    original = make_checkpoint(10, *overrides)
    if "algorithm.name=acer" in overrides:
        original = original._replace(algorithm={name: tensor + 1 for name, tensor in original.network.items()})
    checkpoint.save(tmp_path / "a" / "1.pt", original)
    loaded = checkpoint.load(tmp_path / "a" / "1.pt")
    assert_same(loaded, original)
    network = checkpoint.load_network(loaded, torch.device("cpu"))
    for name, tensor in network.state_dict().items():
        assert torch.equal(tensor, original.network[name])
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["1.pt"]


def test_a_network_trained_in_bf16_is_driven_in_fp32():
    config, shape = read(overrides=["model.hidden_size=16", "model.precision=bf16"]), (54, 54, 1)
    weights = make_network(config.model, plain(*shape), ACTIONS[0]).state_dict()
    stored = Checkpoint(config, weights, {}, Counters(), plain(*shape), ACTIONS[0])
    exact = stored._replace(config=read(overrides=["model.hidden_size=16", "model.precision=fp32"]))
    frames = torch.randint(0, 256, (5, *shape), dtype=torch.uint8)
    seen, expected = (checkpoint.load_network(one, torch.device("cpu")).features(frames) for one in (stored, exact))
    assert torch.equal(seen, expected)


@pytest.mark.parametrize("action", ACTIONS, ids=kind)
def test_actions_and_counters_travel(tmp_path, action):
    network = make_network(Config().model, plain(4), action)
    original = Checkpoint(
        Config(), network.state_dict(), {}, Counters(7, 6, 5, 4.5, 0.375), plain(4), action, most_envs=3
    )
    checkpoint.save(tmp_path / "a.pt", original)
    loaded = checkpoint.load(tmp_path / "a.pt")
    assert_same(loaded, original)
    assert isinstance(loaded.action, ActionSpec)
    assert isinstance(loaded.counters, Counters)
    head = checkpoint.load_network(loaded, torch.device("cpu")).step(
        torch.zeros(1, 4), torch.ones(1, dtype=torch.bool), torch.zeros(1, 512)
    )[0]
    assert head.shape == (1, action.parameter_size)


@pytest.mark.parametrize("score", [float("inf"), float("-inf"), float("nan"), 10**400, "inf"])
def test_a_score_that_is_not_finite_is_refused(tmp_path, score):
    checkpoint.save(tmp_path / "best.pt", honest()._replace(score=score))
    with pytest.raises(UserError, match="refused") as error:
        checkpoint.load(tmp_path / "best.pt")
    assert_clear(error.value)


def test_newest(saved):
    run = saved.parents[1]
    for number in (200, 30):
        checkpoint.save(saved.with_name(f"{number:010d}.pt"), make_checkpoint(number))
    assert checkpoint.newest(run) == saved.with_name("0000000200.pt")
    assert checkpoint.newest(run / "none") is None
    checkpoint.remove_oldest(run, keep=2)
    assert [int(path.stem) for path in checkpoint.newest_first(run)] == [200, 30]
    for number in (10**10 - 1, 10**10):  # of ten digits and of eleven
        checkpoint.save(saved.with_name(f"{number:010d}.pt"), make_checkpoint(number))
    assert [int(path.stem) for path in checkpoint.newest_first(run)] == [10**10, 10**10 - 1, 200, 30]


def test_copies_by_other_names_are_no_checkpoints_of_the_run(saved):
    run, copies = saved.parents[1], [saved.with_name(name) for name in ("good.pt", f"{saved.stem}-good.pt", "9 9.pt")]
    for copy in copies:
        copy.write_bytes(saved.read_bytes())
    assert checkpoint.newest_first(run) == [saved]
    checkpoint.remove_oldest(run, keep=0)
    assert [path.exists() for path in (saved, *copies)] == [False, True, True, True]


def test_a_large_network_is_read_again(tmp_path):
    config = read([], ["model.encoder=nature", "model.hidden_size=2048", "model.core=lstm", "model.critic=separate"])
    with torch.device("meta"):
        network = ActorCritic(config.model, plain(84, 84, 4), DISCRETE)
    state = {name: torch.zeros(tensor.shape, dtype=tensor.dtype) for name, tensor in network.state_dict().items()}
    checkpoint.save(tmp_path / "1.pt", Checkpoint(config, state, {}, Counters(1), plain(84, 84, 4), DISCRETE))
    assert (tmp_path / "1.pt").stat().st_size > 1 << 28
    assert checkpoint.load(tmp_path / "1.pt").network.keys() == state.keys()


class Bomb:
    def __reduce__(self):
        return os.system, ("touch bomb-went-off",)


def write_zip_bomb(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", b"\0" * 50_000_000)


def write_header(path, header, length=None):
    """A file of this header (a tree, or text) and 1000 bytes of tensors."""
    about = json.dumps({"format": FORMAT})
    text = header if isinstance(header, bytes) else json.dumps({"__metadata__": {"about": about}, **header}).encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + bytes(1000))


def write_sparse(path, shape, size):
    """A checkpoint with one weight more, which is a hole in the file."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    header["network/a"] = one_tensor(shape, len(content) - 8 - length, len(content) - 8 - length + size, "F32")
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + length :])
    os.truncate(path, path.stat().st_size + size)


def one_tensor(shape, begin=0, end=1000, dtype="U8"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


DAMAGE = {
    "missing": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-2000]),
    "longer": lambda path: path.write_bytes(path.read_bytes() + bytes(8)),
    "text": lambda path: path.write_text("no checkpoint"),
    "plain pickle": lambda path: path.write_bytes(pickle.dumps({"model": 1})),
    "pickle bomb": lambda path: torch.save({"format": FORMAT, "model": Bomb()}, path),
    "pickle bomb without a zip": lambda path: path.write_bytes(pickle.dumps(Bomb())),
    "zip bomb": write_zip_bomb,
    "foreign weights": lambda path: safetensors.torch.save_file({"conv.weight": torch.zeros(3)}, path),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "header beyond the file": lambda path: write_header(path, {}, length=1 << 60),
    "header of 100 MB": lambda path: write_header(path, b" " * 100_000_000),
    "deep header": lambda path: write_header(path, b"[" * 1_000_000),
    "giant tensor": lambda path: write_header(path, {"network/a": one_tensor([10**9, 10**9])}),
    "tensor beyond the file": lambda path: write_header(path, {"network/a": one_tensor([10**12], 0, 10**12)}),
    "overlapping tensors": lambda path: write_header(
        path, {f"network/{number}": one_tensor([1000]) for number in range(1000)}
    ),
    "sparse, its header of another size": lambda path: os.truncate(path, 1 << 28),
    "sparse, its header of that size": lambda path: write_sparse(path, [1 << 26], 1 << 28),
    "sparse, 1 GiB": lambda path: write_sparse(path, [1 << 28], 1 << 30),
    "many tensors": lambda path: write_header(path, {f"{number}": one_tensor([0], 0, 0) for number in range(15_000)}),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_bad_files_are_refused_in_one_line(saved, damage, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    damage(saved)
    with pytest.raises(UserError) as error:
        checkpoint.load(saved)
    assert_clear(error.value)
    assert str(saved) in str(error.value)
    assert not (tmp_path / "bomb-went-off").exists()


def forge(path, about=None, text=None, **groups):
    """A checkpoint with a digest that is right, and a content that may not be."""
    checkpoint.save(path, honest())
    content = path.read_bytes()
    metadata = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    if text is None:
        text = json.dumps({**json.loads(metadata["about"]), **(about or {})})
    chosen = {"network": honest().network, "optimizer": honest().optimizer, "random": honest().random, **groups}
    tensors = {f"{group}/{name}": tensor for group, members in chosen.items() for name, tensor in members.items()}
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    safetensors.torch.save_file(tensors, path, {"about": text, "sha256": digest(text, arrays)})
    return path


def continuous(low, high):
    """What is forged of actions with these bounds, all else being right."""
    network = ActorCritic(honest().config.model, plain(4), CONTINUOUS).state_dict()
    return {"about": {"action": [["continuous", low, high]]}, "network": network, "optimizer": {}}


FORGERIES = {
    "a state of an algorithm that has none": lambda: {"algorithm": make_checkpoint(10).network},
    "an algorithm's state of another network": lambda: {
        "about": {"config": dump(make_checkpoint(10, "algorithm.name=acer").config)},
        "network": make_checkpoint(10, "algorithm.name=acer").network,
        "optimizer": {},
        "algorithm": honest().network,
    },
    "an algorithm for other actions": lambda: {
        **continuous([-1, -1], [1, 1]),
        "about": {"action": [["continuous", [-1, -1], [1, 1]]], "config": "[algorithm]\nname = acer\n"},
    },
    "another format": lambda: {"about": {"format": "kartrl checkpoint 1"}},
    "a giant network": lambda: {"about": {"config": "[model]\nhidden_size = 65536\n"}},
    "an impossible network": lambda: {"about": {"config": f"[model]\nhidden_size = {10**30}\n"}},
    "many layers": lambda: {
        "about": {
            "config": "".join(f"{key} = {'1 ' * 100_000}\n" for key in ("[model]\nchannels", "kernels", "strides"))
        }
    },
    "a giant picture": lambda: {"about": {"observation": [["", [10**6, 10**6, 3]]]}},
    "a shape below zero": lambda: {"about": {"observation": [["", [-4]]]}},
    "observations without a part": lambda: {"about": {"observation": []}},
    "a name that writes to the terminal": lambda: {"about": {"observation": [["a", [4]], ["\x1b[2J", [4]]]}},
    "a part of four dimensions": lambda: {"about": {"observation": [["a", [2, 2, 2, 2]], ["b", [4]]]}},
    "two parts of one name": lambda: {"about": {"observation": [["a", [2]], ["a", [2]]]}},
    "an image after a vector": lambda: {"about": {"observation": [["a", [2]], ["b", [40, 40, 1]]]}},
    "a thousand parts": lambda: {"about": {"observation": [[str(number), [1]] for number in range(1000)]}},
    "a shape of a million dimensions": lambda: {"about": {"observation": [["", [1] * 200_000]]}},
    "the format before": lambda: {"about": {"format": "kartrl checkpoint 2"}},
    "many actions": lambda: {"about": {"action": [["discrete", [10**12]]]}},
    "no actions": lambda: {"about": {"action": [["discrete", [0]]]}},
    "more actions than the network has": lambda: {"about": {"action": [["discrete", [3]]]}},
    "actions of another kind": lambda: {"about": {"action": [["continuous", [-1, -1], [1, 1]]]}},
    "actions of no kind": lambda: {"about": {"action": [["any", 2]]}},
    "actions that are a number": lambda: {"about": {"action": 2}},
    "actions with a field too many": lambda: {"about": {"action": [["discrete", [2], []]]}},
    "no parts of actions": lambda: {"about": {"action": []}},
    "an empty part of actions": lambda: {"about": {"action": [["discrete", []]]}},
    "half a choice": lambda: {"about": {"action": [["discrete", [2.0]]]}},
    "bits below zero": lambda: {"about": {"action": [["discrete", [3]], ["binary", -1]]}},
    "many bits": lambda: {"about": {"action": [["binary", 10**12]]}},
    "bounds without a dimension": lambda: continuous([-1.0], [1.0]),
    "bounds without end": lambda: continuous([-1.0, -float("inf")], [1.0, 1.0]),
    "bounds that are no numbers": lambda: continuous([-1.0, -1.0], [1.0, float("nan")]),
    "bounds the wrong way round": lambda: continuous([-1.0, 1.0], [1.0, -1.0]),
    "bounds that are text": lambda: continuous("00", "11"),
    "a long configuration": lambda: {"about": {"config": "#" * 20_000_000}},
    "an unknown key": lambda: {"about": {"config": f"[run]\n{'a' * 500_000} = 1\n"}},
    "an unknown section": lambda: {"about": {"config": f"[{'run' * 100_000}]\n"}},
    "steps below zero": lambda: {"about": {"counters": [-1, 0, 0, 0.0, 0.0]}},
    "steps beyond counting": lambda: {"about": {"counters": [10**400, 0, 0, 0.0, 0.0]}},
    "endless seconds": lambda: {"about": {"counters": [0, 0, 0, float("inf"), 0.0]}},
    "progress beyond the end": lambda: {"about": {"counters": [0, 0, 0, 0.0, 1.5]}},
    "progress that is no number": lambda: {"about": {"counters": [0, 0, 0, 0.0, float("nan")]}},
    "counters of the format before": lambda: {"about": {"counters": [0, 0, 0, 0.0]}},
    "a score that is a list": lambda: {"about": {"score": [1]}},
    "deep": lambda: {"text": "[" * 500_000},
    "a list": lambda: {"text": "[]"},
    "another group": lambda: {"code": {"a": torch.zeros(1)}},
    "no weights": lambda: {"network": {}},
    "weights of another type": lambda: {
        "network": {name: tensor.double() for name, tensor in honest().network.items()}
    },
    "weights of another network": lambda: {"network": make_checkpoint(10, "model.hidden_size=32").network},
    "half an optimizer": lambda: {"optimizer": {"0/step": torch.zeros(())}},
    "another optimizer": lambda: {"optimizer": make_checkpoint(10, "optimizer.name=rmsprop").optimizer},
    "more agents than any machine runs": lambda: {"about": {"config": "[system]\nagents = 3000\n"}},
    "unrolls beyond memory": lambda: {"about": {"config": "[algorithm]\nunroll_length = 1000000000\n"}},
    "a timeout beyond the clock": lambda: {"about": {"config": "[system]\nstep_timeout = 1e300\n"}},
    "levels of the whole disk": lambda: {"about": {"config": "[levels]\n/**/*.state = train\n"}},
    "levels of many folders": lambda: {"about": {"config": "[levels]\n/*/*/*/a.state = train\n"}},
    "ninety lists of generated circuits": lambda: {
        "about": {"config": "[levels]\n" + "".join(f"random:{n}0000-{n}9999 = train\n" for n in range(10, 99))}
    },
    "random states of floats": lambda: {"random": {"torch": torch.zeros(5)}},
}


@pytest.mark.parametrize("forgery", FORGERIES.values(), ids=FORGERIES)
def test_inconsistent_checkpoint_is_refused_in_one_line(tmp_path, forgery):
    with pytest.raises(UserError, match="refused") as error:
        checkpoint.load(forge(tmp_path / "a.pt", **forgery()))
    assert_clear(error.value)


def test_forged_file_with_valid_parts_is_a_checkpoint(tmp_path):
    assert_same(checkpoint.load(forge(tmp_path / "a.pt")), honest())
    bounds = continuous(*CONTINUOUS.as_json()[0][1:])
    assert checkpoint.load(forge(tmp_path / "b.pt", **bounds)).action == CONTINUOUS


LOAD_ALL = """
import resource, sys, time
from pathlib import Path
from kartrl.learning import checkpoint
from kartrl.errors import UserError
checkpoint.load(Path(sys.argv[1]))
before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
for path in sys.argv[2:]:
    try:
        checkpoint.load(Path(path))
        raise SystemExit(f"{path} was not refused")
    except UserError:
        pass
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, time.process_time() - began)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts memory as Linux does")
def test_refusing_takes_little_memory(tmp_path):
    paths = [forge(tmp_path / "honest.pt")]
    paths += [forge(tmp_path / f"{number}.pt", **forgery()) for number, forgery in enumerate(FORGERIES.values())]
    for name, damage in DAMAGE.items():
        if name not in ("missing", "a folder"):
            paths.append(tmp_path / f"{name}.pt")
            checkpoint.save(paths[-1], honest())
            damage(paths[-1])
    command = [sys.executable, "-c", LOAD_ALL, *paths]
    loading = subprocess.run(
        command, env=environment(), cwd=tmp_path, text=True, capture_output=True, timeout=100, check=False
    )
    assert loading.returncode == 0, loading.stderr
    memory, seconds = map(float, loading.stdout.split())
    assert memory < 100_000, "KiB"
    assert seconds < 20, "of the processor, for all of them"


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.floats(0, 1, exclude_max=True), st.integers(0, 7))
def test_any_flipped_bit_is_refused_or_does_not_matter(saved, where, bit):
    content = bytearray(saved.read_bytes())
    content[int(where * len(content))] ^= 1 << bit
    assert_refused_or_same(saved.with_name("flipped.pt"), bytes(content))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 5000), st.integers(0, 100), st.binary(max_size=100))
def test_any_change_of_the_header_is_refused_or_does_not_matter(saved, begin, removed, added):
    content = saved.read_bytes()
    assert_refused_or_same(saved.with_name("changed.pt"), content[:begin] + added + content[begin + removed :])


def assert_refused_or_same(path, content):
    path.write_bytes(content)
    try:
        loaded = checkpoint.load(path)
    except UserError as error:
        assert_clear(error)
    else:
        assert_same(loaded, honest())


TREE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda children: st.lists(children, max_size=5) | st.dictionaries(st.text(max_size=10), children, max_size=5),
    max_leaves=10,
)
KEYS = st.sampled_from(["format", "config", "counters", "observation", "action", "score"])


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(KEYS, TREE, min_size=1, max_size=3))
@example({"observation": [["", [2**62, 4]]]})
@example({"config": "[run]\nseed = \udcff"})
def test_any_description_is_refused_or_a_checkpoint(tmp_path, about):
    try:
        loaded = checkpoint.load(forge(tmp_path / "a.pt", about))
    except UserError as error:
        assert_clear(error)
    else:
        checkpoint.save(tmp_path / "again.pt", loaded)
        assert_same(checkpoint.load(tmp_path / "again.pt"), loaded)


def test_weights_of_another_network_are_refused(saved):
    loaded = checkpoint.load(saved)
    other = loaded._replace(config=read([], ["model.hidden_size=32"]))
    with pytest.raises(UserError, match="do not fit"):
        checkpoint.load_network(other, torch.device("cpu"))


def test_default_configuration_fits_its_network(tmp_path):
    action = ActionSpec.of(Discrete(9))
    network = make_network(Config().model, plain(54, 54, 1), action)
    checkpoint.save(
        tmp_path / "a.pt", Checkpoint(Config(), network.state_dict(), {}, Counters(), plain(54, 54, 1), action)
    )
    loaded = checkpoint.load_network(checkpoint.load(tmp_path / "a.pt"), torch.device("cpu"))
    assert loaded.initial_state(3).shape == (3, 0), "no memory"


@pytest.mark.parametrize(
    ("override", "module"),
    [
        ("id=os:Env-v0", "os"),
        ("wrapper=os.path:join", "os.path"),
        ("kwargs.env_id=os:Env-v0", "os"),
        ('kwargs.inner={"of": ["a", "os:Env-v0"]}', "os"),
        ('kwargs.inner=("a", ("os:Env-v0",))', "os"),
        ('kwargs.inner={"os:Env-v0", "a"}', "os"),
        ('kwargs.inner=[{"os:Env-v0": 1}]', "os"),
    ],
)
def test_any_id_with_a_module_needs_the_users_consent(override, module, monkeypatch):
    config = read(overrides=[f"environment.{override}"])
    with pytest.raises(UserError, match=rf"imports the module {module};"):
        checkpoint.check_imports(config)
    monkeypatch.setenv("KARTRL_IMPORT", f"a,{module}")
    checkpoint.check_imports(config)


def test_checkpoint_imports_only_modules_the_user_names(tmp_path, monkeypatch):
    config = read(overrides=["environment.id=crashing:Life-v0", "model.hidden_size=8"])
    network = make_network(config.model, plain(2), DISCRETE)
    path = tmp_path / "a.pt"
    checkpoint.save(path, Checkpoint(config, network.state_dict(), {}, Counters(), plain(2), DISCRETE))
    with (
        pytest.raises(UserError, match=r"imports the module crashing; .*KARTRL_IMPORT=crashing"),
        open_driver(path, (), "cpu"),
    ):
        pass
    with pytest.raises(UserError, match="imports the module crashing"):
        resumed_config(checkpoint.load(path), [], [])
    monkeypatch.setenv("KARTRL_IMPORT", "crashing")
    with open_driver(path, (), "cpu") as driver:
        assert driver.env.spec.id == "Life-v0"
    assert resumed_config(checkpoint.load(path), [], []) == config
