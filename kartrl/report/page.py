"""The page of a report: one HTML file with everything in it, which runs no script and loads nothing."""

import base64
import io
import re
from functools import partial
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup
from PIL import Image

from kartrl import __version__
from kartrl.comparison.picture import as_svg, curve_panels, measure_panels
from kartrl.comparison.report import tables
from kartrl.report import runs as told
from kartrl.report.driven import Shown
from kartrl.report.runs import Runs

LARGEST = 9_900_000  # bytes of a page
QUALITY = 82  # of pictures, in WebP


def make_page(runs: Runs, shown: Shown) -> bytes:
    """The HTML; the same for the same runs, and what was driven, on the same machine.

    Paths in the user's home folder begin with ~. What would make it larger than `LARGEST` is left out, the largest film
    first, with a note.
    """
    while len(page := _page(runs, shown).encode()) > LARGEST and (shown.films or shown.pictures):
        left = sorted(shown.films, key=lambda film: len(film.mp4) + len(film.webm))[:-1]
        pictures = shown.pictures if shown.films else shown.pictures[: len(shown.pictures) // 2]
        gone = [*{film.title for film in shown.films} - {film.title for film in left}]
        gone += [picture.title for picture in shown.pictures[len(pictures) :]]
        notes = [f"{title}: left out, as the page would be larger than 10 MB" for title in gone]
        shown = shown._replace(films=left, pictures=pictures, notes=[*shown.notes, *notes])
    return page


def _page(runs: Runs, shown: Shown) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_without_home,
    )
    environment.filters.update(webp=_webp, mp4=partial(_uri, "video/mp4"), webm=partial(_uri, "video/webm"))
    labels, tasks = list(runs.told), runs.comparison.tasks
    names = [one.run.name for one in runs.every]
    context: dict[str, Any] = {
        "title": names[0] if len(names) == 1 else f"{', '.join(labels)}: {len(names)} runs",
        "tasks": tasks,
        "labels": labels,
        "several": len(names) > 1,
        "by": runs.comparison.by,
        "metric": runs.comparison.metric,
        "when": told.when(runs),
        "scores": told.scores(runs),
        "budgets": runs.comparison.budgets,
        "about": told.about(runs),
        "changed": told.changed(runs),
        "curves": _curves(runs),
        "compared": tables(runs.comparison),
        "sizes": told.sizes(runs),
        "commands": told.commands(runs),
        "configurations": told.configurations(runs),
        "version": __version__,
        **shown._asdict(),
    }
    return environment.get_template("page.html").render(context)


def _curves(runs: Runs) -> list[Markup]:
    """The panels of the comparison, then those of what evaluations measured."""
    several = len(runs.told) > 1
    panels = [panel for row in curve_panels(runs.comparison) for panel in row]
    panels += measure_panels(runs.comparison) if len(runs.every) > 1 else []
    panels += [by_steps for evaluated in runs.evaluations for by_steps, _ in curve_panels(evaluated)]
    legend = runs.comparison.by if several else None
    return [
        Markup(_without_home(as_svg(panel, number, legend if number == 0 else None)))  # Matplotlib escapes its texts
        for number, panel in enumerate(panels)
    ]


def _without_home(value: Any) -> Any:
    """A text with paths in the user's home folder shortened; Markup is as it is to be: data, or made of such texts."""
    home = str(Path.home())
    if not isinstance(value, str) or isinstance(value, Markup) or len(home) < 2:
        return value
    return re.sub(rf"(?<![\w.-]){re.escape(home)}(?!\.?[\w-])", "~", value)  # no part of another folder's name


def _webp(image: np.ndarray) -> Markup:
    """An image, uint8 [H, W, 3], as a data URI."""
    file = io.BytesIO()
    Image.fromarray(image).save(file, "WEBP", quality=QUALITY, method=4)
    return _uri("image/webp", file.getvalue())


def _uri(kind: str, data: bytes) -> Markup:
    return Markup(f"data:{kind};base64,{base64.b64encode(data).decode()}")
