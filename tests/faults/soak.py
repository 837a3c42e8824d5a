"""Soak test: trains while random processes are killed or stopped every few seconds; prints a report in Markdown.

    python tests/faults/soak.py [--minutes 20] [--seconds 8] [--seed 1] [-- options of kartrl train]

Each kind of fault comes once, then they are drawn. They are real signals to real processes: agents, the evaluator,
the logger and the fork server are killed or stopped, the environment of one agent dies a few times, the reader of the
output goes, and now and then the server or its whole group is killed or ended, after which the run is resumed. Exit
status 1 if a promise of the README was broken.

Other algorithms: `-- --set algorithm.name=a2c`. On a machine so busy that agents take seconds to start:
`-- --set system.step_timeout=40`.
"""

import argparse
import contextlib
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))
from commands import Training

from kartrl.learning import checkpoint
from kartrl.metrics import scalars_csv

SERVER, GROUP = "the server", "the group"
FAULTS = {  # kind: (weight, whom, signal)
    "agent killed": (6, "agent", signal.SIGKILL),
    "agent stopped": (2, "agent", signal.SIGSTOP),
    "evaluator killed": (1, "evaluator", signal.SIGKILL),
    "evaluator stopped": (0.5, "evaluator", signal.SIGSTOP),
    "logger killed": (1, "logger", signal.SIGKILL),
    "logger stopped": (0.5, "logger", signal.SIGSTOP),
    "fork server stopped for a while": (0.5, "forkserver", signal.SIGSTOP),
    "environment of one agent dies at once, thrice": (1, "agent-0", signal.SIGSEGV),
    "output's reader gone": (0.5, "", None),
    "server killed, resumed": (0.5, SERVER, signal.SIGKILL),
    "server ended, resumed": (0.5, SERVER, signal.SIGTERM),
    "server stopped, killed and resumed": (0.25, SERVER, signal.SIGSTOP),
    "group killed, resumed": (0.25, GROUP, signal.SIGKILL),
    "group hung up (SIGHUP), resumed": (0.5, GROUP, signal.SIGHUP),
}
DEATHS = 3  # in a row, of an agent whose environment dies; with a fourth it would count as unhealthy
FROZEN_SECONDS = 3.0  # that a fork server or a server is stopped for
FIXED = [
    "run.name=soak",
    "run.agent_steps=1000000000",
    "run.minutes=0",
    "run.checkpoint_minutes=0.25",
    "system.step_timeout=10",
]
RESUME_SECONDS = 180.0  # timeout for a resumed run to save a new checkpoint
GONE_SECONDS = 60.0  # timeout for all processes of an ended run to disappear


