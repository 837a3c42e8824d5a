"""The logger in real processes; what it wrote is read back as TensorBoard and a spreadsheet would."""

import contextlib
import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest
from commands import environment, has_ended, wait_for
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.metadata import parse_experiment_plugin_data, parse_session_start_info_plugin_data

from kartrl.config import dump, read
from kartrl.envs.episode import Episode
from kartrl.kart.race_world import Race
from kartrl.metrics import scalars_csv, sinks
from kartrl.metrics.records import EpisodeRecord, Histograms, Scalars
from kartrl.run import logger

CONFIG = read(overrides=["levels.random:3:asphalt=none"])  # whose levels need no looking up
CONTEXT = multiprocessing.get_context("spawn")  # a forkserver's children would write to the stderr of its first test
ORPHAN = """
import multiprocessing, pathlib, sys, time
from kartrl.config import Config
from kartrl.run import logger
from kartrl.processes.spawn import spawn
if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    records, sender = context.Pipe(duplex=False)
    process = spawn(context, "logger", logger.run, Config(), pathlib.Path(sys.argv[1]), records, 0)
    print(process.pid, flush=True)
    time.sleep(60)
"""


def run_unhurried(config, folder, records, first_step):
    """The logger, which forms its means over all episodes, however long it takes."""
    logger.EPISODES_SECONDS = 1000.0
    logger.run(config, folder, records, first_step)


def log(folder, messages, first_step=0, target=logger.run):
    """Run the logger on these messages to its end; its exit code."""
    records, sender = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=target, args=(CONFIG, folder, records, first_step))
    process.start()
    for message in [*messages, None]:
        sender.send(message)
    process.join(60)
    sender.close()
    return process.exitcode


def read_events(folder):
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    return events


def read_table(folder):
    return [row[1:] for row in scalars_csv.read(folder)]


def record(number, circuit="", evaluated=False):
    return EpisodeRecord(
        number,
        Episode(10 * number, float(number), number % 2 == 0, circuit, "train", Race(number / 4, (20.0, 18.0))),
        evaluated,
    )


def test_events_and_table_hold_the_same(tmp_path):
    messages = [Scalars(step, {"losses/total": 1 / step, "lag/max": step}) for step in (10, 20, 30)]
    messages.append(Histograms(30, {"weights/a": np.array([-1, 0, 0, 2, np.nan, np.inf], np.float32)}))
    messages += [record(number, "MarioCircuit.Act1") for number in (1, 2)]
    messages += [record(number, "MarioCircuit.Act2") for number in (3, 4)]
    messages.append(record(99, "MarioCircuit.Act3", evaluated=True))
    assert log(tmp_path, messages, target=run_unhurried) == 0

    events = read_events(tmp_path)
    table = read_table(tmp_path)
    from_events = [(event.step, tag, event.value) for tag in events.Tags()["scalars"] for event in events.Scalars(tag)]
    assert {row[:2]: row[2] for row in from_events} == pytest.approx({row[:2]: row[2] for row in table})
    assert len(from_events) == len(table)
    values = {tag: value for _, tag, value in table}
    assert values["charts/episodic_return"] == 2.5
    assert values["charts/episodic_length"] == 25
    assert values["charts/finished"] == 0.5
    assert values["charts/lap_time"] == 19
    assert values["train_circuits/MarioCircuit.Act2/progress"] == 0.875
    assert not any("Act3" in tag for tag in values), "the evaluator forms its own means"
    (histogram,) = events.Tensors("weights/a")
    buckets = np.frombuffer(histogram.tensor_proto.tensor_content, np.float64).reshape(-1, 3)
    assert buckets[:, 2].sum() == 4
    assert (buckets[0, 0], buckets[-1, 1]) == (-1, 2)


def test_configuration_is_logged_as_text_and_hyperparameters(tmp_path):
    assert log(tmp_path, []) == 0
    events = read_events(tmp_path)
    (text,) = events.Tensors("config")
    assert dump(CONFIG) in text.tensor_proto.string_val[0].decode()
    assert events.SummaryMetadata("config").plugin_data.plugin_name == "text"
    start = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    values = parse_session_start_info_plugin_data(start).hparams
    assert values["optimizer.learning_rate"].string_value == "linear 0.001 1e-05"
    assert values["algorithm.discount"].number_value == 0.98
    assert values["model.channels"].string_value == "16 32 32"
    assert values["levels.MarioCircuit.Act4"].string_value == "test"
    assert "run.name" not in values
    assert "a2c.gae_lambda" not in values, "of an algorithm that is not used"
    experiment = events.SummaryMetadata("_hparams_/experiment").plugin_data.content
    shown = {metric.name.tag for metric in parse_experiment_plugin_data(experiment).metric_infos}
    assert {"charts/episodic_return", "evaluation/train_return"} <= shown


