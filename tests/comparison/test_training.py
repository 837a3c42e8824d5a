"""Training to completion in a process of its own."""

from policies import make_checkpoint

from kartrl.comparison.training import train_to_end
from kartrl.config import dump, read
from kartrl.learning import checkpoint


def test_resumed_run_out_of_minutes_is_complete(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "logs" / "run"
    # an update of 64,000 steps: some seconds, of which the run has a hundredth left
    batch = ["algorithm.unroll_length=1000", "system.training_batch_size=64"]
    overrides = ["system.agents=1", *batch, "evaluation.minutes=0", "run.minutes=1", "run.logs=logs", "run.name=run"]
    config = read(["cartpole"], ["model.hidden_size=16", *overrides])
    state = make_checkpoint(100, "model.hidden_size=16")
    almost = state._replace(config=config, counters=state.counters._replace(seconds=59.99))
    saved = folder / "checkpoints" / "0000000100.pt"
    checkpoint.save(saved, almost)
    (folder / "config.cfg").write_text(dump(config))
    assert train_to_end(folder, [], config.run, lambda: None) == saved
