"""Faults of a circuit are reported all at once, each with its position."""

import math
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_circuits import FILES, OVAL, changed

from kartrl.cli import main
from kartrl.errors import UserError
from kartrl.kart.circuits.checks import IN_LINE, find_faults, find_road_faults
from kartrl.kart.circuits.format import Circuit, parse, read
from kartrl.kart.circuits.ground import compile_block
from kartrl.kart.circuits.line import line_of
from kartrl.kart.levels import KINDS

POINTS = parse(OVAL, "").points
HAIRPIN = read(FILES["MarioCircuit.Act2"]).points
SQUARE = {
    "corners": "right",
    "points": [(112, 512, 96), (112, 112, 96), (512, 112, 96), (912, 112, 96), (912, 912, 96), (112, 912, 96)],
}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("titel = 3", "unknown key titel; the nearest valid one is title"),
        ("coins = [{ at = 1, cuont = 2 }]", "unknown key coins.0.cuont; the nearest valid one is count"),
        ("rails = [{ form = 1 }]", "unknown key rails.0.form; the nearest valid one is from"),
        ("scenery = 2", "scenery must be 1 or less"),
        ('scenery = "much"', "scenery must be a number"),
        ('title = "lower case"', "title must be 1 to 14 capitals, digits and spaces"),
        ('kind = "lava"', "kind must be 'asphalt', 'dirt'"),
        ("points = [[1, 2, 80]]", "points must have at least 4 entries"),
        ("points = [[1, 2], [3, 4], [5, 6], [7, 8]]", "points.0.width is missing"),
        ("points = [[1, 2, 80, 4], [30, 4, 80], [50, 6, 80], [70, 8, 80]]", "points.0 must have at most 3 entries"),
        ("points = [[1, 2, 80], [30, 4, 8], [50, 6, 80], [70, 8, 80]]", ": points.1.width must be 32 or more$"),
        ("coins = [{ at = 12 }]", "coins.0.at is 12, but the points are numbered 0 to 11"),
        ("jumps = [{ at = 99 }]", "jumps.0.at is 99, but the points are numbered 0 to 11"),
        ("boosts = [{ at = -1 }]", "boosts.0.at must be 0 or more"),
        ("coins = 5", "coins must be a list, [ ... ]"),
        ("coins = [5]", "coins.0 must be a table, { ... }"),
        ("coins = [{ at = 1, count = 1.5 }]", "coins.0.count must be an integer"),
        ("rails = [{ from = 3, to = 20 }]", "rails.0.to is 20, but the points are numbered 0 to 11"),
        ("boosts = [{ at = 1, across = 2 }]", "boosts.0.across must be 1 or less"),
        ('patches = [{ ground = "mud" }]', "patches.0 needs either at (and across) or x and y"),
        ("trees = [[1, nan]]", "trees.0.y must be a finite number"),
        ("trees = [[1024, 5]]", "trees.0.x must be less than 1024"),
        ("points =", "not a TOML file"),
        ("points = " + 2000 * "[", "not a TOML file"),
        (
            "points = [[99, 99, 80], [99, 99, 80], [5, 6, 80], [7, 8, 80]]",
            "points 0 and 1 are less than 16 pixels apart",
        ),
        ("walls = [[-1, 2, 3, 4]]", "walls.0.x0 must be 0 or more"),
        ("walls = [[1, 2, 3]]", "walls.0.y1 is missing"),
    ],
)
def test_invalid_value_is_reported_with_file_and_key(tmp_path: Path, line: str, message: str) -> None:
    file = tmp_path / "mine.toml"
    key = line.partition(" ")[0]
    file.write_text(line + "\n" + re.sub(rf"^{key} = (\[\[[^$]*|.*$)", "", OVAL, flags=re.M))
    with pytest.raises(UserError) as caught:
        read(file)
    assert str(caught.value).startswith(f"{file}: ")
    assert re.search(message if message.endswith("$") else re.escape(message), str(caught.value))
    assert "\n" not in str(caught.value)


def test_invalid_keys_are_reported_together() -> None:
    with pytest.raises(UserError) as caught:
        parse(
            OVAL.replace("[160, 300, 80]", "[151, 512, 80]") + "coins = [{ at = 12 }]\njumps = [{ at = 50 }]",
            "mine.toml",
        )
    assert str(caught.value) == (
        "mine.toml: points 0 and 1 are less than 16 pixels apart; "
        "coins.0.at is 12, but the points are numbered 0 to 11; jumps.0.at is 50, but the points are numbered 0 to 11"
    )


