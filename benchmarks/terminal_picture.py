"""Takes a picture of the terminal of a run, as it stands at its end: docs/terminal.svg.

    python benchmarks/terminal_picture.py docs/terminal.svg --steps 60000 --set evaluation.minutes=0

What follows the file goes to `kartrl train`.
"""

import argparse
import os
import pty
import re
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

COLUMNS = 110
FIRST, LAST = "╭", "╯"  # corners of the panel


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", type=Path)
    options, trained = parser.parse_known_args()
    said = bytearray()

    def read(terminal: int) -> bytes:
        said.extend(part := os.read(terminal, 65536))
        return part

    os.environ.update(COLUMNS=str(COLUMNS), LINES="50", TERM="xterm-256color", COLORTERM="truecolor")
    with tempfile.TemporaryDirectory() as folder:
        pty.spawn([sys.executable, "-m", "kartrl", "train", *trained, f"--set=run.logs={folder}"], read)
    text = said.decode(errors="replace").replace("\r", "")
    corner = text.rindex(FIRST)
    begin = max(text.rfind(LAST, 0, corner), text.rfind("\n", 0, corner)) + 1  # with the colour of the corner
    panel = Text.from_ansi(text[begin : text.rindex(LAST) + 1])
    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere)
        console.print(panel)
        svg = re.sub(r"@font-face \{.*?\}", "", console.export_svg(title="kartrl train"), flags=re.DOTALL)
        options.picture.write_text(svg, encoding="utf-8")  # without fonts, which would come from the network


if __name__ == "__main__":
    main()
