"""The benchmark of forgetting: its runs are what it says, and its table is of its scores."""

import argparse

import forgetting
import pytest

from kartrl.config import dump, read
from kartrl.kart.selection import with_circuits
from kartrl.kart.world import KartWorld


@pytest.mark.parametrize(
    ("second", "circuits"),
    [
        ("planks", {f"GhostValley.Act{act}" for act in (1, 2, 3)}),
        ("ice", {"VanillaLake.Act1", "VanillaLake.Act2"}),
    ],
)
def test_the_second_ground_follows_with_no_circuit_of_both(second, circuits):
    trained, base = {}, ""
    for ground in (forgetting.FIRST, second):
        keys = forgetting.GROUNDS[ground]
        config = with_circuits(read([], [*forgetting.COMMON, *forgetting.levels_of(keys)], base=base))
        trained[ground] = set(KartWorld(config).levels("train"))
        base = dump(config)  # as the resumed run reads it
    assert trained == {"asphalt": {f"MarioCircuit.Act{act}" for act in (1, 2, 3, 4)}, second: circuits}


def test_methods_differ_only_in_replay_and_cloning():
    configs = {name: read([], [*forgetting.COMMON, *own]) for name, own in forgetting.METHODS.items()}
    assert {name: bool(config.replays) for name, config in configs.items()} == {
        "none": False,
        "uniform": True,
        "clear": True,
    }
    assert [name for name, config in configs.items() if config.clear.clones] == ["clear"]
    same = {config.model_copy(update={"replay": None, "clear": None}).model_dump_json() for config in configs.values()}
    assert len(same) == 1


def test_copied_run_is_the_same_and_leaves_the_first_unchanged(tmp_path):
    begun = tmp_path / "asphalt-1"
    for name in ("replay/a.unrolls", "replay/1.state", "checkpoints/1.pt", "scalars.csv"):
        (begun / name).parent.mkdir(parents=True, exist_ok=True)
        (begun / name).write_text(name)
    (tmp_path / "clear-1.partial").mkdir()  # of one that was broken off
    for name, with_replay in (("clear-1", True), ("none-1", False)):
        forgetting.copy_run(begun, tmp_path / name, with_replay)
        assert (tmp_path / name / "replay" / "a.unrolls").exists() == with_replay
        with (tmp_path / name / "scalars.csv").open("a") as file:
            file.write("more")
    forgetting.copy_run(begun, tmp_path / "clear-1", True)
    assert (tmp_path / "clear-1" / "scalars.csv").read_text() == "scalars.csvmore", "it is there already"
    assert (begun / "scalars.csv").read_text() == "scalars.csv"


def test_a_method_that_comes_too_late_for_the_replay_is_refused(tmp_path):
    (tmp_path / "asphalt-1").mkdir()
    for name in ("asphalt", "uniform"):
        (tmp_path / f"{name}-1.json").write_text("{}")
    options = argparse.Namespace(
        folder=tmp_path, steps=1000, methods=["uniform", "clear"], second="planks", episodes=1, config=[], set=[]
    )
    with pytest.raises(SystemExit, match="--methods clear: the replay of asphalt of seed 1 was removed"):
        forgetting.run_seed(options, 1, {})


def test_table_shows_losses_with_intervals():
    def scores(asphalt, ice):
        return {"asphalt": {"progress": asphalt, "finished": 0.0}, "ice": {"progress": ice, "finished": 1.0}}

    seeds = {
        seed: {"asphalt": scores(0.8 + shift, 0.1), "none": scores(0.2, 0.9), "clear": scores(0.7 + shift, 0.6)}
        for seed, shift in ((1, 0.0), (2, 0.1))
    }
    text = forgetting.table(seeds, ["none", "clear"], "ice")
    assert "| none | 0.85 [0.80, 0.90] | 0.20 [0.20, 0.20] | 0.65 [0.60, 0.70] | 0.10 [0.10, 0.10] | 0.90" in text
    assert "| clear | 0.85 [0.80, 0.90] | 0.75 [0.70, 0.80] | 0.10 [0.10, 0.10] |" in text
    assert "| none | 0.80 | 0.20 | 0.60 | 0.10 | 0.90 |" in forgetting.table({1: seeds[1]}, ["none"], "ice")