class Soak:
    """A run with injected faults."""

    def __init__(self, folder: Path, options: list[str], seed: int) -> None:
        self.folder, self.options, self.chance = folder, options, random.Random(seed)
        self.run = folder / "logs" / "soak"
        self.first = self.chance.sample(list(FAULTS), len(FAULTS))  # each kind once, then by weight
        self.counts: Counter[str] = Counter()
        self.broken: list[str] = []
        self.lost_steps = 0  # agent steps after the last checkpoint, lost by kills of the server
        self.memory: list[float] = []
        self.shared: set[Path] = set()  # named shared memory in /dev/shm that its processes have mapped
        self.output = b""
        self.gone: set[int] = set()  # pipes whose reader is to go

    def start(self, resume: bool) -> Training:
        fixed = [part for item in FIXED for part in ("--set", item)]
        before = self._steps()
        self.reader, writer = os.pipe()
        with open(writer, "w") as output:
            options = [*(["--resume", "soak"] if resume else []), *fixed, *self.options]
            training = Training(self.folder, *options, output=output, fresh=True)
        threading.Thread(target=self._read, args=(self.reader,), daemon=True).start()
        self._wait(lambda: self._steps() > before, RESUME_SECONDS, "a new checkpoint")
        return training

    def _read(self, reader: int) -> None:
        """Keep what a run prints until `fault` has its reader go."""
        while reader not in self.gone and (text := os.read(reader, 4096)):
            self.output += text
        os.close(reader)

    def fault(self, training: Training) -> Training:
        """Inject a fault; returns the run, or the one that resumes it."""
        weights = [weight for weight, _, _ in FAULTS.values()]
        kind = self.first.pop() if self.first else self.chance.choices(list(FAULTS), weights)[0]
        _, whom, number = FAULTS[kind]
        self.counts[kind] += 1
        if number is None:
            self.gone.add(self.reader)
        elif whom in (SERVER, GROUP):
            self.end(training, number, whom == GROUP)
            return self.start(resume=True)
        elif victim := self._find(training, whom):
            self._strike(training, victim, whom, number)
        else:
            self.counts[kind] -= 1
        return training

    def _strike(self, training: Training, victim: psutil.Process, whom: str, number: signal.Signals) -> None:
        with contextlib.suppress(psutil.Error):
            victim.send_signal(number)
            if number == signal.SIGSEGV:
                victim.send_signal(signal.SIGCONT)  # one that was stopped before would not die of it
            if whom == "forkserver":
                time.sleep(FROZEN_SECONDS)
                victim.send_signal(signal.SIGCONT)
            for _ in range(DEATHS - 1 if number == signal.SIGSEGV else 0):
                self._wait(lambda: self._find(training, whom) not in (None, victim), 20, "the agent's successor")  # noqa: B023
                if (successor := self._find(training, whom)) is not None:
                    victim = successor
                    victim.send_signal(number)

    def _find(self, training: Training, whom: str) -> psutil.Process | None:
        """One of the processes with this role; Hogwild's workers are its agents."""
        titles = [f"kartrl {whom}", f"kartrl {whom.replace('agent', 'worker')}"]
        if whom == "forkserver":
            titles = ["multiprocessing.forkserver"]
        family = [(process, " ".join(self._words(process)[:5])) for process in training.family()]
        victims = [process for process, words in family if any(title in words for title in titles)]
        return self.chance.choice(victims) if victims else None

    def end(self, training: Training, number: signal.Signals, group: bool = False) -> None:
        """End the run by a signal to its server or to all its processes, and check that nothing is left."""
        reached = self._reached()
        if group:
            os.killpg(training.process.pid, number)
        else:
            training.process.send_signal(number)
        if number == signal.SIGSTOP:
            time.sleep(FROZEN_SECONDS)
            training.process.kill()
        try:
            training.process.wait(GONE_SECONDS)
        except subprocess.TimeoutExpired:
            self.broken.append(f"the server has not ended {GONE_SECONDS:.0f} s after {number.name}: {where(training)}")
        self._wait(lambda: not training.family(), GONE_SECONDS, "all processes to be gone")
        training.__exit__()
        self.lost_steps += max(0, reached - self._steps())

    def check(self, training: Training) -> None:
        """Record the memory, and check that the run is alive."""
        if training.process.poll() is not None:
            self.broken.append("the run ended by itself")
        total = 0.0
        for process in training.family():
            with contextlib.suppress(psutil.Error):
                total += process.memory_full_info().pss
                self.shared |= {
                    Path(region.path) for region in process.memory_maps() if region.path.startswith("/dev/shm/")
                }
        self.memory.append(total / 1e9)

    def scalars(self, tag: str) -> list[float]:
        return scalars_csv.values(self.run, tag)

    def _reached(self) -> int:
        return scalars_csv.come_to(self.run)[1]

    def _steps(self) -> int:
        path = checkpoint.newest(self.run)
        return int(path.stem) if path is not None else 0

    def _words(self, process: psutil.Process) -> list[str]:
        try:
            return process.cmdline()
        except psutil.Error:
            return []

    def _wait(self, condition, seconds: float, what: str) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                self.broken.append(f"waited {seconds:.0f} s for {what}")
                return
            time.sleep(0.1)