def test_missing_or_binary_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.toml: cannot read"):
        read(tmp_path / "none.toml")
    (tmp_path / "odd.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match=r"odd\.toml: cannot read"):
        read(tmp_path / "odd.toml")


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"points": [(x * 0.5, y * 0.5, w) for x, y, w in POINTS]}, "the lap is 1[0-9]{3} pixels long"),
        ({"points": [(x, y, 48) for x, y, _ in POINTS]}, r"too narrow near point .* 48 pixels, asphalt needs 56"),
        ({"points": [(x - 90, y, w) for x, y, w in POINTS]}, r"the road leaves the map near point"),
        ({"points": [*POINTS[:6], (240, 560, 80), *POINTS[6:]]}, "the road comes within 20 pixels of itself"),
        ({"points": [*POINTS[:3], (512, 560, 80), *POINTS[4:]]}, "the turn is too sharp near point 3"),
        (
            {"points": POINTS[2:] + POINTS[:2]},
            r"not straight at point 0: it turns by \d\d degrees within 48 pixels, at most 12 are allowed; "
            "put points in line with it, 70 pixels behind and 70 ahead$",
        ),
        (
            {"corners": "right"},
            r"from point 0 \(150, 512\) to point 1 \(160, 300\) must go straight north, south, east or west",
        ),
        ({"trees": [(141, 501)]}, "the tree at 141, 501 stands on the road: it covers 136, 496 to 159, 519$"),
        ({"trees": [(1020, 500)]}, "the tree at 1020, 500 leaves the map"),
        (
            {"walls": [(100, 500, 300, 500)]},
            "the wall 100, 500, 300, 500 stands on the road: it covers 96, 496 to 303, 511$",
        ),
        ({"walls": [(600, 500, 300, 500)]}, "must go from its upper left to its lower right"),
        ({"patches": [{"ground": "mud", "at": 3}]}, "asphalt has no patches of mud; there are: none"),
        ({"coins": [{"at": k, "count": 8} for k in range(1, 6)]}, "there are 40 coins; at most 32"),
        (
            {"coins": 2 * [{"at": 3, "count": 2}]},
            "coin 0 of the row at 3 does not fit on the road: another coin is in the way",
        ),
        (
            {"coins": [{"at": 3}], "boosts": [{"at": 3}]},
            "coin 0 of the row at 3 does not fit .* a boost plate is in the way",
        ),
        ({"coins": [{"at": 6}], "jumps": [{"at": 6}]}, "coin 0 of the row at 6 does not fit .* a jump is in the way"),
        (
            {"boosts": [{"at": 3}, {"at": 3}]},
            "the boost plate at 3 does not fit on the road: a boost plate is in the way",
        ),
        (
            {"kind": "ice", "boosts": [{"at": 3}], "patches": [{"ground": "water", "at": 3}]},
            "the boost plate at 3 does not fit on the road: water is in the way",
        ),
        ({"kind": "planks", "trees": [(500, 500)]}, "planks has no trees"),
        (
            {"kind": "ice", "patches": [{"ground": "water", "at": 4, "size": 60}]},
            "less than 30 pixels of the road are free near point 3",
        ),
        (
            {"points": HAIRPIN, "jumps": [{"at": 7}]},
            "the jump at 7 is not on a straight: .* straight 40 pixels before and 72 after it",
        ),
        ({"jumps": [{"at": 0.1}]}, "the jump at 0.1 is too close to the start line: keep 48 pixels between them"),
        ({"jumps": [{"at": 11.9}]}, "the jump at 11.9 is too close to the start line"),
        ({"kind": "castle", **SQUARE, "jumps": [{"at": 2.85}]}, "the jump at 2.85 is not on a straight"),
        ({"kind": "castle", **SQUARE, "jumps": [{"at": 3.04}]}, "the jump at 3.04 is not on a straight"),
    ],
)
def test_fault_is_reported(values: dict, fault: str) -> None:
    found = find_faults(changed(**values))
    assert any(re.search(fault, one) for one in found), found


def test_jumps_on_straights_are_fine() -> None:
    assert find_faults(changed()) == []
    assert find_faults(changed(jumps=[{"at": 5.9}])) == []
    assert find_faults(changed(kind="castle", **SQUARE, jumps=[{"at": 1.5}, {"at": 2}, {"at": 3.5}])) == []


