"""The benchmark of replays replays one step for each fresh one, and says what it has seen."""

import replay_speed
from gymnasium.spaces import Discrete

from kartrl.config import read
from kartrl.envs.observation_spec import plain
from kartrl.envs.spec import ActionSpec, EnvSpec
from kartrl.measuring.parts import Parts, replayed_steps
from kartrl.measuring.windows import Window
from kartrl.sizing.auto import choose_sizes

SPEC = EnvSpec("frames", plain(84, 84, 4), ActionSpec.of(Discrete(6)), 5e-3)


def test_each_method_replays_one_step_for_each_fresh_one():
    for method in replay_speed.METHODS:
        config = read([], ["system.agents=2", "system.envs_per_agent=4", *replay_speed.settings_of(method)])
        assert replayed_steps(config, choose_sizes(config, SPEC)) == (method != "none")


def test_acer_replays_as_often_as_its_ratio_says():
    config = read([], ["algorithm.name=acer", "acer.replay_ratio=3", "system.agents=2"])
    assert replayed_steps(config, choose_sizes(config, SPEC)) == 3


def test_row_has_medians_and_shares_of_their_windows_ideal():
    parts = Parts(1e-3, 0.0, {}, 0.0, 1.0)
    measurements = [
        replay_speed.Measurement(
            Window(rate, 1.0, 1.0, 0.0, 1.0, {}, idle, {"uniform": seconds}, {}), ideal, 1.0, parts
        )
        for rate, ideal, idle, seconds in ((900, 1000, 0.03, 2e-3), (1000, 2000, 0.04, 4e-3), (2000, 2500, 0.9, 1e-3))
    ]
    row = replay_speed.row("uniform", measurements)
    assert row == "| uniform | 1,000 | 1,000 | 2,000 | 0.80 | 4.0% | uniform 2.0 |"
