"""What ends a command or a run."""


class UserError(Exception):
    """Bad input: `kartrl` prints its text as one line, says what to do, and exits with status 2."""


class RunFailed(Exception):
    """A fault that cannot be healed ended the run; its text holds the cause, with the traceback where there is one."""
