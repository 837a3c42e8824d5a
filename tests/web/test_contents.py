"""What a page is told, for all kinds of actions and observations."""

from pathlib import Path

import choosing
import numpy as np
import pytest
import torch
from policies import save_policy

from kartrl.driving.driver import open_driver
from kartrl.learning import checkpoint
from kartrl.viewer.show import Show
from kartrl.web import contents, session
from kartrl.web.attribution import Attribution

NAMES = {"tuple": ["0", "1"], "dict": ["arm.0 1", "arm.0 2", "arm.1 1", "arm.1 2", "gear"]}  # of columns
SMALL = ("model.hidden_size=16",)


@pytest.fixture(autouse=True)
def _trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KARTRL_IMPORT", "choosing,parts_zoo")


@pytest.mark.parametrize("kind", choosing.SPACES)
def test_each_choice_sums_to_one_and_numbers_are_in_bounds(kind: str, tmp_path: Path) -> None:
    path = save_policy(tmp_path, [f"environment.id=choosing:Legal-{kind}-v0", *SMALL])
    with open_driver(path, [], "cpu", render=True) as driver:
        show = Show(driver, path, None, greedy=False, seconds=0, say=str)
        columns = contents.policy(show)
        assert [column["name"] for column in columns] == NAMES.get(kind, [""] * len(columns))
        assert len(columns) == show.action.columns
        for column in columns:
            if column["kind"] == "choice":
                assert sum(p for *_, p in column["bars"]) == pytest.approx(1, abs=1e-5)
                assert column["bars"][column["chosen"]][2] > 0
            else:
                low, mean, high, _ = column["values"]
                assert low < mean < high
        own = [column["chosen"] if column["kind"] == "choice" else 0.0 for column in columns]
        assert session.hand_of(show, own) is not None
        for bad in ([*own, 0], own[:-1], None, "0"):
            assert session.hand_of(show, bad) is None
        for number in (9.0, float("nan"), float("inf"), 10**400, None):
            assert session.hand_of(show, [number] * len(own)) is None
        for _ in range(12):  # whatever a person wants, what is illegal is not taken
            show.hand = session.hand_of(show, [1 if column["kind"] == "choice" else 1.0 for column in columns])
            show.step()


@pytest.mark.parametrize("extra", [(), ("model.critic=separate",), ("model.critic=detached",), ("model.core=lstm",)])
def test_attribution_is_the_gradient_times_the_input(extra: tuple[str, ...], tmp_path: Path) -> None:
    path = save_policy(tmp_path, ["environment.id=CartPole-v1", "model.activation=tanh", *SMALL, *extra])
    with open_driver(path, [], "cpu", render=True) as driver:
        show = Show(driver, path, None, greedy=True, seconds=0, say=str)
        show.step()
        thought = show.thought
        ((of_value, of_action),) = Attribution(path).explain(thought)
    network = checkpoint.load_network(checkpoint.load(path), torch.device("cpu"))

    def value(observation: np.ndarray) -> float:
        first, given = torch.tensor([thought.first]), torch.from_numpy(observation)[None]
        with torch.inference_mode():
            return float(network.step(given, first, thought.memory)[1])

    slopes = []
    for number in range(4):
        moved = np.zeros(4, np.float32)
        moved[number] = 1e-2
        slopes.append((value(thought.observation + moved) - value(thought.observation - moved)) / 2e-2)
    np.testing.assert_allclose(of_value, thought.observation * slopes, atol=1e-4)
    assert np.abs(of_action).sum() > 0


def test_every_part_of_an_observation_is_shown_and_explained(tmp_path: Path) -> None:
    path = save_policy(tmp_path, ["environment.id=parts_zoo:Signals-v0", *SMALL])
    with open_driver(path, [], "cpu", render=True) as driver:
        show = Show(driver, path, None, greedy=True, seconds=0, say=str)
        parts, pictures = contents.seen(show, Attribution(path).explain(show.thought))
        assert [part["name"] for part in parts] == [part.name for part in show.observation.parts]
        assert [name for name, _ in pictures] == [f"{name}{i}" for i in (0, 1) for name in ("seen", "value", "action")]
        assert all(file.startswith(b"\xff\xd8") for _, file in pictures), "JPEGs"
        state = next(part for part in parts if "state" in part["name"])
        assert state["numbers"][::2] == [0.5, -0.5]
        assert all(max(map(abs, moved)) == 1 for moved in state["moved"])
