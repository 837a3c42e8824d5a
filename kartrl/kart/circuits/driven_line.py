"""Plots of driven lines on the circuits' maps. Only Matplotlib's object interface, so that any thread may draw."""

from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np
from matplotlib import colormaps, patheffects
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

INK, PAPER, FAINT = "#f2f0e6", "#14161c", "#8d93a1"
SPEEDS = ListedColormap(
    colormaps["plasma"](np.linspace(0.2, 1, 256))
)  # from violet to yellow: all stand out from asphalt
FADE = 0.4  # share of the background colour mixed into the map, so that the line stands out
DPI = 100
MAP = 0.85  # side of the map, in widths of the plot


class Line(NamedTuple):
    """A driven line: one value per step."""

    x: np.ndarray  # float32 [L], map pixels, growing east
    y: np.ndarray  # float32 [L], map pixels, growing south
    speed: np.ndarray  # float32 [L], km/h
    finished: bool


def driven_lines(
    map_rgb: np.ndarray | None, lines: Sequence[Line], title: str, inches: float = 8.0, corner: str = ""
) -> np.ndarray:
    """Draw the lines on the map, coloured by speed, with marks at the start and at the end of each.

    Args:
        map_rgb: uint8 [H, W, 3], one pixel per unit of x and y; None if there is no map.
        lines: at least one; those without points are left out.
        inches: width; 100 pixels per inch.
        corner: a few words on the map, such as the circuit's title.

    Returns:
        uint8 [H, W, 3].
    """
    scale = 0.5 + inches / 16.0  # of text and lines: relatively larger in small plots
    title_height, legend_height = 0.07 + 0.04 * title.count("\n"), 0.07  # all sizes in widths of the plot
    height = title_height + MAP + legend_height
    figure = Figure((inches, inches * height), dpi=DPI, facecolor=PAPER)
    axes = figure.add_axes((0.03, legend_height / height, MAP, MAP / height))
    axes.set_facecolor(PAPER)
    axes.set_title(title, color=INK, fontsize=14 * scale, pad=9 * scale, linespacing=1.4)
    if map_rgb is not None:
        axes.imshow(
            _faded(_reduced(map_rgb, MAP * inches * DPI)),
            extent=(0, map_rgb.shape[1], map_rgb.shape[0], 0),
            interpolation="antialiased",
        )
    drawn = [line for line in lines if len(line.x) > 1]
    for line in drawn:
        collection = _draw(axes, line, _speeds(drawn), scale)
    if drawn:
        inside = figure.add_axes((MAP + 0.05, (legend_height + 0.1) / height, 0.025, (MAP - 0.2) / height))
        bar = figure.colorbar(collection, cax=inside, extend="min")
        inside.set_title("km/h", color=INK, fontsize=11 * scale, pad=8 * scale, loc="left")
        bar.ax.tick_params(colors=INK, labelsize=10 * scale)
        bar.outline.set_edgecolor(FAINT)
        _marks(axes, drawn, scale)
    axes.text(0.02, 0.98, corner, color=INK, fontsize=11 * scale, va="top", transform=axes.transAxes)
    if map_rgb is None:
        axes.autoscale()
        axes.invert_yaxis()
    axes.set_aspect("equal", adjustable="datalim" if map_rgb is None else "box")
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_edgecolor(FAINT)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    drawing = np.asarray(canvas.buffer_rgba())[..., :3].copy()
    figure.clear()  # its parts refer to each other: or many would be in memory
    return drawing


def _reduced(map_rgb: np.ndarray, side: float) -> np.ndarray:
    """The map with at least so many pixels a side, if that is at most half: plots of ten times the memory are slow."""
    times = int(map_rgb.shape[0] / side)
    if times < 2:
        return map_rgb
    size = map_rgb.shape[1] // times, map_rgb.shape[0] // times
    return np.asarray(cv2.resize(map_rgb, size, interpolation=cv2.INTER_AREA), np.uint8)


def _faded(map_rgb: np.ndarray) -> np.ndarray:
    """The map, faded to grey and to the background colour, uint8 [H, W, 3]."""
    paper = np.array([int(PAPER[i : i + 2], 16) for i in (1, 3, 5)], np.float32)
    picture = map_rgb.astype(np.float32)
    grey = picture.mean(2, keepdims=True)
    picture = 0.5 * picture + 0.5 * grey
    return ((1 - FADE) * picture + FADE * paper).astype(np.uint8)


def _speeds(lines: Sequence[Line]) -> tuple[float, float]:
    """Lowest and highest speed of the colour scale, without a fast drive's start, which would use most colours."""
    speeds = np.concatenate([line.speed for line in lines])
    high = float(speeds.max()) or 1.0
    return min(float(np.percentile(speeds, 5)), 0.85 * high), high


def _draw(axes: Axes, line: Line, speeds: tuple[float, float], scale: float) -> LineCollection:
    points = np.stack([line.x, line.y], 1)
    segments = np.stack([points[:-1], points[1:]], 1)
    axes.plot(line.x, line.y, color="black", linewidth=4.2 * scale, alpha=0.5, solid_capstyle="round")
    collection = LineCollection(list(segments), cmap=SPEEDS, linewidths=2.4 * scale, capstyle="round")
    collection.set_array(line.speed[1:])
    collection.set_clim(*speeds)
    axes.add_collection(collection, autolim=True)
    return collection


def _marks(axes: Axes, lines: Sequence[Line], scale: float) -> None:
    outline = [patheffects.withStroke(linewidth=4 * scale, foreground="black")]
    size = 130 * scale**2
    starts = [line.x[0] for line in lines], [line.y[0] for line in lines]
    axes.scatter(
        *starts, s=3 * size, c="none", marker="o", edgecolors="#58e06f", linewidths=3 * scale, label="start", zorder=5
    )
    for finished, marker, colour, label in (
        (True, "*", "#ffd84d", "finished"),
        (False, "X", "#ff5c5c", "stopped here"),
    ):
        ends = [(line.x[-1], line.y[-1]) for line in lines if line.finished == finished]
        if ends:
            x, y = zip(*ends, strict=True)
            axes.scatter(
                x,
                y,
                s=size * (1.6 if finished else 1),
                c=colour,
                marker=marker,
                label=label,
                zorder=6,
                path_effects=outline,
            )
    axes.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        markerscale=0.7,
        ncols=3,
        frameon=False,
        labelcolor=INK,
        fontsize=11 * scale,
        handletextpad=0.2,
    )
