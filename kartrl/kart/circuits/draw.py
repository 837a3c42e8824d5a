"""Images of circuits: the map, the view from the kart, and a contact sheet."""

from collections.abc import Sequence
from contextlib import closing
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from kartrl.kart.block import Block
from kartrl.kart.built_circuits import must_isolate
from kartrl.kart.circuits.format import Circuit
from kartrl.kart.circuits.line import line_of
from kartrl.kart.circuits.states import start_state
from kartrl.kart.console import KartConsole
from kartrl.kart.game import VIEW_ROWS
from kartrl.kart.game_files import BUNDLED, GAMES

Picture = npt.NDArray[np.uint8]
VIEW_WIDTH = 768  # pixels of the view beside a map
DRIVEN = 40  # ticks to drive before the view is captured
DARK, LIGHT = (16, 18, 24), (235, 238, 245)


class Shot(NamedTuple):
    """A circuit on a contact sheet."""

    name: str
    title: str
    ground: Picture  # uint8 [1024, 1024, 3], the map
    view: Picture | None  # uint8 [224, 256, 3], the whole screen


def view(circuit: str | Block) -> Picture:
    """The screen shortly after the start of a bundled circuit, a start state or a block, uint8 [224, 256, 3]."""
    foreign = isinstance(circuit, str) and must_isolate(GAMES / BUNDLED, circuit)
    with closing(KartConsole(GAMES / BUNDLED, isolated=foreign)) as console:
        if isinstance(circuit, Block):
            console.restore(start_state(console, circuit))
        else:
            console.load(circuit)
        console.step(console.buttons(["B"]), DRIVEN)
        return console.screen()


def mark_line(ground: Picture, circuit: Circuit) -> Picture:
    """A map, uint8 [1024, 1024, 3], with the centre line, numbered control points and arrows in driving direction."""
    image = Image.fromarray(ground)
    draw, font, line = ImageDraw.Draw(image), ImageFont.load_default(16), line_of(circuit)
    draw.line([(x, y) for x, y in (*line.xy, line.xy[0])], LIGHT, 2)
    for number, (x, y, _) in enumerate(circuit.points):
        draw.ellipse((x - 12, y - 12, x + 12, y + 12), DARK, LIGHT)
        draw.text((x, y), str(number), LIGHT, font, anchor="mm")
        sample = line.nearest_sample(number + 0.5)
        (ax, ay), (ux, uy) = line.xy[sample], line.ahead(sample)
        back_x, back_y = ax - 7 * ux, ay - 7 * uy
        draw.polygon(
            [(ax + 11 * ux, ay + 11 * uy), (back_x - 8 * uy, back_y + 8 * ux), (back_x + 8 * uy, back_y - 8 * ux)],
            LIGHT,
            DARK,
        )
    return np.asarray(image)


def join_view(ground: Picture, screen: Picture | None) -> Picture:
    """A map beside the view from the kart, uint8 [1024, 1816, 3]; without a view the map, uint8 [1024, 1024, 3]."""
    if screen is None:
        return ground
    out = np.full((1024, 1024 + 24 + VIEW_WIDTH, 3), DARK, np.uint8)
    out[:, :1024] = ground
    height = VIEW_WIDTH * 224 // 256
    top = (1024 - height) // 2
    out[top : top + height, 1024 + 24 :] = cv2.resize(screen, (VIEW_WIDTH, height), interpolation=cv2.INTER_NEAREST)
    return out


def sheet(shots: Sequence[Shot], columns: int = 5, side: int = 240) -> Picture:
    """Maps and views of many circuits with their names, uint8 [H, W, 3]."""
    strip = side * (VIEW_ROWS.stop - VIEW_ROWS.start) // 256
    step_x, step_y = side + 16, side + strip + 42
    rows = -(-len(shots) // columns)
    image = Image.new("RGB", (step_x * columns + 16, step_y * rows + 16), DARK)
    draw = ImageDraw.Draw(image)
    large, small = ImageFont.load_default(15), ImageFont.load_default(12)
    for index, shot in enumerate(shots):
        x, y = 16 + step_x * (index % columns), 16 + step_y * (index // columns)
        draw.text((x, y - 4), shot.title.title(), LIGHT, large)
        draw.text((x + side, y - 2), shot.name, (140, 148, 164), small, anchor="ra")
        if shot.view is not None:
            ground = cv2.resize(shot.view[VIEW_ROWS], (side, strip), interpolation=cv2.INTER_AREA)
            image.paste(Image.fromarray(np.asarray(ground)), (x, y + 18))
        ground = cv2.resize(shot.ground, (side, side), interpolation=cv2.INTER_AREA)
        image.paste(Image.fromarray(np.asarray(ground)), (x, y + 18 + strip))
    return np.asarray(image)
