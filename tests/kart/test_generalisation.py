"""The generalisation benchmark: its splits, its statistics, and short complete runs in real processes."""

import io
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarking import OVERRIDES, TINY, plan
from commands import HELPERS, assert_clear, environment, run, steps, wait_for
from needs import needs_kart
from PIL import Image
from rich.console import Console

from kartrl.errors import UserError
from kartrl.kart.generalisation import benchmark, make_plan
from kartrl.kart.generalisation.protocol import Protocol
from kartrl.kart.generalisation.report import report
from kartrl.kart.generalisation.results import circuit_measures, make_matrix, make_rows
from kartrl.kart.generalisation.splits import COUNTS, FOLDS, QUICK, SEEN, SPLITS, UNSEEN, chosen, kind_of
from kartrl.kart.levels import CIRCUITS, KINDS, is_random, mistake, named, numbers_of
from kartrl.kart.world import KartWorld
from kartrl.learning import checkpoint


def unseen(split):
    return [key for keys in split.unseen.values() for key in keys]


@pytest.mark.parametrize("split", [*SPLITS, *QUICK], ids=lambda split: split.name)
def test_unseen_circuits_are_never_trained_on(split):
    keys = [*split.train, *split.seen, *unseen(split)]
    assert all(mistake(key) is None for key in keys)
    trained = {number for key in split.train if key.startswith("random") for number in numbers_of(key).numbers} | set(
        split.train
    )
    tested = {number for key in unseen(split) if key.startswith("random") for number in numbers_of(key).numbers} | set(
        unseen(split)
    )
    assert not trained & tested
    circuits = Protocol(1000, 1, ()).config_of(split, 1, Path("logs/a")).levels.uses
    meant = {key: use for key, use in circuits.items() if is_random(key)}
    meant |= named({key: use for key, use in circuits.items() if not is_random(key)})
    assert {key for key, use in meant.items() if use == "train"} == set(split.train)


def test_splits_hold_out_the_documented_circuits():
    within = SPLITS[0]
    assert {kind_of(name) for name in within.train} == {kind_of(name) for name in unseen(within)}
    folds = [split for split in SPLITS if split.group == "across"]
    assert sorted(name for fold in folds for name in unseen(fold)) == sorted(CIRCUITS), (
        "each circuit is unseen in one fold"
    )
    for fold, kinds in zip(folds, FOLDS, strict=True):
        assert {kind_of(name) for name in unseen(fold)} == set(kinds)
        assert not {kind_of(name) for name in fold.train} & set(kinds)


def test_splits_are_chosen_by_name_or_group():
    assert [split.name for split in chosen(["across"], SPLITS)] == ["across-1", "across-2", "across-3", "across-4"]
    assert [split.name for split in chosen(["random30", "within", "across-2"], SPLITS)] == [
        "within",
        "across-2",
        "random30",
    ]
    assert [split.name for split in chosen(["random"], SPLITS)] == [f"random{count}" for count in COUNTS]
    assert [split.name for split in chosen(["kinds"], SPLITS)] == list(KINDS)
    assert chosen([], SPLITS) == list(SPLITS)
    plan = make_plan(None, True, ["within"], (None, 5, None), [])
    assert (plan.folder.name, plan.seeds, plan.protocol.agent_steps, plan.protocol.quick) == (
        "generalisation-quick",
        1,
        5,
        True,
    )


def episode(finished, progress, *laps):
    return {"finished": finished, "progress": progress, "lap_times": list(laps)}


def test_measures_of_a_circuit():
    measures = circuit_measures([episode(True, 5.0, 20, 22, 24, 20, 20), episode(False, 1.5, 30)], 16.0)
    assert measures == {"finished": 0.5, "progress": pytest.approx(0.65), "lap_time": 21 / 16}
    assert circuit_measures([episode(False, 0.5)], 16.0)["lap_time"] is None
    assert circuit_measures([episode(False, 1.0, 20)], None)["lap_time"] is None


def result(split, seed, **circuits):
    """Of a run: circuit -> (set, share of two races finished)."""
    members = {
        name: {
            "set": of,
            "episodes": [
                episode(number < 2 * share, 5.0 if number < 2 * share else 0.0, *[20] * 5) for number in range(2)
            ],
        }
        for name, (of, share) in circuits.items()
    }
    return {"split": split, "seed": seed, "circuits": members}


RESULTS = [
    result("across-1", 1, a=(SEEN, 1), b=("unseen kinds", 0)),
    result("across-2", 1, b=(SEEN, 1), a=("unseen kinds", 1), c=("unseen kinds", 1)),
    result("across-1", 2, a=(SEEN, 1), b=("unseen kinds", 0.5)),
    result("across-2", 2, b=(SEEN, 0.5), a=("unseen kinds", 1), c=("unseen kinds", 0)),
    result("within", 1, a=(SEEN, 1), b=("unseen", 1)),
]
REFERENCE = {"a": 16.0, "b": 10.0, "c": None}


