"""The dialog that asks for the name of a start state."""

from pathlib import Path

import pygame

from kartrl.console.states import write_state
from kartrl.errors import UserError
from kartrl.kart.play import states
from kartrl.kart.play.session import Session


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
        self._proposals = states.proposals(folder)
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
            file = states.place(self._folder, self.text)
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