def test_faults_are_reported_together_without_consequential_ones() -> None:
    """A tree on the road would also leave too little of it free, and a diagonal piece would turn back."""
    found = find_faults(
        changed(
            kind="ice",
            points=POINTS[2:] + POINTS[:2],
            trees=[(290, 130), (284, 130)],
            walls=[(600, 500, 300, 500)],
            coins=[{"at": 4}],
            boosts=[{"at": 4}],
            jumps=[{"at": 0.1}],
            patches=[{"ground": "mud", "at": 3}],
        )
    )
    told = (
        "not straight at point 0",
        "the jump at 0.1",
        "tree at 290",
        "tree at 284",
        "the wall 600",
        "patches of mud",
        "coin 0 of the row at 4",
    )
    assert len(found) == len(told), found
    assert all(part in one for part, one in zip(told, found, strict=True)), found
    points = [(112, 512, 96), (112, 112, 96), (912, 112, 96), (900, 512, 96), (912, 912, 96), (112, 912, 96)]
    found = find_faults(changed(kind="castle", corners="right", points=points))
    assert [one for one in found if "turns back" in one or "must go straight" not in one] == []
    assert len(found) == 2


@given(st.floats(-80, 80), st.floats(-80, 80), st.floats(60, 100), st.floats(60, 100))
def test_points_in_line_make_a_straight_start(left: float, right: float, before: float, after: float) -> None:
    """Following the advice of the message about the start fixes it, whatever bends follow."""
    a, b = math.radians(left), math.radians(right)
    points = [
        (512 - IN_LINE, 140, 80),
        (512 - IN_LINE - before * math.cos(a), 140 + before * math.sin(a), 80),
        (200, 512, 80),
        (512, 880, 80),
        (824, 512, 80),
        (512 + IN_LINE + after * math.cos(b), 140 + after * math.sin(b), 80),
        (512 + IN_LINE, 140, 80),
    ]
    circuit = changed(points=[(512, 140, 80), *points])
    assert line_of(circuit).length > 1000
    assert not any("straight at point 0" in one for one in find_road_faults(circuit))


PLACES = st.tuples(st.integers(0, 1023), st.integers(0, 1023), st.integers(32, 160))
ATS = st.floats(0, 3.99)


@settings(max_examples=8, deadline=None)
@given(
    points=st.lists(PLACES, min_size=4, max_size=12),
    kind=st.sampled_from(KINDS),
    corners=st.sampled_from(("round", "right")),
    coins=st.lists(
        st.fixed_dictionaries({"at": ATS, "across": st.floats(-1, 1), "count": st.integers(1, 8)}), max_size=4
    ),
    boosts=st.lists(st.fixed_dictionaries({"at": ATS}), max_size=3),
    walls=st.lists(st.tuples(*4 * [st.integers(0, 1023)]), max_size=3),
    trees=st.lists(st.tuples(*2 * [st.integers(0, 1023)]), max_size=3),
    jumps=st.lists(st.fixed_dictionaries({"at": ATS}), max_size=2),
    rails=st.lists(st.fixed_dictionaries({"from": ATS, "to": ATS}), max_size=2),
    patches=st.lists(
        st.fixed_dictionaries({"ground": st.sampled_from(("mud", "lava", "water")), "at": ATS}), max_size=2
    ),
)
def test_any_valid_file_is_checked_and_compiled_without_a_crash(**values: object) -> None:
    try:
        circuit = Circuit.model_validate({"title": "X", **values})
    except ValueError:
        return
    found = find_faults(circuit)
    assert all(len(one) < 260 and "\n" not in one for one in found)
    block = compile_block(circuit)
    assert block.image().shape == (1024, 1024, 3)
    if not found:
        assert block.pack()


def test_check_takes_names_and_lists_all_that_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('titel = "A"\nkind = "lava"\nscenery = 2\ncorners = "odd"\npoints = 3\n')
    status = main(["circuit", "check", str(file), "MarioCircuit.Act1", "--no-drive"])
    lines = capsys.readouterr().out.splitlines()
    assert status == 1
    assert sum(line.startswith(f"{file}: ") for line in lines) == 6, "title, titel, kind, scenery, corners, points"
    assert any(line.startswith("MarioCircuit.Act1: good, ") for line in lines)
    for missing, said in (
        ("MarioCircut.Act2", "the nearest is MarioCircuit.Act2"),
        ("a.toml", "a.toml: neither"),
    ):
        assert main(["circuit", "check", str(file), missing]) == 2
        output = capsys.readouterr()
        assert (output.out, output.err.count("\n")) == ("", 1), "nothing is checked"
        assert said in output.err


def test_random_circuits_do_not_replace_edited_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make = ["circuit", "random", "--seed", "5", "-o", str(tmp_path)]
    assert main(make) == 0
    (file,) = tmp_path.glob("*.toml")
    generated = file.read_text()
    assert main(make) == 0, "the same again"
    file.write_text(edited := generated.replace("title", "# mine\ntitle"))
    assert main(make) == 2
    assert str(file) in capsys.readouterr().err
    assert file.read_text() == edited
    assert main([*make, "--force"]) == 0
    assert file.read_text() == generated
