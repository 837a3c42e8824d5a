"""Reacts to updates that are not finite."""


class Diverged(Exception):
    """Updates are not finite, and going back to earlier weights did not help."""


class DivergenceGuard:
    """Counts skipped updates, and decides when to go back to earlier weights.

    After that, training must recover before it may go back again: to a state after as many finite updates in a row.

    Args:
        limit: skipped updates in a row after which to go back.

    Attributes:
        armed: whether it may go back.
        skipped: number of all skipped updates.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._in_a_row = self._finite = self._updates = 0
        self.armed = True
        self.skipped = 0

    @property
    def healthy(self) -> bool:
        """Whether the newest update was finite."""
        return self._in_a_row == 0

    def saved(self) -> None:
        """A good state was taken after the newest update."""
        self.armed |= self._finite >= self._limit

    def record(self, finite: bool) -> str | None:
        """Count an update.

        Returns:
            None, or the reason to go back to the last good weights now.

        Raises:
            Diverged: going back would be necessary again, and training has not recovered since the last time.
        """
        skipped, in_a_row = (self.skipped, 0) if finite else (self.skipped + 1, self._in_a_row + 1)
        return self.compare(self._updates + finite, skipped, in_a_row)

    def compare(self, updates: int, skipped: int, in_a_row: int) -> str | None:
        """As `record`, if updates are counted elsewhere.

        Args:
            updates: all that were not skipped.
            skipped: all that were.
            in_a_row: those skipped in a row, up to the newest.
        """
        self._finite = self._finite + updates - self._updates if skipped == self.skipped else 0
        self._updates, self.skipped, self._in_a_row = updates, skipped, in_a_row
        if in_a_row < self._limit:
            return None
        problem = f"the loss or gradient of {self._in_a_row} updates in a row was not finite"
        if not self.armed:
            raise Diverged(f"{problem}, again after a rollback to good weights; try a smaller optimizer.learning_rate")
        self.armed, self._in_a_row = False, 0
        return problem
