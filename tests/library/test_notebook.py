"""`import kartrl` in a notebook: a kernel of Jupyter's, which runs cells in an event loop and has no script."""

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="Jupyter is not installed")
nbclient = pytest.importorskip("nbclient", reason="Jupyter is not installed")
pytest.importorskip("ipykernel", reason="Jupyter is not installed")

CELLS = (
    """
import os, signal
import kartrl
tiny = {"run.agent_steps": 10**9, "evaluation.minutes": 0, "system.agents": 1, "model.hidden_size": 16}
config = kartrl.read_config("cartpole", tiny)
run = kartrl.train(config, on_update=lambda update: update.updates < 3)
print(run.ended_by, run.updates >= 3, run.policy().agent_steps == run.agent_steps)
""",
    """
try:
    kartrl.train(resume=run.folder, on_update=lambda _: os.kill(os.getpid(), signal.SIGINT), progress=False)
except KeyboardInterrupt:
    print("interrupted")
""",
    """
policy = run.policy()
env = policy.make_env()
action, state = policy.act(env.reset(seed=1)[0])
env.close()
print(action in (0, 1), [result.seeds for result in kartrl.evaluate(policy, episodes=2)])
""",
    """
def make_here():
    return None
try:
    kartrl.read_config(overrides={"environment.id": make_here})
except kartrl.UserError as error:
    print(error)
""",
    """
%%writefile mine.py
import gymnasium
def make_pole(length=0.5):
    env = gymnasium.make("CartPole-v1")
    env.unwrapped.length = length
    return env
""",
    """
import mine
config = kartrl.read_config("cartpole", {**tiny, "environment.id": mine.make_pole, "run.name": "mine"})
print(kartrl.train(config, on_update=lambda _: False, progress=False).folder.name)
""",
)


def test_a_notebook_trains_evaluates_and_interrupts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "jupyter"))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell.strip()) for cell in CELLS])
    nbclient.NotebookClient(notebook, timeout=200, resources={"metadata": {"path": str(tmp_path)}}).execute()
    trained, interrupted, acted, refused, _, own = (
        "".join(output.get("text", "") for output in cell.outputs).splitlines() for cell in notebook.cells
    )
    assert trained[-1] == "the callback on_update True True"
    assert interrupted == ["interrupted"]
    assert acted == ["True [[0, 1]]"]
    assert "%%writefile mine.py" in refused[0]
    assert own == ["mine"]
