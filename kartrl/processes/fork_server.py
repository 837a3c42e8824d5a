"""Preloaded by the fork server (see `processes.start_method`); not to be imported elsewhere."""

import atexit
import os
import signal
import sys
from pathlib import Path
from typing import Any

from kartrl.errors import shortage
from kartrl.processes.socket_folder import remove_unused


def _report(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    """Stay silent if the process at the other end is gone, even halfway through requesting a new process."""
    if (cause := shortage(error)) is not None:
        print(f"kartrl: {cause}", file=sys.stderr)
    elif not issubclass(kind, (EOFError, ConnectionError)):
        sys.__excepthook__(kind, error, trace)


sys.excepthook = _report
# The server decides when a run and its processes end. Until here, both signals have been blocked.
for number in (signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
# The fork server outlives all other processes of its run, even if they were killed and could not clean up.
atexit.register(remove_unused, Path(os.environ["KARTRL_SOCKETS"]), patience=1.0)
signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGHUP, signal.SIGTERM))

from kartrl.processes.child import continue_after_parent  # noqa: E402

continue_after_parent()
