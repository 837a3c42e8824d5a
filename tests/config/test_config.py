"""The configuration: every key explained, every mistake named with the nearest valid thing."""

import re
from pathlib import Path
from typing import get_args

import pytest
from commands import assert_clear
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from kartrl.algorithms import ALGORITHMS
from kartrl.config import Algorithm, Config, arguments, dump, presets, read
from kartrl.config import settings as hyperparameters
from kartrl.errors import UserError
from kartrl.kart.levels import CIRCUITS

ROOT = Path(__file__).parents[2]


def test_default_cfg_holds_every_key_with_its_explanation():
    assert (ROOT / "default.cfg").read_text().endswith(dump(Config()))
    assert read([ROOT / "default.cfg"]) == Config()


def test_every_key_has_a_one_line_explanation():
    for name, section in Config().sections.items():
        for key, info in type(section).model_fields.items():
            assert info.description, f"{name}.{key}"
            assert "\n" not in info.description


def test_presets_are_found_by_name_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert {"cartpole", "lunarlander", "pong"} <= set(presets())
    for name in presets():
        assert read([name]) != Config()
    with pytest.raises(UserError, match=r"cartpol: cannot read .*cartpole, "):
        read(["cartpol"])
    (tmp_path / "pong").write_text("[run]\nseed = 5\n")
    assert read(["pong"]).run.seed == 5, "a file of one's own comes first"


def test_arguments_of_an_environment_are_typed():
    written = {
        "continuous": ("false", False),
        "slippery": ("True", True),
        "nothing": ("None", None),
        "obs_type": ("ram", "ram"),
        "map_name": ("8x8", "8x8"),
        "number": ("8", 8),
        "text": ('"8"', "8"),
        "share": ("0.5", 0.5),
        "sizes": ("[1, 2]", [1, 2]),
        "table": ('{"a": [true]}', {"a": [True]}),
        "gravity": ("-9.", -9.0),
        "half": (".5", 0.5),
        "spaced": ("- .5", -0.5),
        "small": ("+1E-3", 0.001),
        "hexadecimal": ("0x10", 16),
        "goal": ("(3, 4)", (3, 4)),
        "bare": ("3, 4", (3, 4)),
        "one": ("(3,)", (3,)),
        "some": ("{2, 1}", {1, 2}),
        "nested": ("{'a': (1., [none, 'b', -2]), 3: FALSE}", {"a": (1.0, [None, "b", -2]), 3: False}),
        "quoted": ("'true'", "true"),
        "escaped": (r"'\u200b\\'", "\u200b\\"),
        "date": ("2024-01-01", "2024-01-01"),
        "sum": ("3-4", "3-4"),
        "padded": ("007", "007"),
        "colour": ("#ff0000", "#ff0000"),
        "path": (r"C:\new", r"C:\new"),
        "words": ("[a, b]", "[a, b]"),
        "dots": ("...", "..."),
        "infinite": ("1e999", "1e999"),
        "minus_infinity": ("-inf", "-inf"),
        "infinite_one": ("[1e999]", "[1e999]"),
        "unhashable": ("{[1]: 2}", "{[1]: 2}"),
        "bytes": ("b'a'", "b'a'"),
        "deep": ("[" * 10_000, "[" * 10_000),
        "empty": ("", ""),
    }
    config = read([], [f"environment.kwargs.{name}={text}" for name, (text, _) in written.items()])
    for name, (text, value) in written.items():
        parsed = config.environment.kwargs[name]
        assert (parsed, type(parsed)) == (value, type(value)), text
    assert read(base=dump(config)) == config
    assert hyperparameters(config)["environment.kwargs.sizes"] == "[1, 2]"
    later = read(base=dump(config), overrides=["environment.kwargs.number=9"])
    assert later.environment.kwargs == {**config.environment.kwargs, "number": 9}


literals = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda values: st.lists(values) | st.lists(values).map(tuple) | st.dictionaries(st.text() | st.integers(), values),
    max_leaves=10,
)


