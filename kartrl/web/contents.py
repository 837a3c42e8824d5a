"""What a page shows of a show, as JSON and pictures."""

import json
import math
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np

from kartrl.envs.spec import Binary, Continuous, Discrete
from kartrl.trajectory import split_decision
from kartrl.viewer.show import Image, Moment, Show
from kartrl.web.attribution import heat, shares

QUALITY = 85  # of JPEGs
LARGEST = 640  # pixels, of a side
TARGETS = ("value", "action")  # of attributions
HOT = (255, 150, 40)
MOST_BARS = 64  # alternatives of a choice, and numbers of a vector; of others the likeliest, or the first


def jpeg(image: np.ndarray) -> bytes:
    """A picture, uint8 [H, W, 3] or [H, W], as a JPEG."""
    height, width = image.shape[:2]
    if (scale := LARGEST / max(height, width)) < 1:
        size = max(1, round(width * scale)), max(1, round(height * scale))
        image = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    done, file = cv2.imencode(
        ".jpg", image[..., ::-1] if image.ndim == 3 else image, [cv2.IMWRITE_JPEG_QUALITY, QUALITY]
    )
    assert done, "OpenCV writes JPEGs"
    return file.tobytes()


def row(moment: Moment) -> str:
    """The JSON of a step."""
    place = [round(at, 4) for at in moment.place]
    numbers = [_short(value) for value in (moment.value, moment.entropy, moment.reward, moment.total)]
    parts = {name: _short(value) for name, value in moment.parts.items()}
    return json.dumps([*numbers, parts, place, moment.lap, int(moment.by_hand)])


def policy(show: Show) -> list[dict[str, Any]]:
    """For each column of an action: the probabilities of its alternatives, or the range that a number is likely in."""
    said, found, columns = (
        split_decision(show.thought.decision, show.action.columns),
        list[dict[str, Any]](),
        show.columns,
    )
    begin = column = 0
    for part in show.action.parts:
        given = said.parameters[begin : begin + part.parameter_size].astype(np.float64)
        chosen = said.action[column : column + part.columns].tolist()
        begin, column = begin + part.parameter_size, column + part.columns
        if isinstance(part, Discrete):
            each = np.split(np.exp(given), np.cumsum(part.sizes)[:-1])
            names = [own for _, own in columns[len(found) :]]
            found += [_choice(p, int(action), own) for p, action, own in zip(each, chosen, names, strict=False)]
        elif isinstance(part, Binary):
            each = [np.array([1 - p, p]) for p in 0.5 * (1 + np.tanh(0.5 * given))]  # the logistic function
            found += [_choice(p, int(action), ("off", "on")) for p, action in zip(each, chosen, strict=True)]
        else:
            assert isinstance(part, Continuous)
            mean, deviation = np.split(given, 2)
            ends = mean - np.exp(deviation), mean, mean + np.exp(deviation)
            taken = [part.taken(np.tanh(end) if show.squashes else end) for end in (*ends, np.array(chosen))]
            for low, high, *values in zip(part.low, part.high, *taken, strict=True):
                found.append(
                    {"kind": "number", "low": low, "high": high, "values": [_short(value) for value in values]}
                )
    for one, (name, _) in zip(found, columns, strict=True):
        one["name"] = name
    return found


def seen(
    show: Show, explained: Sequence[tuple[np.ndarray, np.ndarray]] | None
) -> tuple[list[Any], list[tuple[str, bytes]]]:
    """The parts of the network's observation, and their pictures.

    Args:
        explained: the attribution of each part, see `Attribution.explain`; None: none.
    """
    parts, pictures = list[Any](), list[tuple[str, bytes]]()
    for number, (part, images, numbers) in enumerate(show.seen_parts()):
        moved = None if explained is None else explained[number]
        about: dict[str, Any] = {"name": part.name, "size": part.size, "images": len(images)}
        if images:
            pictures.append((f"seen{number}", jpeg(np.concatenate(images, 1))))
            if moved is not None:
                pictures += [
                    (f"{name}{number}", _overlay(images[0], own)) for name, own in zip(TARGETS, moved, strict=True)
                ]
        else:
            about["numbers"] = [_short(value) for value in numbers[:MOST_BARS]]
            if moved is not None:
                about["moved"] = [shares(own)[:MOST_BARS] for own in moved]
        parts.append(about)
    return parts, pictures


def _overlay(image: Image, moved: np.ndarray) -> bytes:
    """An image in grey, and over it where something moved most."""
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)[..., None].repeat(3, 2)
    share = heat(moved)[..., None]
    return jpeg((grey * 0.55 * (1 - share) + np.array(HOT) * share).astype(np.uint8))


def _choice(p: np.ndarray, chosen: int, names: Sequence[str]) -> dict[str, Any]:
    kept = np.arange(len(p)) if len(p) <= MOST_BARS else np.sort(np.argsort(-p)[:MOST_BARS])
    bars = [[int(i), names[i] if names else str(i), round(float(p[i]), 6)] for i in kept]
    return {"kind": "choice", "bars": bars, "chosen": chosen}


def _short(value: float) -> float | None:
    """A number of five digits; None, as JSON has no others, if it is not finite."""
    return float(f"{value:.5g}") if math.isfinite(value) else None
