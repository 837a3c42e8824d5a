"""Peak memory (PSS) and CPU time of a command's whole process tree, by process.

    python benchmarks/memory.py SECONDS kartrl train --plain ...

After that many seconds the command gets SIGTERM. PSS counts a page that n processes share as 1/n of a page in each.
"""

import contextlib
import signal
import subprocess
import sys
import time

import psutil

Usage = dict[str, tuple[float, float]]  # process -> PSS in MB, CPU seconds


def usage(root: psutil.Process) -> Usage:
    found: Usage = {}
    for process in [root, *root.children(recursive=True)]:
        with contextlib.suppress(psutil.Error, OSError):
            times = process.cpu_times()
            title = " ".join(process.cmdline()) or process.name()
            role = title.removeprefix("kartrl ") if title.startswith("kartrl ") else title.rpartition("/")[2][:60]
            found[f"{process.pid} {role}"] = process.memory_full_info().pss / 1e6, times.user + times.system
    return found


def main(seconds: float, command: list[str]) -> None:
    process = subprocess.Popen(command)
    root, peak, newest = psutil.Process(process.pid), {}, {}
    end = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < end:
        now = usage(root)
        newest |= now
        peak = max(peak, now, key=total)
        time.sleep(0.25)
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        process.wait()
    print(f"peak {total(peak):.0f} MB PSS; CPU {sum(each[1] for each in newest.values()):.1f} s")
    for name, (memory, _) in sorted(peak.items(), key=lambda each: -each[1][0]):
        print(f"{memory:8.1f} MB {newest[name][1]:8.1f} s  {name}")


def total(usage: Usage) -> float:
    return sum(memory for memory, _ in usage.values())


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2:])
