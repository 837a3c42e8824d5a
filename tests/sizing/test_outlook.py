"""What was measured of the bundled configurations, and what is expected of a run by it."""

import re

import pytest
from commands import ROOT

from kartrl.config import presets, read
from kartrl.learning.counters import Counters
from kartrl.sizing.outlook import DEFAULT, Outlook, figures, figures_of

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
    ("done", "speed", "minutes", "text"),
    [
        (
            0,
            1400,
            0,
            "about 12 min for 1,000,000 agent steps at 1,400/s; this configuration usually finishes its first",
        ),
        (0, 1400, 1, "about 60 s for 84,000 agent steps at 1,400/s; this configuration usually finishes its"),
        (50_000, 100, 0, "about 2.6 h for 950,000 more agent steps at 100/s; this configuration usually finishes 45"),
        (900_000, 1e6, 0, "about 1 s for 100,000 more agent steps at 1,000,000/s"),
        (0, 0, 0, "about 277.8 h for 1,000,000 agent steps at 1/s"),
    ],
)
def test_outlook_is_on_what_is_left(done: int, speed: float, minutes: int, text: str) -> None:
    config = read(overrides=[f"run.minutes={minutes}"])
    told = Outlook(config.run, figures_of(config, [])).tell(Counters(done), speed)
    assert told.startswith(text)
    assert ("first race after 20,000" in told) == (done < 20_000)
    assert ("45 of 50 races after 66,000" in told) == (done < 66_000)
    assert "usually" not in Outlook(config.run, None).tell(Counters(done), speed)


def test_speed_is_scaled_by_this_machines_step() -> None:
    known = figures_of(read(), [])
    assert known is not None
    assert known.speed(0.0, 2) == known.steps_per_second
    assert known.speed(0.0005, 4) == pytest.approx(2 * known.speed(0.0005, 2))
    assert known.speed(0.001, 2) == pytest.approx(known.speed(0.0005, 2) / 2)