@given(literals)
def test_argument_survives_being_written_and_read(value):
    for text in (repr(value), arguments.render(value)):
        assert repr(arguments.parse(text)) == repr(value)


@given(st.text("[](){},:'\"\\+-.0123456789ejtruefalsn #"))
def test_argument_of_any_text_can_be_written_and_read(text):
    value = arguments.parse(text)
    assert arguments.parse(arguments.render(value)) == value


def test_later_files_and_overrides_win(tmp_path):
    (tmp_path / "a.cfg").write_text("[run]\nseed = 5\nminutes = 3\n[levels]\nMarioCircuit.Act4 = train\n")
    (tmp_path / "b.cfg").write_text("[run]\nseed = 6\n")
    config = read([tmp_path / "a.cfg", tmp_path / "b.cfg"], ["run.minutes=4", "model.channels=8, 16,32"])
    assert (config.run.seed, config.run.minutes, config.model.channels) == (6, 4.0, (8, 16, 32))
    assert config.levels.uses["MarioCircuit.Act4"] == "train"
    assert read(base=dump(config)) == config


NONSENSE = ("x y", "-5", "nan", "1e99", "", "a/b", "0.5", "99999999999999999999999")


@pytest.mark.parametrize(
    "name",
    [f"{name}.{key}" for name, section in Config().sections.items() for key in type(section).model_fields],
)
def test_messages_have_no_words_of_a_library(name):
    for value in NONSENSE:
        try:
            read([], [f"{name}={value}"])
        except UserError as error:
            said = str(error)
            assert not re.search(r"Input|should|unable|parse|is not valid", said), said  # some are valid


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("system.agent=8", "--set system.agent=8: unknown key 'agent' in [system]; the nearest valid one is 'agents'"),
        ("sistem.agents=8", "unknown section [sistem]; the nearest valid one is 'system'"),
        ("system.agents=many", "[system] agents"),
        ("system.agents=0", "[system] agents: must be 1 or more or 'auto' (got '0')"),
        ("run.seed=-1", "[run] seed"),
        ("optimizer.learning_rate=nan", "finite"),
        (
            "algorithm.discount=perhaps",
            "[algorithm] discount: must be one number, or: linear START END, or: polynomial",
        ),
        ("algorithm.discount=linear 0.9 1.1", "[algorithm] discount: must be 1 or less"),
        ("algorithm.discount=linear 0.9", "must be one number, or: linear START END"),
        ("algorithm.discount=constant 0.9 0.99", "must be one number, or: linear START END"),
        ("algorithm.discount=0.9 0.99", "must be one number, or: linear START END"),
        ("algorithm.discount=piecewise", "or: piecewise AT VALUE AT VALUE ..."),
        ("algorithm.discount=piecewise 0 0.9", "piecewise must have two or more pairs AT VALUE"),
        ("algorithm.discount=piecewise 0 0.9 1", "piecewise must have two or more pairs AT VALUE"),
        ("algorithm.discount=piecewise 0 0.9 1 half", "must be one number, or: linear START END"),
        ("algorithm.discount=piecewise 0 0.9 5000 1", "each AT, a fraction of the run, from 0 to 1 and in order"),
        ("algorithm.discount=piecewise 0.5 0.9 0.2 1", "each AT, a fraction of the run, from 0 to 1 and in order"),
        ("algorithm.discount=piecewise 0 0.9 0.5 1.2 1 0.9", "[algorithm] discount: must be 1 or less"),
        ("optimizer.learning_rate=piecewise 0 0 1 0.001", "must start above 0"),
        ("algorithm.discount=", "must be one number, or: linear START END"),
        ("ppo.clip_range=linear 0 0.2", "must start above 0"),
        ("impala.entropy_cost=quadratic 0.1 0.2", "must be one number, or: linear START END"),
        ("levels.MarioCircuit.Act9=train", "MarioCircuit.Act4"),
        ("levels.MarioCircuit.Act4=exam", "'train', 'test' or 'none'"),
        ("kart.crop_top=200", "crop_top must be less than crop_bottom"),
        ("environment.crop=1 2 3", "must be X Y WIDTH HEIGHT, four whole numbers from 0 to 4096"),
        ("model.channels=1 2", "same length"),
        ("run.name=a/b", "[run] name"),
        ("run.name=..", "[run] name"),
        ("run.logs=a\nb", "unprintable characters"),
        ("run.seed=4294967296", "less than 4294967296"),
        ("model.channels=" + "8 " * 17, "at most 16 entries"),
        ("nonsense", "expected section.key=value"),
        (
            "algorithm.name=impalla",
            "[algorithm] name: must be 'appo', 'impala', 'acer', 'a3c', 'ppo' or 'a2c' (got 'impalla')",
        ),
        ("algorithm.reward_transform=tanh", "'none', 'sign', 'clip', 'asymmetric' or 'optimistic'"),
        ("model.encoder=resnet", "'convolutional', 'a3c', 'nature', 'a3g', 'impala' or 'mlp'"),
        ("model.core=rnn", "'lstm', 'gru' or 'none'"),
        ("algorithm.unroll_length=0", "[algorithm] unroll_length"),
        ("a2c.gae_lambda=1.5", "must be 1 or less"),
        ("a2c.value_target=mean", "must be 'lambda' or 'n-step'"),
        ("a3c.unroll_lengths=16 32", "[a3c]: unroll_lengths, share_statistics and devices need hogwild = true"),
        ("a3c.unroll_lengths=short", "[a3c] unroll_lengths: must be an integer or 'auto' (got 'short')"),
        ("optimizer.centered=true", "[optimizer]: centered is a variant of rmsprop, not of adam"),
        ("optimizer.momentum=0.9", "[optimizer]: momentum is a setting of rmsprop and sgd, not of adam; set it to 0"),
        ("environment.kwargs=8", "expected kwargs.NAME, one key per argument"),
        ("environment.kwargs.a b=8", "expected kwargs.NAME"),
        ("environment.kwargs.disable_env_checker=true", "kartrl sets this argument itself"),
        ("environment.wrapper=mine", "expected module:function"),
        ("impala.unroll_length=20", "unknown key 'unroll_length' in [impala]"),
        ("run.agent_steps=1e-3", "[run] agent_steps: must be an integer (got '1e-3')"),
        ("run.agent_steps=1.25e1", "[run] agent_steps: must be an integer (got '1.25e1')"),
        ("run.agent_steps=1e16", "[run] agent_steps: must be 1000000000000000 or less"),
        ("run.agent_steps=1e999999999", "[run] agent_steps: must be an integer"),
        ("evaluation.levels=0", "[evaluation] levels: must be 1 or more (got '0')"),
    ],
)
def test_mistakes_are_one_clear_line(override, message):
    with pytest.raises(UserError) as error:
        read([], [override])
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed = 1\n", "not a valid configuration"),
        ("[run]\nseed\n", "not a valid configuration"),
        ("[run]\nseed = 1\nseed = 2\n", "not a valid configuration"),
        ("[rum]\nseed = 1\n", "nearest valid one is 'run'"),
        ("[run]\nsede = 1\n", "nearest valid one is 'seed'"),
    ],
)
def test_mistakes_in_a_file_name_the_file(tmp_path, text, message):
    file = tmp_path / "mine.cfg"
    file.write_text(text)
    with pytest.raises(UserError) as error:
        read([file])
    assert "mine.cfg" in str(error.value)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("number", ["1e6", "1E+6", "1.e6", "+0.1e7", "10_00e3", "1_000_000", "1000000", "1000000.0"])
