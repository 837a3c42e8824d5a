"""Twenty updates of IMPALA end where they ended before the algorithms got files of their own.

`reference.npz` holds a small recurrent network's weights before and after, recorded by the
commit af51b6d. On the CPU that recorded it they are equal bit for bit; others round differently.
"""

from pathlib import Path

import numpy as np
import torch
from gymnasium.spaces import Discrete

from kartrl.config import read
from kartrl.envs.observation_spec import plain
from kartrl.envs.spec import ActionSpec
from kartrl.learning.counters import Counters
from kartrl.learning.learner import make_learner
from kartrl.learning.schedules import Progress
from kartrl.models import make_network
from kartrl.trajectory import Trajectory

FILE = Path(__file__).with_name("reference.npz")
OVERRIDES = (
    "model.channels=4 8",
    "model.kernels=6 3",
    "model.strides=3 2",
    "model.hidden_size=8",
    "model.core=lstm",
    "algorithm.name=impala",
    "algorithm.unroll_length=10",
    "algorithm.discount=0.99",
    "optimizer.name=rmsprop",
    "optimizer.learning_rate=linear 0.001 1e-5",
    "optimizer.decay=0.99",
    "optimizer.gradient_clip=40",
    "algorithm.reward_transform=clip",
    "run.agent_steps=2000",
)
SHAPE, ACTION = (24, 24, 1), ActionSpec.of(Discrete(4))
T, B, UPDATES = 10, 6, 20


def trajectory(number: int, state_size: int) -> Trajectory[torch.Tensor]:
    """The unrolls of an update: with resets, terminations, truncations, and log-probabilities of another policy."""
    random = np.random.default_rng(number)
    observation = random.integers(0, 256, (T + 1, B, *SHAPE), dtype=np.uint8)
    first = random.random((T + 1, B)) < 0.12
    terminated = first[1:] & (random.random((T, B)) < 0.5)
    valid = ~first[1:] | terminated
    action = random.integers(0, ACTION.choices, (T, B)).astype(np.float32)
    log_prob = (-np.log(ACTION.choices) + random.standard_normal((T, B)) * 0.3).astype(np.float32)
    unused = np.zeros((T, B, 1 + ACTION.choices), np.float32)
    arrays = Trajectory(
        observation=observation,
        first=first,
        initial_state=(random.standard_normal((B, state_size)) * 0.3).astype(np.float32),
        decision=np.concatenate([action[..., None], log_prob[..., None], unused], 2),
        reward=random.standard_normal((T, B)).astype(np.float32),
        terminated=terminated,
        valid=valid,
        version=np.zeros((T, B), np.int64),
        online=np.ones(B, bool),
        importance=np.ones(B, np.float32),
        serial=np.full(B, -1),
    )
    return Trajectory(*map(torch.from_numpy, arrays))


def weights(when: str) -> dict[str, torch.Tensor]:
    with np.load(FILE) as file:
        return {
            name.removeprefix(f"{when}/"): torch.from_numpy(file[name]) for name in file.files if name.startswith(when)
        }


def difference() -> float:
    """The largest of any weight to the recorded ones after all updates."""
    torch.set_num_threads(1)
    config = read(overrides=[*OVERRIDES])
    network = make_network(config.model, plain(*SHAPE), ACTION)
    network.load_state_dict(weights("start"))
    learner, progress, counters = make_learner(config, network, ACTION), Progress(config.run, Counters()), Counters()
    for number in range(UPDATES):
        batch = trajectory(number, network.state_size)
        steps = int(batch.valid.sum())
        assert learner.update(batch, steps, progress.schedule(counters), lambda stage: None).finite
        counters = counters._replace(agent_steps=counters.agent_steps + steps)
    return max(float((network.state_dict()[name] - tensor).abs().max()) for name, tensor in weights("end").items())


def test_twenty_updates_reach_the_reference() -> None:
    assert difference() < 1e-6


def test_reference_updates_move_weights_beyond_tolerance() -> None:
    start, end = weights("start"), weights("end")
    assert all((end[name] - tensor).abs().max() > 1e-3 for name, tensor in start.items())
