"""Converts a movie to a video."""

from pathlib import Path

from kartrl.files import ANOTHER, explained, unused_file
from kartrl.kart.game import TICKS_PER_SECOND
from kartrl.kart.play.stage import Stage
from kartrl.metrics.video import Mp4Writer


def film(stage: Stage, output: Path) -> Path:
    """Write the stage's movie as an MP4, faster than real time where possible; returns the file.

    Raises:
        UserError: the file cannot be written.
    """
    session = stage.first()
    assert session is not None, "a stage with a movie has a first session"
    with explained(output, "write", ANOTHER), unused_file(output) as file:
        with Mp4Writer(file, TICKS_PER_SECOND) as video:
            video.add(session.console.picture())
            while not session.ended:
                session.tick(0)
                video.add(session.console.picture())
        return file
