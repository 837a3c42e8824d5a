"""The check of bundled configurations: what they must reach is theirs, and a seed below it is named."""

import presets
import pytest
from commands import ROOT
from prepared_folder import make_run

from kartrl.comparison.experiment import record
from kartrl.config import read
from kartrl.envs.episode import Episode
from kartrl.envs.worlds import load_world
from kartrl.kart.race_world import Race


def test_bars_are_measures_of_the_preset_s_world():
    assert {"default", "cartpole", "pendulum"} <= {*presets.bars()}
    for name, bar in presets.bars().items():
        world = load_world(read([] if name == presets.DEFAULT else [name]))
        episode = Episode(1, 0.0, finished=True, details=Race(0.0, (), 0.0, 1) if name == presets.DEFAULT else None)
        assert bar.measure in world.measure([episode])


def test_seeds_are_driven_on_every_level(tmp_path):
    cell = presets.cell_of(presets.DEFAULT, 1, tmp_path)
    driven = presets.drive(cell, ROOT / "kartrl/kart/weights/first_hour.pt", presets.Bar("finished", 0.9), 7)
    assert driven.mean in (0.0, 1.0), "one race each"
    assert driven.lowest > 10


def test_presets_below_their_bar_are_named(tmp_path, monkeypatch, capsys):
    cells = [presets.cell_of("cartpole", seed, tmp_path) for seed in (1, 2)]
    for cell in cells:  # as if they were trained to their end, having learned nothing
        record(cell)
        make_run(cell.folder, cell.config, cell.config.run.agent_steps)
    arguments = ["cartpole", "--seeds", "1", "2", "--episodes", "3", "--folder", str(tmp_path)]
    monkeypatch.setattr("sys.argv", ["presets.py", *arguments])
    assert presets.main() == 1
    assert "| cartpole | episodic_return 475 | **seed 1, 2 below** |" in capsys.readouterr().out
    monkeypatch.setattr(presets, "bars", lambda: {"cartpole": presets.Bar("episodic_return", 1.0)})
    assert presets.main() == 0
    assert "| cartpole | episodic_return 1 | each seed |" in capsys.readouterr().out


def test_presets_without_a_bar_are_refused(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["presets.py", "breakout"])
    with pytest.raises(SystemExit) as ended:
        presets.main()
    assert ended.value.code == 2
    assert "breakout: figures.toml has no `greedy` of it" in capsys.readouterr().err
