"""Saves a run's replays with its checkpoints, without training waiting for it, and restores them at the start."""

import contextlib
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

from kartrl.config.replay import Replay as Section
from kartrl.errors import UserError
from kartrl.files import shown
from kartrl.replay import Mixture
from kartrl.replay.replay_folder import ReplayFolder, most_on_disk

MUCH = 1 << 27  # bytes that take noticeable time to write


class ReplaySaves:
    """Saves the contents of a run's replays if `replay.save` is set, and says what is lost if it is not.

    Args:
        mixture: the replays; None if there are none.
        run_folder: where they are saved.
    """

    def __init__(self, section: Section, mixture: Mixture | None, run_folder: Path, say: Callable[[str], None]) -> None:
        self._section, self._mixture, self._say = section, mixture, say
        saved = mixture is not None and section.save
        self._folder = ReplayFolder(run_folder / "replay", mixture) if saved and mixture is not None else None
        self._writing: threading.Thread | None = None
        self._saved = ""  # name of the newest successful save
        if saved and mixture is not None:
            taken = sum(file.stat().st_size for file in (run_folder / "replay").glob("*"))  # of the run before a resume
            free, needed = shutil.disk_usage(run_folder).free + taken, most_on_disk(mixture.shape)
            if free < needed:
                room = f"only {free / 1e9:.1f} GB are free, but the replays may take {needed / 1e9:.1f}"
                say(f"{shown(run_folder)}: {room}")

    def restore(self, name: str) -> None:
        """Restore what was saved with the checkpoint of this name; call it before the replays are used."""
        if self._mixture is None:
            return
        problem = "were not saved: replay.save is false"
        if self._folder is not None:
            try:
                self._folder.restore(name)
            except UserError as error:
                problem = f"could not be restored: {error}"
            else:
                self._say(f"Replays continue with their {self._mixture.held:,} saved steps")
                return
        start = f"{self._section.start:,}"
        self._say(f"Replay contents {problem}; starting empty, with no replay for {start} steps")

    def move(self, run_folder: Path) -> None:
        """The run's folder is now this one; what is missing in it is saved again."""
        if self._folder is not None:
            if self._writing is not None:
                self._writing.join()
                self._writing = None
            self._folder.move(run_folder / "replay")

    def ready(self) -> bool:
        """Whether little is left for `save` to write; if not, a thread writes most of it now: call this again later."""
        if self._folder is None:
            return True
        if self._writing is None:
            self._writing = threading.Thread(target=self._write_ahead, name="replay-saves", daemon=True)
            self._writing.start()
        if self._writing.is_alive():
            return False
        self._writing = None
        return True

    def save(self, name: str) -> None:
        """Save the replays under the name of a checkpoint, which must be saved next."""
        if self._folder is None:
            return
        if self._writing is not None:
            self._writing.join()
            self._writing = None
        if (left := self._folder.unwritten()) > MUCH:  # at the end of a run, between two regular saves
            self._say(f"Saving {left / 1e6:,.0f} MB of replay contents ...")
        try:
            self._folder.save(name)
            self._saved = name
        except OSError as error:
            self._say(f"failed to save the replay contents ({error.strerror or error})")

    def remove_others(self, name: str) -> None:
        """Remove what was saved with checkpoints before this one, if anything was saved with this one."""
        if self._folder is not None and self._saved == name:
            self._folder.remove_others(name)

    def _write_ahead(self) -> None:
        assert self._folder is not None
        with contextlib.suppress(OSError):  # `save` will fail too, and say so
            self._folder.write_ahead()
