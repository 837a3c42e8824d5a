"""The experiments that come along can be read, each of their runs made, and no default changes what they train."""

import tomllib
from pathlib import Path

import pytest
from gymnasium.spaces import Discrete

from kartrl.comparison.experiment import Experiment, read_experiment
from kartrl.config import dump
from kartrl.config.ini import parse, presets
from kartrl.envs.observation_spec import plain
from kartrl.envs.spec import ActionSpec, EnvSpec
from kartrl.sizing.auto import choose_sizes

FILES = sorted((Path(__file__).parents[2] / "benchmarks").glob("*.toml"))
SPEC = EnvSpec("frames", plain(84, 84, 4), ActionSpec.of(Discrete(6)), 5e-3)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_run_of_an_experiment_has_sizes(file):
    _, cells = read_experiment(file, "algorithm")
    assert len({cell.folder for cell in cells}) == len(cells) > 10
    for cell in cells:
        small = cell.config.system.model_copy(update={"agents": 2, "envs_per_agent": 4})
        sizes = choose_sizes(cell.config.model_copy(update={"system": small}), SPEC)
        if file.stem.startswith("replay"):
            assert (sizes.replayed > 0) == (cell.algorithm != "none")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_experiment_has_whole_configurations(file):
    experiment = Experiment.model_validate(tomllib.loads(file.read_text("utf-8")))
    base, *common = experiment.common
    for parts in (common, *experiment.algorithms.values(), *experiment.environments.values()):
        assert not {*parts} & {*presets()}, "a preset may change: write out what it sets"
    given = parse((file.parent / base).read_text("utf-8"), base)
    _, cells = read_experiment(file, "algorithm")
    for section, keys in parse(dump(cells[0].config), "").items():
        if section != "levels":  # some give levels anew: "* = none"
            missing = keys.keys() - given[section].keys() - ({"logs", "name", "seed"} if section == "run" else set())
            assert not missing, f"add the default of today to [{section}] of {base}"