def test_folds_are_combined_by_circuit_for_shared_seeds():
    table = {(row.split, row.set): row for row in make_rows(RESULTS, REFERENCE)}
    assert list(table)[:2] == [("across-1", SEEN), ("across-1", "unseen kinds")]
    together = table["across", "unseen kinds"]
    assert (together.circuits, together.seeds) == (3, 2)
    assert together.finished.value == pytest.approx((1 + 0.25 + 0.5) / 3), "each circuit is the mean over its seeds"
    assert together.lap_time.value == pytest.approx((1.25 + 2) / 2)
    assert together.timed == 2, "the scripted driver has no lap on c"
    assert table["across-1", "unseen kinds"].lost.value == 0.75
    assert table["across-1", SEEN].lost is None
    incomplete = make_rows([*RESULTS[:3]], REFERENCE)
    assert {row.split: row.seeds for row in incomplete} == {"across-1": 2, "across-2": 1, "across": 1}


CURVE = [
    result("random3", 1, a=(SEEN, 1), b=(SEEN, 1), c=(UNSEEN, 0), d=(UNSEEN, 1)),
    result("random3", 2, a=(SEEN, 1), b=(SEEN, 1), c=(UNSEEN, 0.5), d=(UNSEEN, 1)),
    result("random300", 1, a=(SEEN, 0.5), c=(UNSEEN, 0.5)),
    *(
        result(kind, 1, own=(SEEN, 1), **{other: (other, 1 if other == kind else 0.5) for other in KINDS})
        for kind in KINDS[:2]
    ),
]


def test_intervals_are_of_a_bootstrap_over_circuits():
    rows = {(row.split, row.set): row for row in make_rows(CURVE, REFERENCE)}
    seen, unseen = rows["random3", SEEN], rows["random3", UNSEEN]
    assert (seen.seeds, rows["random300", SEEN].seeds) == (2, 1)
    assert (seen.finished.value, unseen.finished.value, unseen.lost.value) == (1.0, 0.625, 0.375)
    assert unseen.finished[1:] == (0.25, 1.0), "circuits are drawn anew, their seeds together"
    assert unseen.lost[1:] == (0.0, 0.75)
    assert seen.lap_time.value == pytest.approx((1.25 + 2) / 2)
    assert unseen.lap_time is None, "the scripted driver has no lap on c and d"
    assert rows["random300", UNSEEN].lost == (0.0, 0.0, 0.0)


def test_circuits_of_both_sets_are_drawn_independently():
    halves = {f"seen{i}": (SEEN, i % 2) for i in range(20)} | {f"unseen{i}": (UNSEEN, i % 2) for i in range(20)}
    _, row = make_rows([result("random30", 1, **halves)], {})
    assert row.lost.value == 0
    assert row.lost.low < -0.2
    assert row.lost.high > 0.2


def test_matrix_of_kinds():
    matrix = make_matrix(make_rows(CURVE, REFERENCE))
    assert list(matrix) == list(KINDS[:2])
    assert matrix["dirt"] == {kind: 1.0 if kind == "dirt" else 0.5 for kind in KINDS}


def test_report(tmp_path):
    about = {"protocol": {"agent_steps": 1000, "episodes": 2, "policy": "greedy", "quick": True}}
    about |= {"kartrl": "1", "rom_build_id": "0", "machine": "a machine"}
    table = report(tmp_path, RESULTS, REFERENCE, about)
    assert "| across | trained on | 2 | 2 | 88% [75%, 100%] |" in table
    text = (tmp_path / "results.md").read_text()
    assert table in text
    assert (
        "| within | unseen | 1 | 1 | 100% [100%, 100%] | 100% [100%, 100%] | 2.00 [2.00, 2.00] | 0% [0%, 0%] |" in text
    )
    assert "do not follow the protocol" in text
    content = json.loads((tmp_path / "results.json").read_text())
    assert content["runs"] == json.loads(json.dumps(RESULTS))
    assert len(content["rows"]) == 8
    assert not (tmp_path / "curve.png").exists()
    with Image.open(tmp_path / "results.png") as picture:
        assert picture.size[0] == 1100
        assert len(picture.convert("RGB").resize((110, 50)).getcolors(5500)) > 20
    report(tmp_path, CURVE, REFERENCE, about)
    text = (tmp_path / "results.md").read_text()
    assert "| random3 | unseen generated | 2 | 2 | 62% [25%, 100%] | 62% [25%, 100%] | - | 38% [0%, 75%] |" in text
    assert "| asphalt | asphalt | 1 | 1 | 100% [100%, 100%] |" in text
    assert "| asphalt | dirt | 1 |" not in text, "the matrix has it"
    assert "| asphalt | 100% | 50% | 50% | 50% | 50% | 50% | 50% | 50% |" in text
    for name in ("curve.png", "kinds.png"):
        with Image.open(tmp_path / name) as picture:
            assert len(picture.convert("RGB").resize((110, 50)).getcolors(5500)) > 20


