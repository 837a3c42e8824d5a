"""A benchmark of generalisation that takes seconds: as a script, `benchmarking.py FOLDER AGENT_STEPS SEEDS`."""

import sys
from pathlib import Path

from rich.console import Console

from kartrl.kart.generalisation import Plan, benchmark
from kartrl.kart.generalisation.protocol import Protocol
from kartrl.kart.generalisation.splits import Split

TINY = Split(
    "tiny", ("MarioCircuit.Act1", "RainbowRoad.Act1"), ("MarioCircuit.Act1",), {"unseen": ("MarioCircuit.Act4",)}
)
OVERRIDES = (
    "model.hidden_size=16",
    "system.agents=1",
    "run.checkpoint_minutes=0.02",
    "kart.no_progress_limit=1",
)


def plan(
    folder: Path, agent_steps: int, seeds: int = 1, overrides: tuple[str, ...] = OVERRIDES, split: Split = TINY
) -> Plan:
    return Plan(folder, [split], seeds, Protocol(agent_steps, 1, overrides))


if __name__ == "__main__":
    sys.exit(benchmark(plan(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])), Console()))