def test_a_number_of_steps_may_have_any_usual_form(tmp_path, number):
    (tmp_path / "mine.cfg").write_text(f"[run]\nagent_steps = {number}\n")
    assert read([tmp_path / "mine.cfg"]).run.agent_steps == 1_000_000
    assert read([], [f"run.agent_steps={number}"]) == read([tmp_path / "mine.cfg"])


def test_1e1_is_an_integer_in_every_key_that_takes_one():
    values = ["run.name=1e1", "run.seed=1e1", "system.agents=1e1", "model.channels=1e1 1e1, 1e1"]
    values += ["replay.capacities=1e1", "environment.mirrored_actions=1e0 0e0", "evaluation.levels=1e1"]
    config = read([], values)
    assert (config.run.name, config.run.seed, config.system.agents) == ("1e1", 10, 10)
    assert (config.model.channels, config.replay.capacities) == ((10, 10, 10), (10,))
    assert (config.environment.mirrored_actions, config.evaluation.levels) == ((1, 0), 10)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_file_that_begins_with_a_byte_order_mark_is_read(tmp_path, encoding, newline):
    text = newline.join(["# first", "[run]", "seed = 7", "name = Kart äß", ""])
    (tmp_path / "mine.cfg").write_bytes(("\ufeff" * (encoding == "utf-16-be") + text).encode(encoding))
    config = read([tmp_path / "mine.cfg"])
    assert (config.run.seed, config.run.name) == (7, "Kart äß")


