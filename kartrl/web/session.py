"""Runs a show for the viewers of a page, and does what they ask for."""

import json
import math
import queue
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kartrl.driving.driver import Driver
from kartrl.envs.spec import Binary, Continuous, Discrete, Part
from kartrl.errors import UserError
from kartrl.viewer.pace import Pacer
from kartrl.viewer.show import Show
from kartrl.web import contents
from kartrl.web.attribution import Attribution
from kartrl.web.choices import Choice, Choices
from kartrl.web.server import Frame, Message, PageServer

FPS = 32.0  # pictures per second: 30 where a training beside it makes some late
LOOK_SECONDS = 2.0  # between looks for new checkpoints
IDLE_SECONDS = 0.5  # between looks for an interruption while nobody watches
SHARE = 0.2  # of the time that attributions may take while the show continues
SPEEDS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
LARGEST_SEED = 2**31 - 1


class Session:
    """One show, until a viewer chooses a policy that is of another run.

    Args:
        driver: its environment must render.
        path: the driver's checkpoint.
        choices: what viewers may choose.
        say: called with lines about the checkpoint.
        note: a line for the viewers.
    """

    def __init__(
        self,
        server: PageServer,
        driver: Driver,
        path: Path,
        choices: Choices,
        *,
        greedy: bool,
        seconds: float,
        say: Callable[[str], None],
        note: str = "",
    ) -> None:
        self._server, self._choices = server, choices
        self._show = Show(driver, path, choices.followed, greedy, seconds, say)
        self._paused, self._speed = False, 1.0
        self._wheel: int | None = None  # the viewer who drives
        self._attribution: Attribution | None = None
        self._explains = False
        self._explain_after = 0.0
        self._rows: list[str] = []
        self._map: list[tuple[str, bytes]] = []
        self._episode = -1
        self._about = ""
        self._seen: tuple[list[Any], list[tuple[str, bytes]]] = ([], [])
        self._seen_at = (-1, -1)
        self._note = note
        self._leave: Choice | None = None
        self._pace()
        self._look_after = 0.0

    def run(self) -> Choice:
        """Show until a viewer chooses a policy of another run, and return that choice. Ctrl-C interrupts."""
        changed = True
        while self._leave is None:
            if not self._server.viewers:
                self._take(IDLE_SECONDS)
                self._pace()
                continue
            now = time.perf_counter()
            if now >= self._look_after:
                self._look()
                self._look_after = time.perf_counter() + LOOK_SECONDS
            for _ in range(0 if self._paused else self._pacer.due(time.perf_counter())):
                self._show.tick()
                changed = True
            if changed and self._pictures.due(time.perf_counter()):
                self._publish()
                changed = False
            now = time.perf_counter()
            next_shown = self._pictures.wait(now) if changed else math.inf
            next_tick = math.inf if self._paused else self._pacer.wait(now)
            changed |= self._take(min(next_shown, next_tick, IDLE_SECONDS))
        return self._leave

    def _pace(self) -> None:
        now = time.perf_counter()
        self._pacer, self._pictures = Pacer(now, self._show.rate * self._speed), Pacer(now, FPS)

    def _take(self, seconds: float) -> bool:
        """Do what viewers ask for within so many seconds; returns whether there was anything."""
        taken = False
        try:
            message = self._server.messages.get(timeout=max(seconds, 1e-4))
            while True:
                taken = True
                self._do(message)
                message = self._server.messages.get_nowait()
        except queue.Empty:
            return taken

    def _do(self, message: Message) -> None:
        """Do what a viewer asks for; nothing, if it makes no sense."""
        content, show = message.content, self._show
        what, value = content.get("do"), content.get("value")
        if what is None or (what == "wheel" and value is False):
            if self._wheel == message.viewer:
                self._wheel = show.hand = None
        elif what == "wheel" and value is True and self._wheel is None:
            self._wheel = message.viewer
        elif what == "hand" and self._wheel == message.viewer:
            show.hand = hand_of(show, value)
        elif what == "pause" and isinstance(value, bool):
            self._paused = value
            self._seen_at = (-1, -1)  # of what is paused at, everything is explained
            self._pace()
        elif what == "step":
            self._paused = True
            show.step()
        elif what == "next":
            show.stay = False
            show.next()
        elif what == "reset" and value is None:
            show.begin(show.place, show.seed)
        elif what == "reset" and type(value) is int and 0 <= value <= LARGEST_SEED:
            show.begin(show.place, value)
        elif what == "level" and type(value) is int and -1 <= value < len(show.levels):
            show.stay = value >= 0
            if show.stay:
                show.begin(value, show.seed)
        elif what == "speed" and type(value) in (int, float) and value in SPEEDS:
            self._speed = float(value)
            self._pace()
        elif what == "greedy" and isinstance(value, bool):
            show.greedy = value
            show.begin(show.place, show.seed)
        elif what == "explain" and isinstance(value, bool):
            self._explains = value
            self._seen_at = (-1, -1)
        elif what == "policy" and isinstance(value, str):
            self._choose(value)

    def _choose(self, name: str) -> None:
        """Continue with another checkpoint."""
        chosen, before = self._choices.find(name), self._choices.chosen
        if chosen is None:
            return
        if chosen.source != before.source:
            self._leave = chosen
            return
        self._choices.choose(chosen)
        try:
            self._show.follow = self._choices.followed
            path = self._choices.path()
            if path is not None and path != self._show.path:
                self._show.take(path)
            self._note = ""
        except UserError as error:  # removed, or damaged
            self._note = str(error)
            self._choices.choose(before)
            self._show.follow = self._choices.followed
        self._look_after = 0.0

    def _look(self) -> None:
        """Look at the run's folder; describe what does not change from frame to frame."""
        show = self._show
        self._choices.look()
        about = {
            "levels": [show.name(place) for place in range(len(show.levels))] if show.levels != ("",) else [],
            "policies": self._choices.names,
            "curve": self._choices.curve,
            "training": self._choices.is_training,
            **wheel(show),
            "speeds": SPEEDS,
        }
        text = json.dumps({"about": about})
        if text != self._about:
            self._about = text

    def _publish(self) -> None:
        show = self._show
        at = show.episodes, len(show.moments)
        if show.episodes != self._episode:
            self._episode, self._rows = show.episodes, []
            self._map = [] if show.bare_map is None else [("map", contents.jpeg(show.bare_map))]
        self._rows += map(contents.row, show.moments[len(self._rows) :])
        if self._seen_at != at:
            self._seen, self._seen_at = contents.seen(show, self._explain()), at
        parts, pictures = self._seen
        state = {
            "episode": show.episodes,
            "title": show.title,
            "policy": show.policy,
            "file": self._choices.name,
            "summary": show.summary,
            "note": self._note,
            "paused": self._paused,
            "speed": self._speed,
            "greedy": show.greedy,
            "seed": show.seed,
            "place": show.place if show.stay else -1,
            "explain": self._explains,
            "wheel": self._wheel or 0,
            "actions": contents.policy(show),
            "seen": parts,
        }
        picture = ("picture", contents.jpeg(show.picture))
        self._server.publish(
            Frame(self._about, show.episodes, self._rows, len(self._rows), state, [picture, *pictures], self._map)
        )

    def _explain(self) -> list[tuple[np.ndarray, np.ndarray]] | None:
        """The attribution of the shown step; None if nobody wants it, or the last one is too recent for its cost."""
        begin = time.perf_counter()
        if not self._explains or (begin < self._explain_after and not self._paused):
            return None
        if self._attribution is None or self._attribution.path != self._show.path:
            try:
                self._attribution = Attribution(self._show.path)
            except UserError as error:  # removed, as training does after a while
                self._note, self._explains = str(error), False
                return None
        explained = self._attribution.explain(self._show.thought)
        took = time.perf_counter() - begin
        self._explain_after = begin + took / SHARE
        return explained


