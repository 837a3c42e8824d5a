"""Takes a picture of a report in headless Chromium, while its film plays: docs/report.png.

kartrl report my-run -o my-run.html
python benchmarks/report_picture.py docs/report.png my-run.html
python benchmarks/report_picture.py phone.png my-run.html --width 390 --height 3000 --dark
"""

import argparse
import io
import shutil
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

SECONDS = 8  # of the film, after which the picture is taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", type=Path)
    parser.add_argument("report", type=Path)
    parser.add_argument("--width", type=int, default=900)
    parser.add_argument("--height", type=int, default=1560)
    parser.add_argument("--dark", action="store_true")
    options = parser.parse_args()
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=browser)
        size = {"width": options.width, "height": options.height}
        page = opened.new_page(viewport=size, color_scheme="dark" if options.dark else "light")
        page.goto(options.report.absolute().as_uri())
        for film in page.locator("video").all():
            film.evaluate(f"film => new Promise(done => {{ film.onseeked = done; film.currentTime = {SECONDS}; }})")
            film.evaluate("film => { film.controls = false; }")
        picture = Image.open(io.BytesIO(page.screenshot()))
        picture.convert("RGB").quantize(128).save(options.picture, optimize=True)
        opened.close()


if __name__ == "__main__":
    main()
