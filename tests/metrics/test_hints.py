"""Hints to a user whose run does not go well: on curves of real runs, and in the terminal."""

import csv
import io
import math
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces
from rich.console import Console

from kartrl.config import read
from kartrl.envs.episode import Episode
from kartrl.envs.spec import ActionSpec
from kartrl.envs.worlds import load_world
from kartrl.learning.counters import Counters
from kartrl.metrics.hints import Hints, entropy_scale
from kartrl.metrics.records import EpisodeRecord
from kartrl.metrics.terminal import Display, Status
from kartrl.sizing.outlook import Outlook

CURVES = Path(__file__).parent / "curves"
CARTPOLE = ["environment.id=CartPole-v1"]
RUNS = {  # name of a recorded run -> its actions, whether its reward is steady, agent steps and patience
    "kart": (9, True, 1_000_000, 60_000),
    "kart_rate_1": (9, True, 1_000_000, 60_000),
    "cartpole": (2, False, 200_000, 50_000),
    "cartpole_rate_1": (2, False, 200_000, 50_000),
    "taxi_masked": (6, False, 200_000, None),
    "taxi": (6, False, 200_000, None),
}
WRONG = {"kart_rate_1": {"entropy"}, "cartpole_rate_1": {"progress", "entropy"}, "taxi": {"entropy"}}
"""The rate is optimizer.learning_rate; Taxi without masks learns no more than not to do what is illegal."""


def replayed(name: str) -> tuple[Hints, dict[str, int]]:
    """Hints that were given a recorded run, and after how many steps each came."""
    actions, steady, steps, patience = RUNS[name]
    hints = Hints(read(), ActionSpec.of(spaces.Discrete(actions)), steady, patience, fresh=True)
    came: dict[str, int] = {}
    with (CURVES / f"{name}.csv").open() as file:
        for row in csv.DictReader(file):
            at, value = int(row["agent_steps"]), float(row["value"])
            if row["tag"] == "return":
                hints.trend.add(at, 1, value)
            elif row["tag"] == "reward":
                hints.trend.add(at, 3000, value)
            else:
                hints.add({f"losses/{row['tag']}": value, "losses/learning_rate": 0.001})
            hints.look(at, at / steps)
            came = {shown: came.get(shown, at) for shown in {*came, *hints.shown}}
    return hints, came


@pytest.mark.parametrize("name", RUNS)
def test_recorded_run_has_a_hint_only_if_it_fails(name: str) -> None:
    hints, came = replayed(name)
    assert {*came} == WRONG.get(name, set()), hints.shown
    assert hints.trend.risen == (not name.endswith("_rate_1"))
    assert {*hints.scalars().values()} <= {0.0, 1.0}


def test_policy_far_from_the_learners_is_a_hint_until_near() -> None:
    hints = Hints(read(overrides=CARTPOLE), None, False, None, fresh=True)
    new, shown = [], []
    for divergence in (0.9, 1.1, 0.7, 0.4, 2.0, math.nan):
        hints.add({"losses/behaviour_kl": divergence, "lag/mean": 12.0})
        new += hints.look(1000, 0.1)
        shown.append(float("lag" in hints.shown))
    assert shown == [0, 1, 1, 0, 1, 0]
    (text,) = new
    assert "12.0 updates old" in text
    assert "system.training_batch_size" in text
    assert hints.scalars() == {"hints/lag": 0.0}


def test_hint_before_the_first_reading_has_the_first_rate() -> None:
    hints = Hints(read(overrides=CARTPOLE), None, False, None, fresh=True)
    for number in range(60):
        hints.trend.add(100 * number, 1, 9.0 + number % 3)
    (text,) = hints.look(5900, 0.5)
    assert "optimizer.learning_rate (now 0.001)" in text


@pytest.mark.parametrize(("value", "scale"), [(-152.0, "0.01"), (75.0, "0.1"), (47.0, ""), (math.nan, "")])
@pytest.mark.parametrize("entropy", [0.001, 0.6])
def test_hint_names_the_scale_of_rewards_if_values_are_large(value: float, scale: str, entropy: float) -> None:
    hints = Hints(read(overrides=CARTPOLE), ActionSpec.of(spaces.Discrete(2)), False, None, fresh=True)
    for number in range(60):
        hints.add({"losses/entropy": entropy, "losses/value_mean": value, "losses/learning_rate": 0.001})
        hints.trend.add(100 * number, 1, -300.0 + number % 3)
    (text,) = hints.look(5900, 0.5)
    assert text.endswith(f"set algorithm.reward_scale={scale}") if scale else "reward_scale" not in text


def test_entropy_share_is_of_uniform_actions() -> None:
    space = spaces.Tuple((spaces.MultiDiscrete([2, 8]), spaces.MultiBinary(4)))
    scale = entropy_scale(ActionSpec.of(space))
    assert scale is not None
    assert scale(8 * math.log(2)) == pytest.approx(1)
    continuous = entropy_scale(ActionSpec.of(spaces.Box(-3.0, 5.0, (2,))))
    assert continuous is not None
    assert continuous(2 * math.log(2)) == pytest.approx(1), "of -1 to 1, to which bounds are scaled"
    mixed = spaces.Tuple((spaces.Discrete(2), spaces.Box(-1.0, 1.0, (1,))))
    assert entropy_scale(ActionSpec.of(mixed)) is None
    assert entropy_scale(ActionSpec.of(spaces.Discrete(1))) is None


def test_trend_of_noise_is_level_and_never_risen() -> None:
    for seed in range(20):
        random, hints = np.random.default_rng(seed), Hints(read(), None, False, None, fresh=True)
        words = set()
        for at in range(0, 200_000, 100):
            hints.trend.add(at, 1, random.normal(10, 5))
            words.add(hints.trend.word)
        assert not hints.trend.risen
        assert "level" in words


def displayed(terminal: bool, returns: list[float]) -> str:
    """What a run on CartPole with an episode each 100 steps shows, of 10,000 steps."""
    console = Console(file=io.StringIO(), width=200, height=40, force_terminal=terminal, color_system=None)
    world = load_world(read(overrides=[*CARTPOLE, "run.agent_steps=10000"]))
    outlook = Outlook(world.config.run, None)
    with Display(console, "run", world, action=ActionSpec.of(spaces.Discrete(2)), outlook=outlook) as display:
        for number, value in enumerate(returns):
            counters = Counters(100 * number, number, number, number / 4)
            display.add(EpisodeRecord(counters.agent_steps, Episode(9, value, True), False, counters.seconds))
            display.add_update(counters, 100, 1.0, {"losses/entropy": 0.5, "losses/learning_rate": 0.1})
            display.show(Status(counters, number / 100, 30.0, 400.0, 4.0, 8.0, 1.5, 2))
    return console.file.getvalue()


@pytest.mark.parametrize("terminal", [False, True])
def test_hint_is_shown_while_it_holds_and_said_once(terminal: bool) -> None:
    flat = [9.0 + number % 3 for number in range(60)]
    assert "has not risen in 5,900 agent steps" in displayed(terminal=True, returns=flat)
    risen = displayed(terminal, flat + [50.0 + number for number in range(40)])
    assert "Hint: " not in risen.rsplit("╭", 1)[-1] if terminal else risen.count("Hint: ") == 1
    assert risen.count("Measured: about ") == 1
    assert "72% of a random policy's" in risen or not terminal
