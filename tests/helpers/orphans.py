"""Kills processes at the moment their fork server is killed, and prints how each has ended: python -m orphans."""

import os
import signal
import time
from multiprocessing import forkserver

from kartrl.processes.child import start_process
from kartrl.processes.spawn import start_method


def main() -> None:
    context = start_method()
    for _ in range(8):
        process = start_process(context.Process(target=time.sleep, args=(1000,), daemon=True))
        os.kill(forkserver._forkserver._forkserver_pid, signal.SIGKILL)
        process.kill()
        while process.is_alive():  # no pause, in which the fork server would have ended too
            pass
        print(process.exitcode)


if __name__ == "__main__":
    main()
