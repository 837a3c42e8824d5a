"""Reacts to updates that are not finite."""


class Diverged(Exception):
    """Updates are not finite, and going back to earlier weights did not help."""


class DivergenceGuard:
    """Counts skipped updates, and decides when to go back to earlier weights, at most once.

    Args:
        limit: skipped updates in a row after which to go back.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._in_a_row = 0
        self._may_go_back = True
        self.skipped = 0

    @property
    def healthy(self) -> bool:
        """Whether the newest update was finite."""
        return self._in_a_row == 0

    def record(self, finite: bool) -> str | None:
        """Count an update.

        Returns:
            None, or the reason to go back to the last good weights now.

        Raises:
            Diverged: going back would be necessary a second time.
        """
        return self.compare(self.skipped, 0) if finite else self.compare(self.skipped + 1, self._in_a_row + 1)

    def compare(self, skipped: int, in_a_row: int) -> str | None:
        """As `record`, if updates are counted elsewhere: all that were skipped, and those in a row up to the newest."""
        self.skipped, self._in_a_row = skipped, in_a_row
        if in_a_row < self._limit:
            return None
        problem = f"the loss or gradient of {self._in_a_row} updates in a row was not finite"
        if not self._may_go_back:
            raise Diverged(f"{problem}, again after a rollback to good weights; try a smaller optimizer.learning_rate")
        self._may_go_back, self._in_a_row = False, 0
        return problem
