"""Sample Factory's APPO on Pong, as a peer of `kartrl bench -c pong --peer ...`.

    python sample_factory_pong.py --env=atari_pong --algo=APPO --device=cpu ...      (README.md has the whole command)

Options are Sample Factory's own. The environment is that of `-c pong`: ALE/Pong-v5, 4 frames per action, 84 x 84
grey x 4 frames, by Gymnasium's wrappers, which are faster than Sample Factory's. Prints `@B steps=<agent steps>
upd=<optimizer steps> sk=<frames per agent step>` twice a second.
"""

import sys
import time
from typing import Any

import ale_py  # noqa: F401  # with this Gymnasium its import registers the environments
import gymnasium
from gymnasium.wrappers import AtariPreprocessing, FrameStack
from sample_factory.algo.runners.runner import AlgoObserver, Runner
from sample_factory.algo.utils.misc import ExperimentStatus
from sample_factory.envs.env_utils import register_env
from sample_factory.envs.env_wrappers import NumpyObsWrapper
from sample_factory.train import make_runner
from sf_examples.atari.train_atari import parse_atari_args, register_atari_components

FRAME_SKIP = 4
REPORT_SECONDS = 0.5


def make_pong(*_: Any, **__: Any) -> gymnasium.Env:
    """Pong, observations uint8 [4, 84, 84]."""
    env = gymnasium.make("ALE/Pong-v5", frameskip=1, obs_type="grayscale")
    env = AtariPreprocessing(env, noop_max=30, frame_skip=FRAME_SKIP, screen_size=84)
    return NumpyObsWrapper(FrameStack(env, 4))


class Report(AlgoObserver):
    """Prints the counters after updates."""

    def __init__(self) -> None:
        self._trainings = 0
        self._due = 0.0

    def on_training_step(self, runner: Runner, training_iteration_since_resume: int) -> None:
        self._trainings += 1
        now = time.monotonic()
        if now >= self._due:
            self._due = now + REPORT_SECONDS
            # Sample Factory counts frames, and calls the product of passes and minibatches a training
            steps = (runner.total_env_steps_since_resume or 0) // FRAME_SKIP
            updates = self._trainings * runner.cfg.num_epochs * runner.cfg.num_batches_per_epoch
            print(f"@B steps={steps} upd={updates} sk={FRAME_SKIP}", flush=True)


def main() -> int:
    register_atari_components()
    register_env("atari_pong", make_pong)
    _, runner = make_runner(parse_atari_args())
    runner.register_observer(Report())
    status = runner.init()
    return runner.run() if status == ExperimentStatus.SUCCESS else status


if __name__ == "__main__":
    sys.exit(main())
