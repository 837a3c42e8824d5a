"""The dialog that asks for the name of a start state, and the file that the name stands for."""

from pathlib import Path

import pygame

from kartrl.console.states import write_state
from kartrl.errors import UserError
from kartrl.files import user_path
from kartrl.kart import cartridge
from kartrl.kart.levels import CIRCUITS
from kartrl.kart.play.session import Session

SUFFIX = ".state"


class Question:
    """Asks for a file, writes the console's state to it, and confirms before it overwrites one."""

    def __init__(self, session: Session, folder: Path) -> None:
        self.text = ""
        self.error = ""
        """Error about the text."""
        self.written: Path | None = None
        self.over = False
        """Whether the dialog is closed."""
        self._session, self._folder = session, folder
        self._there: Path | None = None  # existing file, once the player has been asked whether to overwrite it
        self._proposals = proposals(folder)
        self._chosen = -1
        pygame.key.start_text_input()

    def take(self, event: pygame.event.Event) -> None:
        if event.type == pygame.TEXTINPUT:
            self._change(self.text + event.text)
        elif event.type == pygame.KEYDOWN:
            if event.key == pygame.K_ESCAPE:
                self._end()
            elif event.key == pygame.K_BACKSPACE:
                self._change(self.text[:-1])
            elif event.key in (pygame.K_UP, pygame.K_DOWN):
                self._choose(-1 if event.key == pygame.K_UP else 1)
            elif event.key in (pygame.K_RETURN, pygame.K_KP_ENTER):
                self._save()

    def lines(self) -> list[str]:
        """Lines to show below the text."""
        race, drive = self._session.console.race(), self._session.drive
        where = f"position: lap {drive.lap}, section {race['checkpoint']}, race clock {drive.clock:.2f} s"
        if self._there is not None:
            return [f"{self._there} exists.", "enter: overwrite    esc: keep it"]
        return [
            where,
            self.error or "up, down: choose a circuit; or type a name or a path",
            "enter: save    esc: cancel",
        ]

    def _change(self, text: str) -> None:
        self.text, self.error, self._there = text, "", None

    def _choose(self, step: int) -> None:
        self._chosen = (
            (self._chosen + step) % len(self._proposals) if self._chosen >= 0 else min(step, 0) % len(self._proposals)
        )
        self._change(self._proposals[self._chosen])

    def _save(self) -> None:
        try:
            file = place(self._folder, self.text)
            if file.exists() and file != self._there:
                self._there = file
                return
            write_state(file, self._session.state())
        except UserError as problem:
            self._change(self.text)
            self.error = str(problem)
        else:
            self.written = file
            self._end()

    def _end(self) -> None:
        self.over = True
        pygame.key.stop_text_input()


def place(folder: Path, text: str) -> Path:
    """Resolve the text typed by a player to the file of a start state of the game in `folder`.

    A path (with a slash, or ending in .state) is used as it is. The name of a circuit is saved in the user's data
    folder for the cartridge, where configurations find it, and in the current folder for the bundled game.

    Raises:
        UserError: the text is neither a path nor such a name.
    """
    text = text.strip()
    if not text or not text.isprintable():
        raise UserError("type the name of a circuit, or the path of a file")
    if "/" in text or text.endswith(SUFFIX):
        file = user_path(text)
        if file.name in ("", ".", "..", SUFFIX):
            raise UserError("this path has no file name")
        return file if file.suffix == SUFFIX else file.with_name(file.name + SUFFIX)
    if folder != cartridge.folder():
        return Path(text + SUFFIX)
    if text not in CIRCUITS:
        raise UserError("not a circuit of the cartridge: choose one with up and down")
    return folder / (text + SUFFIX)


def proposals(folder: Path) -> list[str]:
    """Names of circuits to choose from, those without a start state first."""
    return sorted(CIRCUITS, key=lambda name: ((folder / (name + SUFFIX)).exists(), name))