def test_missing_and_binary_files(tmp_path):
    with pytest.raises(UserError, match="No such file"):
        read([tmp_path / "none.cfg"])
    (tmp_path / "binary.cfg").write_bytes(bytes(range(256)))
    with pytest.raises(UserError, match="cannot read"):
        read([tmp_path / "binary.cfg"])


def test_value_beginning_on_next_line_is_stored_as_read():
    config = read(base="[run]\nlogs =\n  there")
    assert config.run.logs == "there"
    assert read(base=dump(config)) == config


def test_values_may_hold_percent_signs(tmp_path):
    (tmp_path / "a.cfg").write_text("[run]\nname = 100%s\n")
    assert read([tmp_path / "a.cfg"]).run.name == "100%s"


SECTIONS = Config().sections
KEYS = [f"{name}.{key}" for name, section in SECTIONS.items() for key in type(section).model_fields]
LONG = "\udcc4" * 200
TEXT = st.text(
    alphabet=st.characters(exclude_categories=()), max_size=200
)  # lone surrogates too, as undecodable arguments have them
SOME = st.sampled_from(
    ["1", "0", "-1", "auto", "true", "nan", "1e999", "9" * 5000, "a b", "a\nb = c", "[run]", "#", "", "\x85", ".."]
)


def assert_config_or_one_line(**given):
    try:
        config = read(**given)
    except UserError as error:
        assert_clear(error)
    else:
        dump(config).encode()
        assert read(base=dump(config)) == config


@settings(max_examples=300, deadline=None)
@given(TEXT)
def test_any_text_is_a_configuration_or_one_clear_line(text):
    assert_config_or_one_line(base=text)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([f"[{name}]" for name in (*SECTIONS, "levels")]) | st.sampled_from(KEYS) | TEXT, SOME | TEXT
        )
    )
)
def test_any_lines_are_a_configuration_or_one_clear_line(lines):
    text = "\n".join(key if key.startswith("[") else f"{key.rpartition('.')[2]} = {value}" for key, value in lines)
    assert_config_or_one_line(base=text)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(KEYS) | TEXT, SOME | TEXT), max_size=4))
@example([(f"{LONG}.a", "1")])  # found by fuzzing: each character takes six in a message
@example([(f"run.{LONG}", "1")])
@example([("run.logs", LONG)])
@example([("run.name", "/" * 1000)])
def test_any_overrides_are_a_configuration_or_one_clear_line(overrides):
    assert_config_or_one_line(overrides=[f"{key}={value}" for key, value in overrides])


