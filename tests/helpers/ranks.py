"""One of several learners in a process of its own; test_gradient_reducer.py starts them.

    python ranks.py RANK NUMBER FOLDER

Makes the updates of all `CASES` with its share of each batch, then those of `diverge`, and leaves what came of them in
FOLDER/RANK.pt.
"""

import contextlib
import sys
from pathlib import Path
from typing import Any

import torch
from trajectories import DISCRETE, random_trajectory

from kartrl.algorithms import heads_of
from kartrl.config import Config, read
from kartrl.envs.observation_spec import plain
from kartrl.learning.counters import Counters
from kartrl.learning.gradient_reducer import GradientReducer, LearnerLost, SeveralLearners
from kartrl.learning.learner import Learner, make_learner
from kartrl.learning.schedules import Progress
from kartrl.metrics.stopwatch import TRAINER_STAGES, Stopwatch
from kartrl.models import make_network
from kartrl.training.trainer import Trainer
from kartrl.trajectory import Trajectory

SHARES = (slice(0, 2), slice(2, 5))  # of the unrolls of a batch, by rank
COMMON = ("model.hidden_size=8", "optimizer.learning_rate=0.01", "optimizer.name=rmsprop")
CASES = {
    "impala": ["algorithm.name=impala"],
    "lstm": ["algorithm.name=impala", "model.core=lstm"],
    "a2c": ["algorithm.name=a2c", "a2c.normalise_advantages=true"],
    "a3c": ["algorithm.name=a3c", "optimizer.name=adam"],
    "ppo": ["algorithm.name=ppo", "ppo.epochs=2", "ppo.minibatch_size=1000"],
    "ppo with a KL limit": ["algorithm.name=ppo", "ppo.minibatch_size=1000", "ppo.kl_limit=1e-9"],
    "appo": ["algorithm.name=appo", "appo.epochs=2", "appo.minibatch_size=1000"],
    "normalisers": ["algorithm.name=a2c", "model.normalise_observations=true", "model.normalise_returns=true"],
}
UPDATES = 5
POISONED, SILENT = 2, 3  # numbers of the update with an infinite reward, and of the one where a rank has no valid step


def configured(case: str) -> Config:
    return read(overrides=[*COMMON, *CASES[case]])


def new_learner(config: Config, seed: int, reducer: GradientReducer | None = None) -> Learner:
    torch.manual_seed(seed)
    network = make_network(config.model, plain(3), DISCRETE, heads_of(config))
    return make_learner(config, network, DISCRETE, reducer=reducer)


def whole_batch(number: int) -> Trajectory[torch.Tensor]:
    """The batch of an update of all learners."""
    batch = random_trajectory(DISCRETE, number, dtype=torch.float32)
    if number == POISONED:
        batch.reward[1, SHARES[1]] = float("inf")
    if number == SILENT:
        batch.valid[:, SHARES[0]] = False
    return batch


def learn(learner: Learner, share: slice) -> list[bool]:
    """All updates, with these unrolls; whether each was made."""
    made = []
    for number in range(UPDATES):
        batch = whole_batch(number).unrolls(share)
        made.append(learner.update(batch, int(batch.valid.sum()), 0.1 * number, lambda stage: None).finite)
    return made


def diverge(reducer: GradientReducer, share: slice) -> dict[str, Any]:
    """Updates of a trainer, of which the first learner has saved one state, until it goes back to that."""
    config = read(overrides=[*COMMON, *CASES["impala"], "optimizer.max_skipped_updates=2"])
    trainer = Trainer(new_learner(config, 1, reducer), config.optimizer, Progress(config.run, Counters()), Counters())
    saved = None
    for number in (0, 1, 0, POISONED, POISONED):
        batch = whole_batch(number).unrolls(share)
        trainer.update(batch, Trajectory(*(tensor.numpy() for tensor in batch)), Stopwatch(TRAINER_STAGES))
        if number == 1 and reducer.rank == 0:
            saved = trainer.state().network
    return {"saved": saved, "after": trainer.learner.state().network, "steps": trainer.counters.agent_steps}


def main(rank: int, number: int, folder: Path) -> None:
    torch.set_num_threads(1)
    reducer, results = SeveralLearners(rank, number, folder / "place", torch.device("cpu")), {}
    for case in CASES:
        learner = new_learner(configured(case), seed=1 + rank, reducer=reducer)
        learner.load_state(reducer.share(learner.state()))
        made = learn(learner, SHARES[rank])
        results[case] = {"made": made, "state": learner.state()._asdict()}
    diverged = diverge(reducer, SHARES[rank])
    if rank == 0:  # the other goes on to its end
        with contextlib.suppress(LearnerLost):
            reducer.gather(torch.zeros(1))
    torch.save({"cases": results, "diverged": diverged, "lost": reducer.lost}, folder / f"{rank}.pt")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
