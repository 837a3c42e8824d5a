"""Preloaded by the fork server (see `processes.start_method`); not to be imported elsewhere."""

import atexit
import os
import shutil
import signal

import kartrl.runtime.agent_process  # noqa: F401  # so that agents come up with it loaded

# Ctrl-C reaches processes from their first moment on, before `processes.spawn` can tell them whose decision the end is.
signal.signal(signal.SIGINT, signal.SIG_IGN)
# This server outlives all others of its run, also where they were killed and could not tidy up.
atexit.register(shutil.rmtree, os.environ["KARTRL_SOCKETS"], ignore_errors=True)
