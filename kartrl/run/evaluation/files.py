"""The files that the evaluator writes to its folder, for TensorBoard and for people."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from kartrl.acting.program import Node
from kartrl.envs.world import Env
from kartrl.envs.wrappers.pictures import picture_of
from kartrl.files import write_whole
from kartrl.learning.counters import Counters
from kartrl.metrics.event_writer import EventWriter
from kartrl.metrics.records import Video
from kartrl.metrics.sinks import WriteWarning
from kartrl.metrics.video import contact_sheet, gif, png, shrunk

GIF_FPS = 5.0
GIF_WIDTH = 128  # small: there is one for each level every minute


class Film:
    """Small images of an episode.

    Args:
        gap: steps from one image to the next.
        most: maximum number of images.

    Attributes:
        pictures: uint8 [H, W, 3] each.
    """

    def __init__(self, gap: int, most: float) -> None:
        self._gap, self._most = gap, most
        self._steps = 0
        self.pictures: list[np.ndarray] = []

    def look(self, env: Env) -> None:
        """Take an image, if it is time for one; call at the start and after each step."""
        if self._steps % self._gap == 0 and len(self.pictures) < self._most:
            self.pictures.append(shrunk(picture_of(env), GIF_WIDTH))
        self._steps += 1


class EvaluationFiles:
    """Event files with the network's graph, pictures and videos, and all pictures of a round in `latest.png`.

    Args:
        first_step: see `EventWriter`.
    """

    def __init__(self, folder: Path, first_step: int | None) -> None:
        self._folder = folder
        self._first_step = first_step  # None after existing files have been truncated
        self._events: EventWriter | None = None
        self._warn = WriteWarning("evaluations", folder)

    def write(
        self,
        counters: Counters,
        name: str,
        word: str,
        picture: np.ndarray | None,
        film: list[np.ndarray],
        graph: Callable[[], Sequence[Node]],
    ) -> Video | None:
        """Write a level's picture and film to the event file.

        Args:
            word: what the picture is.
            picture: uint8 [H, W, 3], if any.
            film: uint8 [H, W, 3] each, at `GIF_FPS`; may be empty.
            graph: makes the network's graph, which is written once.

        Returns:
            The film, if there is one.
        """
        step, tag = counters.agent_steps, f"evaluation_video/{name}"
        video = Video(step, tag, gif(film, GIF_FPS), counters.seconds) if film else None
        with self.warning():
            if self._events is None:
                self._folder.mkdir(exist_ok=True)
                first = not any(self._folder.glob("events.*"))
                self._events = EventWriter(self._folder, self._first_step)
                if first:
                    self._events.graph(graph())
                self._first_step = None
            if picture is not None:
                self._events.image(step, f"evaluation_{word}s/{name}", png(picture), *picture.shape[:2])
            if video is not None:
                self._events.image(step, tag, video.gif, *film[0].shape[:2])
            self._events.flush()
        return video

    def show(self, pictures: Sequence[np.ndarray]) -> None:
        """Write all pictures of a round, uint8 [H, W, 3] each, to `latest.png`."""
        if pictures:
            with self.warning():
                sheet = contact_sheet(pictures, columns=2 if len(pictures) <= 6 else 4)
                write_whole(self._folder / "latest.png", png(sheet))

    def close(self) -> None:
        """Close the event file."""
        if self._events is not None:
            self._events.close()
            self._events = None

    @contextlib.contextmanager
    def warning(self) -> Iterator[None]:
        """Context manager: warn once about a file that cannot be written; training continues."""
        try:
            yield
        except OSError as error:
            self.close()
            self._warn(error)