def hand_of(show: Show, value: Any) -> np.ndarray | None:
    """The action of a person, float32 [D]; None if it is none of the environment's."""
    if not isinstance(value, list) or len(value) != show.action.columns:
        return None
    if not all(type(number) in (int, float) for number in value):
        return None
    if not all(low <= number <= high for number, (low, high) in zip(value, limits(show), strict=True)):
        return None
    whole = all(number == int(number) for number, kind in zip(value, kinds(show), strict=True) if kind != "number")
    return np.array(value, np.float32) if whole else None


def wheel(show: Show) -> dict[str, Any]:
    """What turns keys into actions: of each column its kind, name and alternatives; the joypad."""
    columns = [
        {"kind": kind, "name": name, "names": names, "size": int(high) + 1}
        for kind, (name, names), (_, high) in zip(kinds(show), show.columns, limits(show), strict=True)
    ]
    return {"columns": columns, "joypad": show.joypad}


def kinds(show: Show) -> list[str]:
    """The kind of each column of an action: one of several choices, a bit, or a number."""
    names = {Discrete: "choice", Binary: "bit", Continuous: "number"}
    return [names[type(part)] for part in show.action.parts for _ in range(part.columns)]


def limits(show: Show) -> list[tuple[float, float]]:
    """The range of each column of an action."""
    return [limit for part in show.action.parts for limit in _limits(part)]


def _limits(part: Part) -> list[tuple[float, float]]:
    if isinstance(part, Discrete):
        return [(0, size - 1) for size in part.sizes]
    return [(0, 1) if isinstance(part, Binary) else (-1, 1)] * part.columns
