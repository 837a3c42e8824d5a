"""On TensorBoard's page a value removes its tag's later ones that were written before: nothing may come late."""

from pathlib import Path

import numpy as np
import pytest
from commands import wait_for
from tensorboard_page import Page, tensorboard

from kartrl.config import read
from kartrl.learning.counters import Counters
from kartrl.metrics import scalars_csv
from kartrl.metrics.sinks import Sinks
from kartrl.run.evaluation.files import EvaluationFiles

TAG = "evaluation/train_return"
PICTURE = np.zeros((8, 8, 3), np.uint8)


def log(folder: Path, first_step: int, *steps: int, rate: str = "0.1") -> None:
    """What a logger writes that is given an evaluation at each of these steps."""
    folder.mkdir(exist_ok=True)
    sinks = Sinks(folder, first_step, read(overrides=[f"optimizer.learning_rate={rate}"]))
    for step in steps:
        sinks.scalars(step, {TAG: step / 2}, step / 10)
    sinks.close()


def picture(folder: Path, first_step: int | None, *steps: int) -> None:
    """What an evaluator draws of the checkpoints of these steps."""
    folder.mkdir(exist_ok=True)
    files = EvaluationFiles(folder, first_step)
    for step in steps:
        files.write(Counters(step), "train/CartPole-v1", "picture", PICTURE, [PICTURE, PICTURE], list)
    files.close()


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs whose logger or evaluator wrote in several parts."""
    logs = tmp_path_factory.mktemp("logs")
    log(logs / "late", 0, 100, 200, 300, 150)
    log(logs / "replaced", 0, 100, 200)
    log(logs / "replaced", 250, 150, 300)
    log(logs / "resumed", 0, 100, 200, 300, 400)
    log(logs / "resumed", 250, 450, rate="0.2")
    log(logs / "turned_back", 0, 100, 200)
    (file,) = (logs / "turned_back").glob("events.*")
    file.rename(file.with_name(file.name.replace("events.out.tfevents.1", "events.out.tfevents.3")))
    log(logs / "turned_back", 200, 300, 400)
    log(logs / "torn", 0, 100, 200, 300)
    (file,) = (logs / "torn").glob("events.*")
    file.write_bytes(file.read_bytes()[:-7])  # killed in the middle of a record
    log(logs / "torn", 200, 250, 400)
    picture(logs / "pictures", None, 100, 200, 300)
    picture(logs / "pictures", 200, 400)
    return logs


@pytest.fixture(scope="module")
def page(logs: Path, tmp_path_factory: pytest.TempPathFactory):
    with tensorboard(logs, tmp_path_factory.mktemp("told") / "told") as page:
        wait_for(lambda: (page.scalars("torn", TAG) or [(0, 0)])[-1][0] == 400, 60, "TensorBoard to read the logs")
        yield page


@pytest.mark.parametrize(
    ("run", "steps"),
    [
        ("late", [100, 200, 300]),
        ("replaced", [100, 200, 300]),
        ("resumed", [100, 200, 450]),
        ("turned_back", [100, 200, 300, 400]),
        ("torn", [100, 200, 250, 400]),
    ],
)
def test_curve_on_the_page_loses_nothing_to_late_values(page: Page, run: str, steps: list[int]) -> None:
    wait_for(lambda: page.scalars(run, TAG) == [(step, step / 2) for step in steps], 30, f"the curve of {run}")


def test_pictures_on_the_page_are_of_the_resumed_run(page: Page) -> None:
    for kind in ("evaluation_pictures", "evaluation_video"):
        wait_for(lambda: page.images("pictures", f"{kind}/train/CartPole-v1") == [100, 200, 400], 30, kind)  # noqa: B023


def test_settings_on_the_page_are_those_of_the_resumed_run(page: Page) -> None:
    assert sorted(page.learning_rates()) == [0.1, 0.2], "those of one group are one row"


def test_table_keeps_the_values_that_came_late(logs: Path) -> None:
    assert [row.agent_steps for row in scalars_csv.read(logs / "late")] == [100, 200, 300, 150]
    assert [row.agent_steps for row in scalars_csv.read(logs / "resumed")] == [100, 200, 450]
