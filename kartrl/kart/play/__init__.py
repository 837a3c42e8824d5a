"""`kartrl play`: a person drives, against the clock or a ghost."""

import os

from kartrl.errors import UserError
from kartrl.kart.play.stage import Options, Stage

os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # pygame greets on stdout otherwise


def play(options: Options) -> None:
    """Open the window, or write a movie as an MP4 without one; prints which files were written.

    Raises:
        UserError: something that was asked for is not there, does not fit, or cannot be written; or there is no display.
    """
    _check(options)
    if options.replay is not None and options.output is not None:
        from kartrl.kart.play.film import film

        with Stage(options) as stage:
            film(stage, options.output)
        print(f"Video: {options.output}")
        return

    from kartrl.kart.play.window import Window

    window = Window("KartRL")  # before all that takes its time: without a display there is nothing to wait for
    try:
        from kartrl.kart.play.app import App

        window.wait("one moment ..." if options.checkpoint is None else "the ghost is getting ready ...")

        with Stage(options) as stage:
            app = App(stage, window, options.output)
            app.run()
    finally:
        window.close()
    for file in app.shelf.written:
        print(f"Written: {file}")


def _check(options: Options) -> None:
    if options.replay is not None and (options.checkpoint or options.ghost or options.circuit):
        raise UserError("--replay shows a movie as it is: it goes with neither -s, -p nor --ghost")
    if options.checkpoint is not None and options.ghost is not None:
        raise UserError("one ghost at a time: give -p or --ghost")
    if options.opponents and (options.checkpoint or options.ghost or options.replay):
        raise UserError("--opponents goes with neither a ghost nor a movie")
    if options.output is not None:
        wanted = ".bk2" if options.replay is None else ".mp4"
        if options.output.suffix != wanted:
            raise UserError(
                f"-o {options.output}: {'a drive' if wanted == '.bk2' else 'a video'} goes into a file whose name ends in {wanted}"
            )
        if not options.output.parent.is_dir():
            raise UserError(f"-o {options.output}: there is no folder {options.output.parent}")
