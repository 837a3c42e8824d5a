"""The picture of a comparison stays legible with many groups."""

import gc
import itertools
import warnings
from xml.etree import ElementTree

import numpy as np
import pytest
from finished_runs import write_run
from matplotlib.figure import Figure
from PIL import Image

from kartrl.comparison.picture import as_svg, curve_panels, make_figure, measure_panels, save_png
from kartrl.comparison.report import make_comparison
from kartrl.comparison.runs import RETURN, group, read_run


def figure_of(tmp_path, number, scale=1.0, centre=0.0):
    """A drawn figure of `number` groups of two runs each, whose returns are scaled, and their labels."""
    random = np.random.default_rng(0)
    labels = [f"method_{name}" for name in range(number) for _ in range(2)]
    folders = [
        write_run(tmp_path / f"run{index}", returns=random.normal(centre, scale, 50)) for index in range(len(labels))
    ]
    runs = [read_run(str(folder), RETURN) for folder in folders]
    figure = make_figure(make_comparison(group(runs, "method", labels), RETURN, "method"))
    figure.canvas.draw()
    return figure, list(dict.fromkeys(labels))


def overlaps(texts):
    boxes = [text.get_window_extent() for text in texts if text.get_text()]
    return [(one, other) for one, other in itertools.combinations(boxes, 2) if one.overlaps(other)]


@pytest.mark.parametrize(
    ("number", "scale", "centre"), [(2, 1.0, 0.0), (4, 1.0, 0.0), (12, 1.0, 0.0), (11, 0.006, 0.03)]
)
def test_labels_do_not_overlap_and_lines_differ(tmp_path, number, scale, centre):
    figure, labels = figure_of(tmp_path, number, scale, centre)
    steps, _, *below = figure.axes
    assert len({(line.get_color(), line.get_linestyle()) for line in steps.lines}) == number
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [f"{label} (2)" for label in labels]
    assert not any(legend.get_window_extent().overlaps(axes.get_window_extent()) for axes in figure.axes)
    for axes in below:
        assert not overlaps(axes.get_yticklabels())
    for axes in below[:2]:
        assert not overlaps(axes.get_xticklabels())
    assert not overlaps([*figure.axes[-1].texts])


def test_names_are_no_formulas_and_leave_space(tmp_path):
    folders = [write_run(tmp_path / f"run{index}", returns=[1.0] * 20) for index in range(2)]
    labels = ["costs $\\frac$ & <b>", "a long name " * 20]
    runs = [read_run(str(folder), RETURN) for folder in folders]
    comparison = make_comparison(group(runs, "by", labels), RETURN, "by")
    figure = make_figure(comparison)
    figure.canvas.draw()  # a warning would say that there is no space for the axes
    first, second = (text.get_text() for text in figure.legends[0].get_texts())
    assert first == f"{labels[0]} (1)"
    assert second.endswith("... (1)")
    texts = [as_svg(panel, 0) for panel in (*curve_panels(comparison)[0], *measure_panels(comparison))]
    for text in texts:
        assert "<b>" not in text
        ElementTree.fromstring(text)
    assert labels[0] in "".join(ElementTree.fromstring(texts[2]).itertext())
    assert as_svg(curve_panels(comparison)[0][0], 0) == texts[0], "the same each time"


def test_runs_that_took_no_time_are_drawn(tmp_path):
    folders = [write_run(tmp_path / f"run{index}", returns=[1.0] * 3) for index in range(2)]
    for file in (folder / "episodes.csv" for folder in folders):
        header, *rows = file.read_text().splitlines()
        file.write_text("\n".join([header, *("0.0," + row.partition(",")[2] for row in rows)]) + "\n")
    runs = [read_run(str(folder), RETURN) for folder in folders]
    figure = make_figure(make_comparison(group(runs, "by", ["one", "two"]), RETURN, "by"))
    figure.canvas.draw()  # limits that are one number would be warned of
    assert [axes.get_xlim()[0] for axes in figure.axes[:2]] == [0, 0]


def test_interrupted_picture_is_closed(tmp_path):
    """Pillow closes a file that it has opened itself after errors only."""

    def interrupted(*_):
        raise KeyboardInterrupt

    before = Image.SAVE["PNG"]
    Image.register_save("PNG", interrupted)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with pytest.raises(KeyboardInterrupt):
                save_png(Figure(), tmp_path / "a.png")
            gc.collect()
    finally:
        Image.register_save("PNG", before)
    assert [str(warning.message) for warning in caught] == []


def test_a_pair_shows_its_interval_and_many_groups_each_value(tmp_path):
    few, _ = figure_of(tmp_path / "few", 3)
    assert [text.get_text() for text in few.axes[-1].get_yticklabels()] == [
        "method_0 > method_1", "method_0 > method_2", "method_1 > method_2",
    ]  # fmt: skip
    many, labels = figure_of(tmp_path / "many", 5)
    last = many.axes[-1]
    assert [text.get_text() for text in last.get_xticklabels()] == labels
    values = {(text.get_position()): float(text.get_text()) for text in last.texts}
    assert len(values) == 20
    assert all(values[column, row] + values[row, column] == pytest.approx(100, abs=1) for row, column in values)