@settings(max_examples=100, deadline=None)
@given(
    st.fixed_dictionaries(
        {
            "run.seed": st.integers(0, 10**6),
            "run.name": st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1).filter(
                lambda text: not {"/", "\\"} & set(text) and text[0] != "."
            ),
            "system.agents": st.one_of(st.just("auto"), st.integers(1, 99)),
            "optimizer.learning_rate": st.floats(1e-9, 1.0)
            | st.tuples(st.sampled_from(["linear", "polynomial"]), st.floats(1e-9, 1.0), st.floats(0, 1.0)).map(
                lambda words: " ".join(map(str, words))
            )
            | st.lists(st.tuples(st.floats(0, 1), st.floats(1e-9, 1.0)), min_size=2).map(
                lambda points: " ".join(["piecewise", *(f"{at} {value}" for at, value in sorted(points))])
            ),
            "algorithm.name": st.sampled_from(["impala", "a2c"]),
            "algorithm.discount": st.floats(0, 1),
            "environment.grayscale": st.booleans(),
            f"levels.{CIRCUITS[0]}": st.sampled_from(["train", "test", "none"]),
        }
    )
)
def test_dump_and_read_are_inverse(values):
    config = read(
        [], [f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in values.items()]
    )
    assert config.run.name == values["run.name"]
    assert read(base=dump(config)) == config


def test_every_algorithm_has_a_section_without_shared_keys():
    names = get_args(Algorithm.model_fields["name"].annotation)
    assert set(names) == set(ALGORITHMS)
    for name in names:
        section = Config.model_fields[name].annotation
        assert not set(section.model_fields) & set(Algorithm.model_fields)


def test_sections_are_frozen():
    with pytest.raises(ValidationError):
        Config().run.seed = 3


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"methods": "queue uniform nearest"}, "unknown method 'nearest'; choose from queue, uniform"),
        ({"methods": "queue"}, "queue once, along with another"),
        ({"methods": "queue queue uniform"}, "queue once, along with another"),
        ({"methods": "queue uniform", "shares": "0.5 0.4"}, "sum to 1"),
        ({"methods": "queue uniform", "shares": "0.999 0.001"}, "0.01 or more each"),
        ({"methods": "queue uniform", "shares": "0.5 0.3 0.2"}, "one number for each of the 2 methods, got 3"),
        ({"methods": "queue uniform", "capacities": "5 6 7"}, "one number or 2"),
        ({"shares": "0.5 0.5"}, "shares and capacities need methods, but methods = auto"),
    ],
)
def test_replays_that_are_no_mixture_are_refused(values, message):
    with pytest.raises(UserError, match=message) as error:
        read(overrides=[f"replay.{key}={value}" for key, value in values.items()])
    assert_clear(str(error.value))


def test_shares_may_be_any_decimals_that_stand_for_a_fraction():
    for shares in ((0.7, 0.2, 0.1), (0.333, 0.333, 0.334), (1 / 3, 1 / 3, 1 / 3), (0.125, 0.125, 0.75)):
        text = " ".join(map(str, shares))
        config = read(overrides=["replay.methods=queue uniform uniform", f"replay.shares={text}"])
        assert read(base=dump(config)) == config
        drawn = config.replay.drawn("none")
        assert [(each.name, float(each.share)) for each in drawn] == [
            ("uniform", pytest.approx(shares[1], abs=1e-3)),
            ("uniform_2", pytest.approx(shares[2], abs=1e-3)),
        ]
    capacities = read(overrides=["replay.methods=queue uniform prioritised"])
    assert [each.capacity for each in capacities.replay.drawn("none")] == [100_000, 100_000]


def test_error_of_several_keys_names_all_their_sources():
    with pytest.raises(UserError, match=r"^cartpole and --set: \[optimizer\]: amsgrad") as error:
        read(["cartpole"], ["optimizer.amsgrad=true", "optimizer.name=sgd"])
    assert_clear(str(error.value))