def give_laps(folder):
    """The laps of the scripted driver, which are measured in the next test."""
    folder.mkdir()
    (folder / "reference.json").write_text(json.dumps(dict.fromkeys((*TINY.train, *TINY.unseen["unseen"]), 20.0)))


@needs_kart
@pytest.mark.timeout(300)
def test_benchmark_completes_and_repeats_no_finished_run(tmp_path):
    folder = tmp_path / "out"
    console = Console(file=io.StringIO(), width=150)
    assert benchmark(plan(folder, 300), console) == 0
    written = json.loads((folder / "runs" / "tiny-seed1" / "result.json").read_text())
    assert written["agent_steps"] >= 300
    assert {name: member["set"] for name, member in written["circuits"].items()} == {
        "MarioCircuit.Act1": SEEN,
        "MarioCircuit.Act4": "unseen",
    }
    stored = checkpoint.load(checkpoint.newest(folder / "runs" / "tiny-seed1")).config
    assert KartWorld(stored).levels("train") == TINY.train
    assert (stored.run.seed, stored.evaluation.minutes, stored.world.kart.game) == (1, 0, "bundled")
    about = json.loads((folder / "protocol.json").read_text())
    assert about["splits"]["tiny"]["train"] == list(TINY.train)
    assert 10 < json.loads((folder / "reference.json").read_text())["MarioCircuit.Act1"] < 40

    before = (folder / "runs" / "tiny-seed1" / "scalars.csv").stat().st_mtime_ns
    assert benchmark(plan(folder, 300, seeds=2), console) == 0
    assert (folder / "runs" / "tiny-seed1" / "scalars.csv").stat().st_mtime_ns == before
    assert [one["seed"] for one in json.loads((folder / "results.json").read_text())["runs"]] == [1, 2]
    assert "tiny-seed2, 1 of 1: training" in console.file.getvalue()

    for other, said in (
        (plan(folder, 400), "agent_steps"),
        (plan(folder, 300, overrides=OVERRIDES[:2]), "configuration differs"),
    ):
        with pytest.raises(UserError) as error:
            benchmark(other, console)
        assert said in str(error.value)
    with pytest.raises(UserError, match="another split tiny"):
        benchmark(plan(folder, 300, split=TINY._replace(train=("MarioCircuit.Act2",))), console)


@needs_kart
@pytest.mark.slow
@pytest.mark.timeout(600)  # a minute on a busy machine
def test_interrupted_benchmark_resumes(tmp_path):
    folder, script = tmp_path / "out", HELPERS / "benchmarking.py"
    # checkpoints come every 1.2 s: so many steps that the training is far from its end when the first one is seen
    limit = 10_000
    give_laps(folder)
    command = [sys.executable, str(script), str(folder), str(limit), "1"]
    with subprocess.Popen(
        command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        wait_for(
            lambda: steps(folder / "runs" / "tiny-seed1") > 0 or process.poll() is not None, 150, "a first checkpoint"
        )
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=100)
    assert process.returncode != 0
    assert "run the same command to resume" in said
    reached = int(checkpoint.newest(folder / "runs" / "tiny-seed1").stem)
    assert 0 < reached < limit, "the training has saved what it had"
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr
    assert f"Resuming at {reached:,} agent steps" in (folder / "runs" / "tiny-seed1.log").read_text()
    assert (folder / "results.md").exists()


@needs_kart
def test_failed_run_is_reported_and_does_not_stop_the_others(tmp_path):
    give_laps(tmp_path / "out")
    console = Console(file=io.StringIO(), width=300)
    assert benchmark(plan(tmp_path / "out", 300, overrides=("kart.actions=none nonsense",)), console) == 1
    text = console.file.getvalue()
    assert "exit status 2" in text
    assert "nonsense".upper() in text
    assert "Failed: tiny-seed1" in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--splits", "sideways"], "choose from within, across-1"),
        (["--set", "run.seed=4"], "the benchmark sets run.seed"),
        (["--set", "levels.*=train"], "the benchmark sets levels.*"),
        (["--set", "model.hiden_size=4"], "hidden_size"),
    ],
)
@needs_kart
def test_invalid_arguments_are_one_line_and_leave_no_files(tmp_path, arguments, said):
    done = run("benchmark", "generalisation", *arguments, "-o", "out", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert said in done.stderr
    assert not (tmp_path / "out").exists()
    assert_clear(UserError(done.stderr.strip()))
