"""Train with agents that act on old weights: how much policy lag an algorithm tolerates.

    python benchmarks/policy_lag.py --updates 10 --set run.name=lag10 --set system.max_policy_lag=1000

Predictors, and agents that run the network themselves, get the weights of an update only after this many further
updates, as if the learner were that much faster than its agents. All other arguments are passed to run.py.
"""

import argparse
import sys
from collections import deque
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from kartrl import cli
from kartrl.acting.published_weights import ON_CPU, PublishedWeights, published, spread
from kartrl.hardware.streams import RoleStream
from kartrl.models import ActorCritic
from kartrl.training import trainer


def delayed(updates: int) -> type[PublishedWeights]:
    """Published weights that others get only `updates` updates later."""

    class DelayedWeights(PublishedWeights):
        def __init__(self, network: ActorCritic, stream: RoleStream = ON_CPU, version: int = 0) -> None:
            super().__init__(network, stream, version)
            self._kept = deque([(self._flat.clone(), version)], maxlen=updates + 1)

        def _set_version(self, version: int) -> None:
            shared, self._shared = self._shared, None
            super()._set_version(version)
            self._shared = shared
            self._kept.append((self._flat.clone(), version))
            if shared is not None:
                oldest, made = self._kept[0]
                shared.write(oldest.numpy(), made)

        @torch.no_grad()
        def fetch(self, network: ActorCritic, version: int, stream: RoleStream = ON_CPU) -> int:
            with self._lock:
                flat, fetched = self._kept[0]
                if fetched != version:
                    spread(flat, published(network))
                return fetched

    return DelayedWeights


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=10, help="that the weights of agents lag behind (default 10)")
    options, others = parser.parse_known_args()
    trainer.PublishedWeights = delayed(options.updates)  # type: ignore[misc]
    return cli.main(["train", *others])


if __name__ == "__main__":
    sys.exit(main())
