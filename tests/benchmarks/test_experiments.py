"""The experiments that come along can be read, and every run of them can be made."""

from pathlib import Path

import pytest
from gymnasium.spaces import Discrete

from kartrl.comparison.experiment import read_experiment
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
