"""Peak memory (PSS) and CPU time of a command's whole process tree, by process; or of several at once.

    python benchmarks/memory.py [--runs 2] 60 kartrl train --plain ...

Each gets SIGTERM after that many seconds. PSS counts a page that n processes share as 1/n of a page in each.
"""

import argparse
import contextlib
import signal
import subprocess
import time
from collections.abc import Sequence

import psutil

Usage = dict[str, tuple[float, float]]  # process -> PSS in MB, CPU seconds


def usage(roots: Sequence[psutil.Process]) -> Usage:
    found: Usage = {}
    for root in roots:
        with contextlib.suppress(psutil.Error):
            for process in [root, *root.children(recursive=True)]:
                with contextlib.suppress(psutil.Error, OSError):
                    times = process.cpu_times()
                    title = " ".join(process.cmdline()) or process.name()
                    role = (
                        title.removeprefix("kartrl ") if title.startswith("kartrl ") else title.rpartition("/")[2][:60]
                    )
                    found[f"{process.pid} {role}"] = process.memory_full_info().pss / 1e6, times.user + times.system
    return found


def main(seconds: float, runs: int, command: list[str]) -> None:
    processes = [subprocess.Popen(command) for _ in range(runs)]
    roots, peak, newest = [psutil.Process(process.pid) for process in processes], {}, {}
    end = time.monotonic() + seconds
    while any(process.poll() is None for process in processes) and time.monotonic() < end:
        now = usage(roots)
        newest |= now
        peak = max(peak, now, key=total)
        time.sleep(0.25)
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    for process in processes:
        process.wait()
    print(f"peak {total(peak):.0f} MB PSS; CPU {sum(each[1] for each in newest.values()):.1f} s")
    for name, (memory, _) in sorted(peak.items(), key=lambda each: -each[1][0]):
        print(f"{memory:8.1f} MB {newest[name][1]:8.1f} s  {name}")


def total(usage: Usage) -> float:
    return sum(memory for memory, _ in usage.values())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--runs", type=int, default=1, help="copies of the command at once")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    main(options.seconds, options.runs, options.command)