def test_resumed_log_has_nothing_beyond_its_checkpoint(tmp_path):
    log(tmp_path, [Scalars(step, {"losses/total": 1.0}) for step in (100, 200, 300, 400)])
    with (tmp_path / "scalars.csv").open("a") as file:
        file.write("12.5,40")  # killed in the middle of a line
    log(tmp_path, [Scalars(step, {"losses/total": 2.0}) for step in (250, 300)], first_step=200)
    expected = [(100, 1.0), (200, 1.0), (250, 2.0), (300, 2.0)]
    assert [(step, value) for step, _, value in read_table(tmp_path)] == expected
    assert [(event.step, event.value) for event in read_events(tmp_path).Scalars("losses/total")] in (
        expected,
        [expected[0], *expected[2:]],
    )
    seconds = [row.seconds for row in scalars_csv.read(tmp_path)]
    assert seconds == sorted(seconds), "the clock of the table goes on"


def run_on_small_disk(config, folder, records, first_step):
    """The logger, where a file can have no more than 4 KiB: what a full disk is to a writer."""
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    logger.run(config, folder, records, first_step)


@pytest.mark.skipif(os.name != "posix", reason="needs resource limits")
def test_full_disk_is_reported_once_and_survived(tmp_path, capfd):
    messages = [Scalars(step, {f"losses/number_{tag}": 0.1 for tag in range(100)}) for step in range(20)]
    assert log(tmp_path, messages, target=run_on_small_disk) == 0
    errors = capfd.readouterr().err
    assert errors.count("kartrl: metrics are not written") == 1
    assert "Traceback" not in errors


def run_impatiently(config, folder, records, first_step):
    """The logger, which tries to write again ten times a second."""
    sinks.RETRY_SECONDS = 0.1
    logger.run(config, folder, records, first_step)


def test_logging_continues_once_the_disk_has_room(small_disk, capfd):
    records, sender = CONTEXT.Pipe(duplex=False)
    folder = small_disk / "run"
    folder.mkdir()
    process = CONTEXT.Process(target=run_impatiently, args=(CONFIG, folder, records, 0))
    process.start()
    wait_for(lambda: (folder / "scalars.csv").exists(), 60, "the logger to start")
    with (small_disk / "other").open("wb", buffering=0) as other, contextlib.suppress(OSError):
        while True:
            other.write(bytes(512))

    def metrics(step):
        sender.send(Scalars(step, {f"losses/number_{tag}": 0.1 for tag in range(100)}))
        return True

    step = itertools.count(1)
    wait_for(
        lambda: metrics(next(step)) and "metrics are not written" in capfd.readouterr().err, 60, "the disk to be full"
    )
    wait_for(lambda: metrics(next(step)) and next(step) > 60, 60, "more to be lost")
    (small_disk / "other").unlink()
    told = next(step)
    wait_for(
        lambda: metrics(next(step)) and any(row[0] > told for row in read_table(folder)),
        60,
        "metrics after the disk was full",
    )
    sender.send(None)
    process.join(60)
    assert process.exitcode == 0
    assert "Traceback" not in capfd.readouterr().err
    assert all(file.stat().st_size > 0 and file.suffix != ".tmp" for file in folder.iterdir()), (
        "no attempt leaves a file behind"
    )
    assert max(step for step, _, _ in read_table(folder)) > told
    assert max(event.step for event in read_events(folder).Scalars("losses/number_0")) > told


def test_folder_that_cannot_be_made_is_reported_once(tmp_path, capfd):
    (tmp_path / "file").write_text("in the way")
    assert log(tmp_path / "file" / "run", [Scalars(1, {"losses/total": 1.0}), record(1)]) == 0
    errors = capfd.readouterr().err
    assert errors.count("kartrl: metrics are not written") == 1
    assert "Traceback" not in errors


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_logger_ends_when_its_parent_is_killed(tmp_path):
    script = tmp_path / "orphan.py"
    script.write_text(ORPHAN)
    with subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)], env=environment(), stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        logger = psutil.Process(int(parent.stdout.readline()))
        wait_for(lambda: list(tmp_path.glob("events.*")) or time.sleep(0.2), 60, "the logger to start")
        logger.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert logger.is_running(), "Ctrl-C is the server's business"
        parent.kill()
    wait_for(lambda: has_ended(logger), 60, "the logger to end")


def test_logger_does_not_load_torch():
    code = "import sys, kartrl.run.logger; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=environment(), check=False).returncode == 0
