"""Trains several times in one process, one run in another thread, and prints what the callbacks were told."""

import json
import os
import signal
import threading

import psutil
import torch

import kartrl

SETTINGS = {"run.agent_steps": 2000, "evaluation.minutes": 0, "system.agents": 2, "model.hidden_size": 16}


class Wrong(Exception):
    """Raised by a callback."""


def fail(_: kartrl.Update) -> None:
    raise Wrong


def interrupt(update: kartrl.Update) -> None:
    """Ctrl-C, once."""
    if not interrupted:
        interrupted.append(update.updates)
        os.kill(os.getpid(), signal.SIGINT)


def hear_some(update: kartrl.Update) -> bool:
    """End the run after five updates, with others under way."""
    updates.append(update)
    return len(updates) < 5


def left() -> list[str]:
    """Commands of child processes but for those of multiprocessing, which serve the next run."""
    commands = [" ".join(child.cmdline()) for child in psutil.Process().children(recursive=True)]
    return [command for command in commands if "forkserver" not in command and "resource_tracker" not in command]


interrupted: list[int] = []
updates: list[kartrl.Update] = []
if __name__ == "__main__":
    config = kartrl.read_config("cartpole", SETTINGS)
    before = torch.get_num_threads(), signal.getsignal(signal.SIGINT)
    run = kartrl.train(config, on_update=updates.append, progress=False)
    told = {"updates": [update.updates for update in updates], "run": run.updates, "ended": run.ended_by}
    told["kept"] = before == (torch.get_num_threads(), signal.getsignal(signal.SIGINT))
    try:
        kartrl.train(config, overrides={"run.name": "failed", "run.agent_steps": 10**9}, on_update=fail, progress=False)
    except Wrong:
        told["raised"] = True
    runs: list[kartrl.TrainingRun] = []
    thread = threading.Thread(
        target=lambda: runs.append(
            kartrl.train(
                resume="failed", overrides={"run.agent_steps": 10**9}, on_episode=lambda _: False, progress=False
            )
        )
    )
    thread.start()
    thread.join()
    told["resumed"] = runs[0].ended_by, runs[0].agent_steps > 0
    told["others"] = []
    more = {"run.agent_steps": 10**9}
    for name in ("cartpole_hogwild", "cartpole_acer"):
        updates.clear()
        run = kartrl.train(kartrl.read_config(name, SETTINGS), overrides=more, on_update=hear_some, progress=False)
        told["others"].append([len(updates), run.updates])
    try:
        kartrl.train(config, overrides={"run.name": "stopped", **more}, on_update=interrupt, progress=False)
    except KeyboardInterrupt:
        told["interrupted"] = left()
    run = kartrl.train(resume="stopped", on_episode=lambda _: False, progress=False)
    told["continued"] = run.updates > 0
    print(json.dumps(told))
