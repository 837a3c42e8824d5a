"""Checkpoints of untrained networks, for the tests."""

from collections.abc import Sequence
from pathlib import Path

import torch
from gymnasium.spaces import Discrete

from kartrl.acting.published_weights import published
from kartrl.acting.recording import record
from kartrl.algorithms import heads_of
from kartrl.config import read
from kartrl.driving.driver import Driver
from kartrl.driving.recorded_actor import Recorded
from kartrl.envs.observation_spec import ObservationSpec, plain
from kartrl.envs.spec import ActionSpec
from kartrl.envs.worlds import load_world
from kartrl.learning import checkpoint
from kartrl.learning.checkpoint import Checkpoint
from kartrl.learning.counters import Counters
from kartrl.learning.learner import make_learner
from kartrl.models import make_network

CARTPOLE = ("environment.id=CartPole-v1", "model.hidden_size=16")
SNAKE = (  # as in the preset
    "environment.id=kartrl/Snake-v0",
    "environment.height=17",
    "environment.width=17",
    "environment.grayscale=false",
    "environment.frame_stack=1",
    "environment.frame_skip=1",
    "model.channels=16 32",
    "model.kernels=3 3",
    "model.strides=1 2",
    "model.hidden_size=16",
)
PONG = ("environment.id=ALE/Pong-v5", "environment.frame_skip=4", "model.hidden_size=16")
KART = (
    "kart.game=bundled",
    "environment.frame_skip=4",
    "kart.no_progress_limit=1.2",
    "model.hidden_size=16",
)


def make_checkpoint(agent_steps: int, *overrides: str) -> Checkpoint:
    """A small network for vectors of 4 after one update, as a learner would save it; it depends on `agent_steps`."""
    config = read(overrides=["model.hidden_size=16", *overrides])
    torch.manual_seed(agent_steps)
    action = ActionSpec.of(Discrete(2))
    learner = make_learner(config, make_network(config.model, plain(4), action, heads_of(config)), action)
    for parameter in learner.network.parameters():
        parameter.grad = torch.ones_like(parameter)
    learner.optimizer.step()
    network, optimizer, algorithm = learner.state()
    random = {
        "torch": torch.default_generator.get_state(),
        "predictor-0": torch.Generator().manual_seed(agent_steps).get_state(),
    }
    return Checkpoint(
        config, network, optimizer, Counters(agent_steps, 2, 1, 3.5, 0.25), plain(4), action, 1.5, random, algorithm
    )


def save_policy(
    run_folder: Path,
    overrides: Sequence[str],
    agent_steps: int = 1000,
    score: float | None = None,
    most_envs: int = 0,
) -> Path:
    """Save a network that has learned nothing as a checkpoint of the run."""
    torch.set_num_threads(1)  # as in the commands: more are far slower where the cores are busy
    config = load_world(read(overrides=overrides)).prepare()
    env = load_world(config).open_env()
    spec, action = ObservationSpec.of(env.observation_space), ActionSpec.of(env.action_space)
    env.close()
    torch.manual_seed(agent_steps)
    network = make_network(config.model, spec, action, heads_of(config))
    path = run_folder / "checkpoints" / f"{agent_steps:010d}.pt"
    counters = Counters(agent_steps)
    content = Checkpoint(config, network.state_dict(), {}, counters, spec, action, score, most_envs=most_envs)
    checkpoint.save(path, content)
    return path


def by_programs(driver: Driver) -> Driver:
    """The driver with its network recorded, as agents have it."""
    config, env = driver.world.config, driver.env
    spec, action = ObservationSpec.of(env.observation_space), ActionSpec.of(env.action_space)
    programs = record(config.model, spec, action, heads_of(config), [2, 4])
    assert programs is not None
    weights = torch.cat([tensor.detach().flatten() for tensor in published(driver.network)]).numpy()
    return driver._replace(policy=Recorded(programs, weights))
