"""`kartrl play`: see `kartrl.kart.play`."""

import argparse
from pathlib import Path

from kartrl.kart.play import Options
from kartrl.kart.play import play as play_kart


def play(options: argparse.Namespace, checkpoint: Path | None) -> int:
    """Open the window, or film a movie; the exit status."""
    play_kart(
        Options(
            circuit=options.state,
            game=options.game,
            checkpoint=checkpoint,
            greedy=options.greedy,
            device=options.device,
            ghost=options.ghost,
            replay=options.replay,
            output=options.output,
            opponents=options.opponents,
        )
    )
    return 0
