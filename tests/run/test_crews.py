"""What a run trains with: the symmetry of its network."""

import torch
from policies import SNAKE, save_policy

from kartrl.config import read
from kartrl.learning import checkpoint
from kartrl.run.crews import tied
from kartrl.sizing.inspection import inspect_env


def test_network_is_tied_if_it_is_new_or_was_symmetric(tmp_path):
    stored = checkpoint.load(save_policy(tmp_path, SNAKE))
    plain, symmetric = read(overrides=SNAKE), read(overrides=[*SNAKE, "environment.mirrored_actions=0 3 2 1"])
    spec, said = inspect_env(symmetric), []
    network = checkpoint.load_network(stored, torch.device("cpu"))
    assert tied(plain, network, inspect_env(plain), None, said.append) is None, "the environment has no mirror image"
    assert tied(symmetric, network, spec, stored, said.append) is None
    assert said == ["these weights are not mirror-symmetric: environment.mirrored_actions has no effect"]
    assert tied(symmetric, network, spec, None, said.append) is not None
    assert tied(symmetric, network, spec, stored, said.append) is not None, "now they are"
    assert len(said) == 1
