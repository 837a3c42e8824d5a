"""Errors that a user can mend."""


class UserError(Exception):
    """Bad input: `kartrl` prints its text as one line, says what to do, and exits with status 2."""
