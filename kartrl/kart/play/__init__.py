"""`kartrl play`: drive yourself, against the clock or a ghost."""

import os

from kartrl.errors import UserError
from kartrl.kart.play.stage import Options, Stage

os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # pygame prints a banner otherwise


def play(options: Options) -> None:
    """Open the window, or convert a movie to an MP4 without one; prints the files written.

    Raises:
        UserError: an option names a missing or unsuitable file, a file cannot be written, or there is no display.
    """
    _check(options)
    if options.replay is not None and options.output is not None:
        from kartrl.kart.play.film import film

        with Stage(options) as stage:
            file = film(stage, options.output)
        print(f"Video: {file}")
        return

    from kartrl.viewer.window import Window

    window = Window("KartRL")  # first: fails fast without a display
    try:
        from kartrl.kart.play.app import App

        window.wait("loading ..." if options.checkpoint is None else "loading the ghost ...")

        with Stage(options) as stage:
            print(options.announcement, end="", flush=True)
            app = App(stage, window, options.output)
            app.run()
    finally:
        window.close()
    for file in app.shelf.written:
        print(f"Written: {file}")


def _check(options: Options) -> None:
    if options.replay is not None and (options.checkpoint or options.ghost or options.circuits):
        raise UserError("--replay cannot be combined with -s, -p or --ghost")
    if options.checkpoint is not None and options.ghost is not None:
        raise UserError("only one ghost is possible: pass either -p or --ghost")
    if options.opponents and (options.checkpoint or options.ghost or options.replay):
        raise UserError("--opponents cannot be combined with -p, --ghost or --replay")
    if options.output is not None:
        wanted = ".bk2" if options.replay is None else ".mp4"
        if options.output.suffix.lower() != wanted:
            raise UserError(f"-o {options.output}: the file name must end in {wanted}")
        if not options.output.parent.is_dir():
            raise UserError(f"-o {options.output}: no folder {options.output.parent}; create it first")
