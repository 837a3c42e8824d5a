"""Converts a movie to a video."""

from pathlib import Path

from kartrl.errors import UserError
from kartrl.kart.play.stage import Stage
from kartrl.kart.race import TICKS_PER_SECOND
from kartrl.metrics.video import Mp4Writer


def film(stage: Stage, output: Path) -> None:
    """Write the stage's movie as an MP4, faster than real time where possible.

    Raises:
        UserError: the file cannot be written.
    """
    session = stage.first()
    assert session is not None, "a stage with a movie has a first session"
    try:
        with Mp4Writer(output, TICKS_PER_SECOND) as video:
            video.add(session.console.picture())
            while not session.ended:
                session.tick(0)
                video.add(session.console.picture())
    except OSError as error:
        raise UserError(f"{output}: cannot write ({error.strerror or error}); choose another file with -o") from error
