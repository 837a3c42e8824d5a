"""Takes a picture of the page of `kartrl watch --web` in headless Chromium: docs/page.png.

    python benchmarks/page_picture.py docs/page.png kartrl/kart/weights/kart.pt -l MarioCircuit.Act2
    python benchmarks/page_picture.py phone.png --width 390 --height 1900 --dark kartrl/kart/weights/kart.pt

What follows the file goes to `kartrl watch --web`.
"""

import argparse
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

STEP = 175  # agent steps after which the picture is taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--width", type=int, default=1300)
    parser.add_argument("--height", type=int, default=700)
    parser.add_argument("--dark", action="store_true")
    options, watched = parser.parse_known_args()
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    command = [sys.executable, "-m", "kartrl", "watch", "--web", "--port", "0", *watched]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process, sync_playwright() as playwright:
        try:
            assert process.stdout is not None
            found = re.search(r"http://\S+/", process.stdout.readline())
            assert found is not None, "kartrl watch prints an address"
            opened = playwright.chromium.launch(executable_path=browser)
            size = {"width": options.width, "height": options.height}
            page = opened.new_page(viewport=size, color_scheme="dark" if options.dark else "light")
            page.set_default_timeout(300_000)
            page.goto(found[0])
            page.locator("#explain").check()
            while (
                int(page.locator("#step").inner_text()) < STEP
            ):  # the page's policy lets playwright wait for no script
                page.wait_for_timeout(100)
            page.locator("#pause").click()
            page.get_by_text("Continue", exact=True).wait_for()
            page.screenshot(path=options.picture)
            opened.close()
        finally:
            process.send_signal(signal.SIGINT)


if __name__ == "__main__":
    main()
