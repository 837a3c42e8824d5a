"""What was measured of the bundled configurations, and what is expected of a run by it."""

import math
import re

import pytest
from commands import ROOT

from kartrl.config import presets, read
from kartrl.config.presets.figures import DEFAULT, expectation, figures, figures_of

ANCHOR = re.compile(r"^#+ (.+)$", re.MULTILINE)


def test_figures_are_of_bundled_configurations_and_documented() -> None:
    assert {*figures()} - {DEFAULT} <= {*presets()}
    for name, measured in figures().items():
        file, _, anchor = measured["source"].partition("#")
        headings = ANCHOR.findall((ROOT / file).read_text())
        assert anchor in {re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-") for text in headings}, name
        steps = [at for _, at in measured["goals"]]
        assert steps == sorted(steps)
        config = read([] if name == DEFAULT else [name])
        found = figures_of(config, [] if name == DEFAULT else [name])
        assert found is not None
        assert steps[-1] <= config.run.agent_steps


def test_figures_are_of_what_trains_the_same() -> None:
    same = read(["cartpole"], ["run.agent_steps=1000", "optimizer.learning_rate=1"])
    assert figures_of(same, ["cartpole"]) is not None
    for override in ("algorithm.name=ppo", "environment.id=Acrobot-v1", "model.core=lstm"):
        assert figures_of(read(["cartpole"], [override]), ["cartpole"]) is None
    assert figures_of(read(), []) is not None
    assert figures_of(read(overrides=["environment.id=CartPole-v1"]), []) is None
    assert figures_of(same, ["mine.cfg"]) is None


@pytest.mark.parametrize(
    ("done", "speed", "most", "text"),
    [
        (0, 1400, math.inf, "about 12 min for 1,000,000 agent steps at 1,400/s; this configuration usually finishes "),
        (0, 1400, 60, "about 60 s for 84,000 agent steps at 1,400/s; this configuration usually finishes its first"),
        (
            50_000,
            100,
            math.inf,
            "about 2.6 h for 950,000 more agent steps at 100/s; this configuration usually finishes",
        ),
        (900_000, 1e6, math.inf, "about 1 s for 100,000 more agent steps at 1,000,000/s"),
    ],
)
def test_expectation_is_of_what_is_left(done: int, speed: float, most: float, text: str) -> None:
    known = figures_of(read(), [])
    told = expectation(known, 1_000_000, done, speed, most)
    assert told.startswith(text)
    assert ("first race after 20,000" in told) == (done < 20_000)
    assert told.endswith(" s)") == (done < 67_000 and speed > 1000) or done >= 67_000 or speed == 100


def test_speed_is_scaled_by_this_machines_step() -> None:
    known = figures_of(read(), [])
    assert known is not None
    assert known.speed(0.0, 2) == known.steps_per_second
    assert known.speed(0.0005, 4) == pytest.approx(2 * known.speed(0.0005, 2))
    assert known.speed(0.001, 2) == pytest.approx(known.speed(0.0005, 2) / 2)
