"""The keys of [levels]: what they may be, which one counts, and that they survive being written down."""

import pytest
from commands import assert_clear
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kartrl.config import Config, dump, read
from kartrl.errors import UserError
from kartrl.kart.levels import (
    CIRCUITS,
    KINDS,
    circuit_name,
    group_of,
    mistake,
    named,
    numbers_of,
    random_name,
)
from kartrl.kart.world import KartWorld


def levels(*overrides):
    return read([], [f"levels.{override}" for override in overrides])


def test_a_glob_names_circuits_and_the_last_key_counts():
    config = levels("*=none", "MarioCircuit.*=train", "*.Act3=test", "MarioCircuit.Act3=none")
    assert KartWorld(config).levels("train") == ("MarioCircuit.Act1", "MarioCircuit.Act2", "MarioCircuit.Act4")
    assert KartWorld(config).levels("test") == ("BowserCastle.Act3", "DonutPlains.Act3", "GhostValley.Act3")


def test_later_level_keys_win_across_files_and_overrides(tmp_path):
    (tmp_path / "a.cfg").write_text("[levels]\nMarioCircuit.Act1 = test\n* = none\nRainbowRoad.Act1 = train\n")
    (tmp_path / "b.cfg").write_text("[levels]\nMarioCircuit.Act1 = test\n")
    config = read([tmp_path / "a.cfg", tmp_path / "b.cfg"])
    assert (KartWorld(config).levels("train"), KartWorld(config).levels("test")) == (
        ("RainbowRoad.Act1",),
        ("MarioCircuit.Act1",),
    )
    again = read(base=dump(config))
    assert list(again.levels.uses.items()) == list(config.levels.uses.items()), "their order is part of what they mean"
    assert KartWorld(read(base=dump(config), overrides=["levels.*=test"])).levels("train") == ()


def trained_on(*overrides):
    return {key for key, use in levels(*overrides).levels.uses.items() if use == "train"}


def test_unnamed_levels_stay_as_in_the_default():
    default = {"MarioCircuit.Act1", "MarioCircuit.Act2", "MarioCircuit.Act3", "random:3:asphalt"}
    assert trained_on() == default
    assert trained_on("MarioCircuit.Act4=train") == default | {"MarioCircuit.Act4"}


def test_a_lone_asterisk_begins_anew():
    named = {f"MarioCircuit.Act{act}" for act in (1, 2, 3)}  # what * says of them comes later
    assert trained_on("*=none", "random:2=train") - named == {"random:2"}
    assert trained_on("random:2=train", "mine/=train", "*.Act1=none", "*=none") - named == set()
    assert KartWorld(levels("*=train")).levels("train") == CIRCUITS
    stored = dump(levels("random:2=train", "*=test"))
    assert KartWorld(read(base=stored)).levels("test") == CIRCUITS
    assert levels("random:2=train", "*=none", "random:2=train").levels.uses["random:2"] == "train"


@pytest.mark.parametrize(
    ("key", "numbers", "kind"),
    [
        ("random:100", range(100), None),
        ("random:1", range(1), None),
        ("random:100-119", range(100, 120), None),
        ("random:7-7:ice", range(7, 8), "ice"),
        ("random:100:mud", range(100), "mud"),
    ],
)
def test_random_circuits_are_named_by_seed_ranges(key, numbers, kind):
    assert numbers_of(key) == (numbers, kind)
    assert mistake(key) is None


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("random:0", "asks for 0"),
        ("random:9-3", "asks for 0"),
        ("random:10001", "asks for 10001"),
        ("random:", "expected random:COUNT"),
        ("random:1e3", "expected random:COUNT"),
        ("random:3:", "expected random:COUNT"),
        ("random:3:lava", "asphalt, dirt"),
        ("random:-3", "expected random:COUNT"),
        ("random:٣", "expected random:COUNT"),
        ("*.Act7", "no level has this name"),
        ("MarioCircuit.Act9", "'MarioCircuit.Act4'"),
        ("mine", "a path has a /"),
        ("#mine/", "not allowed in a configuration"),
        ("[ab]/x.state", "not allowed in a configuration"),
        ("[BG]*", "not allowed in a configuration"),
    ],
)
def test_level_keys_with_mistakes_are_one_clear_line(key, said):
    assert said in str(mistake(key))
    with pytest.raises(UserError, match="levels"):
        levels(f"{key}=train")


