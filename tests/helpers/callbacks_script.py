"""Trains several times in one process, one run in another thread, and prints what the callbacks were told."""

import json
import signal
import threading

import torch

import kartrl

SETTINGS = {"run.agent_steps": 2000, "evaluation.minutes": 0, "system.agents": 2, "model.hidden_size": 16}


class Wrong(Exception):
    """Raised by a callback."""


def fail(_: kartrl.Update) -> None:
    raise Wrong


if __name__ == "__main__":
    config = kartrl.read_config("cartpole", SETTINGS)
    before = torch.get_num_threads(), signal.getsignal(signal.SIGINT)
    updates: list[kartrl.Update] = []
    run = kartrl.train(config, on_update=updates.append, progress=False)
    told = {"updates": [update.updates for update in updates], "run": run.updates, "ended": run.ended_by}
    told["kept"] = before == (torch.get_num_threads(), signal.getsignal(signal.SIGINT))
    try:
        kartrl.train(config, overrides={"run.name": "failed", "run.agent_steps": 10**9}, on_update=fail, progress=False)
    except Wrong:
        told["raised"] = True
    runs: list[kartrl.TrainingRun] = []
    more = {"run.agent_steps": 10**9}
    thread = threading.Thread(
        target=lambda: runs.append(
            kartrl.train(resume="failed", overrides=more, on_episode=lambda _: False, progress=False)
        )
    )
    thread.start()
    thread.join()
    told["resumed"] = runs[0].ended_by, runs[0].agent_steps > 0
    print(json.dumps(told))