def where(training: Training) -> str:
    """What the kernel says of all threads of the server, to find what it waits for; on Linux."""
    tasks = Path(f"/proc/{training.process.pid}/task")
    return ", ".join(
        f"{(task / 'comm').read_text().strip()}: {(task / 'wchan').read_text()}" for task in tasks.glob("*")
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seconds", type=float, default=8, help="between two faults, on average")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("options", nargs="*", help="of kartrl train, after --")
    arguments = parser.parse_args()
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # a run keeps a SIGHUP that nohup ignores, and would not end by it
    with tempfile.TemporaryDirectory() as name:
        soak = Soak(Path(name), arguments.options, arguments.seed)
        (soak.folder / "tmp").mkdir()
        os.environ["TMPDIR"] = str(soak.folder / "tmp")
        training = soak.start(resume=False)
        began = last_words = time.monotonic()
        try:
            while (now := time.monotonic()) - began < 60 * arguments.minutes and not soak.broken:
                time.sleep(min(soak.chance.expovariate(1 / arguments.seconds), 4 * arguments.seconds))
                training = soak.fault(training)
                soak.check(training)
                if now - last_words > 30:
                    last_words = now
                    faults = sum(soak.counts.values())
                    print(
                        f"{(now - began) / 60:5.1f} min, {faults} faults, {soak._steps():,} agent steps",
                        file=sys.stderr,
                    )
            if training.process.poll() is None:
                soak.end(training, signal.SIGTERM)
        finally:
            training.__exit__()
        minutes = (time.monotonic() - began) / 60
        if left := [path.name for path in soak.shared if path.exists()]:
            soak.broken.append(f"left in /dev/shm: {', '.join(left)}")
        if left := [path.name for path in soak.run.rglob("*") if path.suffix in (".tmp", ".lock", ".pid")]:
            soak.broken.append(f"left in the run's folder: {', '.join(left)}")
        if left := [path.name for path in (soak.folder / "tmp").iterdir() if path.name.startswith("kartrl")]:
            soak.broken.append(f"left in the temporary folder: {', '.join(left)}")
        if b"Traceback" in soak.output:
            soak.broken.append("a traceback was printed")
        if soak.memory:
            print(report(soak, minutes))
        if soak.broken:
            print("\n".join(soak.broken), file=sys.stderr)
            print(soak.output.decode()[-5000:], file=sys.stderr)
    return 1 if soak.broken else 0


def report(soak: Soak, minutes: float) -> str:
    """The results as a Markdown table."""
    last = checkpoint.load(checkpoint.newest(soak.run) or Path())
    returns = soak.scalars("charts/episodic_return")
    tenth = max(1, len(soak.memory) // 10)
    rows = {
        "minutes": f"{minutes:.1f}",
        **{kind: str(soak.counts[kind]) for kind in FAULTS},
        "agent deaths by the last report (since the last resume)": f"{soak.scalars('system/agent_deaths')[-1]:.0f}",
        "agent steps trained, updates": f"{last.counters.agent_steps:,}, {last.counters.updates:,}",
        "agent steps lost by kills of the server (after its last checkpoint)": f"{soak.lost_steps:,}",
        "longest pause between two updates of a server, s": f"{max(soak.scalars('speed/longest_pause_seconds')):.1f}",
        "mean return, first and last tenth": f"{_mean(returns, 0.1):.2f}, {_mean(returns[::-1], 0.1):.2f}",
        "memory of all processes (PSS), median of the first and last tenth, GB": (
            f"{statistics.median(soak.memory[:tenth]):.2f}, {statistics.median(soak.memory[-tenth:]):.2f}"
        ),
        "left behind": "nothing"
        if not any("left in" in text or "gone" in text for text in soak.broken)
        else "see below",
        "promises broken": "; ".join(soak.broken) or "none",
    }
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items())])


def _mean(values: list[float], part: float) -> float:
    return statistics.fmean(values[: max(1, int(len(values) * part))]) if values else float("nan")


if __name__ == "__main__":
    sys.exit(main())