def test_files_may_name_paths_and_random_circuits(tmp_path):
    (tmp_path / "a.cfg").write_text(
        "[levels]\nrandom:100:ice = train\nmy circuits/*.state = train\n./[ab]?.toml = test\nC:\\mine\\a.state = none\n"
    )
    circuits = read([tmp_path / "a.cfg"]).levels.uses
    assert list(circuits)[-4:] == ["random:100:ice", "my circuits/*.state", "./[ab]?.toml", "C:\\mine\\a.state"]
    assert read(base=dump(read([tmp_path / "a.cfg"]))).levels.uses == circuits


def test_untrusted_configuration_has_a_limited_number_of_keys():
    with pytest.raises(UserError, match="at most 1000"):
        read(base="[levels]\n" + "".join(f"./{number}.state = train\n" for number in range(1000)))


def test_levels_to_be_looked_up_are_not_skipped():
    with pytest.raises(RuntimeError, match="looked up"):
        KartWorld(levels("random:5=train")).levels("train")


RANDOM = st.builds(
    lambda first, count, kind: f"random:{first}-{first + count - 1}" + (f":{kind}" if kind else ""),
    st.integers(0, 900_000),
    st.integers(1, 10_000),
    st.sampled_from(KINDS) | st.none(),
)
PATH = st.builds(
    "{}{}{}".format,
    st.sampled_from(["./", "../a/", "/", "a/", "~/"]),
    st.text(max_size=30),
    st.sampled_from(["", ".state", ".toml", "/"]),
)
KEY = (
    st.sampled_from([*CIRCUITS, "*", "*.Act1", "MarioCircuit.*", "[BG]*", "?[oh]*"])
    | RANDOM
    | PATH
    | st.text(max_size=30)
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(KEY, st.sampled_from(["train", "test", "none"])), max_size=6))
@example([("a/\x85b", "train")])
@example([("./ a ", "train")])
@example([("random:1 ", "train")])
@example([("./a;b:c#d", "train")])
def test_any_keys_survive_writing_or_are_one_clear_line(keys):
    try:
        config = read([], [f"levels.{key}={use}" for key, use in keys])
    except UserError as error:
        assert_clear(error)
    else:
        assert list(read(base=dump(config)).levels.uses.items()) == list(config.levels.uses.items())
        written = [key.strip() for key, _ in keys if "=" not in key]
        anew = len(written) - written[::-1].index("*") - 1 if "*" in written else 0
        assert set(written[anew:]) <= set(config.levels.uses)


@settings(max_examples=200, deadline=None)
@given(RANDOM, RANDOM)
def test_ranges_that_do_not_overlap_share_no_circuit(one, other):
    members = [{random_name(number, kind) for number in numbers} for numbers, kind in map(numbers_of, (one, other))]
    if not set(numbers_of(one).numbers) & set(numbers_of(other).numbers):
        assert not members[0] & members[1]
    assert len(members[0]) == len(numbers_of(one).numbers)


def test_level_names_are_resolved():
    assert circuit_name("MarioCircuit.Act1") == "MarioCircuit.Act1"
    assert circuit_name("/home/a b/My ring, 2.state") == "My_ring_2"
    assert circuit_name("/cache/random.ice.0017.state") == random_name(17, "ice") == "random.ice.0017"
    assert [group_of(name) for name in ("MarioCircuit.Act1", "random.ice.0017", "Monza")] == [
        "MarioCircuit",
        "random.ice",
        "own",
    ]
    assert named(Config().levels.uses) == Config().levels.uses
