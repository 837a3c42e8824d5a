"""A folder with everything that documented commands name: configurations, circuits, runs, movies."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import torch
from commands import ROOT
from finished_runs import write_run
from players import begun, drive, some_driving

from kartrl.algorithms import heads_of
from kartrl.config import Config, dump, read
from kartrl.console.movie import write_movie
from kartrl.envs.observation_spec import ObservationSpec
from kartrl.envs.spec import ActionSpec, EnvSpec
from kartrl.envs.worlds import load_world
from kartrl.learning import checkpoint
from kartrl.learning.checkpoint import Checkpoint
from kartrl.learning.counters import Counters
from kartrl.learning.learner import make_learner
from kartrl.models import make_network

SHORT = ("kart.game=bundled", "kart.no_progress_limit=0.2", "kart.time_limit=1")
CIRCUITS = ("levels.*=none", "levels.MarioCircuit.Act1=train", "levels.MarioCircuit.Act4=test")
KART, CARTPOLE = (*SHORT, *CIRCUITS), ("environment.id=CartPole-v1",)
OWN = ("environment.id=mine:mine/Corridor-v0", "environment.kwargs.length=5")
RUNS: dict[str, tuple[Sequence[str], Sequence[str]]] = {  # configurations, overrides
    "logs/all": (["all_circuits"], KART),
    "logs/corridor": ([], OWN),
    "logs/cartpole-2": ([], CARTPOLE),
    "logs/cartpole/appo__1": (["cartpole"], ()),
    "logs/pendulum/appo__1": (["pendulum"], ()),
    "logs/masked_cartpole/appo__1": (["masked_cartpole"], ()),
    "logs/random300/runs/random300-seed1": ([], KART),
    "logs/kart_replay_1": (["kart_replay"], KART),
    "logs/airstriker": (["airstriker"], ()),
    "logs/seed1": ([], KART),
    "logs/my-run": ([], KART),
    "logs/RUN": ([], KART),  # the newest
}
STEPS = {"logs/my-run": 500_000, "logs/RUN": 900_000}
BLOCKS = {  # file -> the page whose first such block it is
    "mine.py": ("docs/environments.md", "python"),
    "mine.toml": ("docs/reference/circuit-files.md", "toml"),
    "cartpole.toml": ("docs/comparing.md", "toml"),
    "FILE.toml": ("docs/comparing.md", "toml"),
    "space.toml": ("docs/tuning.md", "toml"),
    "kart.yml": ("docs/library.md", "yaml"),
}


def prepare(folder: Path) -> None:
    """Fill the current folder."""
    for name, (page, kind) in BLOCKS.items():
        block = re.search(rf"```{kind}\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
        assert block is not None
        (folder / name).write_text(block[1], encoding="utf-8")
    for name in ("mine.cfg", "common.cfg", "a.cfg", "b.cfg", "FILE"):
        (folder / name).write_text("[run]\nagent_steps = 1000000\n", encoding="utf-8")
    shutil.copy(ROOT / "examples" / "own_environment.py", folder)
    copy_changeable(folder)
    (folder / "docs").mkdir()
    (folder / "benchmarks").symlink_to(ROOT / "benchmarks")
    stage, session = begun(circuits=("MarioCircuit.Act1",))
    with stage:
        drive(session, some_driving(20))
        for name in ("FILE.bk2", "drive.bk2"):
            write_movie(folder / name, session.movie())
    for place, (files, overrides) in RUNS.items():
        make_run(folder / place, read(files, overrides), STEPS.get(place, 1000))
    for name, override in {
        **{f"{name}-{seed}": f"algorithm.name={name}" for name in ("ppo", "appo") for seed in (1, 2, 3)},
        **{f"base-{seed}": "appo.clip_range=0.2" for seed in (1, 2)},
        **{f"wide-{seed}": "appo.clip_range=0.9" for seed in (1, 2)},
        **{f"stack{stack}-1": f"environment.frame_stack={stack}" for stack in (1, 4)},
        "replay_atari/none__1": "replay.methods=none",
        "replay_atari/uniform__2": "replay.methods=queue uniform",
    }.items():
        write_run(folder / "logs" / name, override, returns=[1.0] * 9)


def copy_changeable(folder: Path) -> None:
    """Files of the repository that examples write to."""
    for name in ("default.cfg", "kartrl/kart/weights/kart.pt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    rapids = ROOT / "kartrl/retro/games/Rapids-Nes-v0"
    shutil.copy(rapids / "rom.nes", folder / "game.nes")
    shutil.copytree(rapids, folder / "my-game", dirs_exist_ok=True)


def make_run(folder: Path, config: Config, agent_steps: int) -> None:
    """A run that has made one update: checkpoints with the optimizer's state, metrics, configuration."""
    env = load_world(load_world(config).prepare()).open_env()
    seen, action = ObservationSpec.of(env.observation_space), ActionSpec.of(env.action_space)
    env.close()
    config = load_world(config).fit(EnvSpec("", seen, action, 0.0))  # as a run stores it
    learner = make_learner(config, make_network(config.model, seen, action, heads_of(config)), action)
    for parameter in learner.network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    learner.optimizer.step()
    network, optimizer, algorithm = learner.state()
    counters = Counters(agent_steps, 2, 1, 3.5, 0.25)
    write_run(folder, returns=[1.0] * 9)
    (folder / "config.cfg").write_text(dump(config), encoding="utf-8")
    for path in (folder / "best.pt", folder / "checkpoints" / f"{agent_steps:010d}.pt"):
        checkpoint.save(path, Checkpoint(config, network, optimizer, counters, seen, action, 1.0, {}, algorithm))
