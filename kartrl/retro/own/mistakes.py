"""What stable-retro accepts in silence in the files of one's own game: unknown keys, and values without effect."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kartrl.config.wording import nearest
from kartrl.console.memory import TYPE
from kartrl.errors import UserError
from kartrl.files import read_text
from kartrl.retro.library import Game
from kartrl.retro.scenario import OPERATIONS

ANY = "*"
MEASURE = {"op": None, "measurement": None, "reference": None}
TERM = {**MEASURE, "reward": None, "penalty": None}
REWARD = {"variables": {ANY: TERM}, "time": TERM, "script": None}
CONDITION: dict[str, Any] = {"condition": None, "variables": {ANY: MEASURE}, "script": None}
CONDITION["nodes"] = {ANY: CONDITION}
SCENARIO = {
    **dict.fromkeys(("crop", "actions", "scripts")),
    "crops": [None],
    "reward": REWARD,
    "rewards": [REWARD],
    "done": CONDITION,
}
DATA = {"info": {ANY: {"address": None, "type": None, "mask": None}}}
METADATA: dict[str, Any] = dict.fromkeys(
    ("default_state", "default_player_state", "states", "slots", "whitelist", "tags", "players", "system", "title")
)
"""The keys of each file; ANY: names of one's own; None: any value."""
COMPARING = ("equal", "negative-equal", "not-equal", "less-than", "greater-than", "less-or-equal", "greater-or-equal")
BESIDE = ("variables", "nodes", "time", "condition")  # keys of a reward or an end that stable-retro leaves to a script
DIGIT_BITS = {"u": 256, "i": 256, "d": 100, "n": 10}  # values of a byte, by kind

Range = tuple[int, int]  # lowest and highest value


def check_integration(game: Game, scenario: str | None = "scenario") -> None:
    """Check the files of one's own game beyond what their readers refuse.

    Args:
        scenario: its name; None: the others only.

    Raises:
        UserError: names file and key.
    """
    folder, states = game.folder, game.states()
    metadata = _read(folder / "metadata.json", METADATA)
    named = {"default_state": [metadata.get("default_state")]}
    players = metadata.get("default_player_state", [])
    named["default_player_state"] = players if isinstance(players, list) else [players]
    for key, values in named.items():
        for value in values:
            if value is not None and value not in states:
                near = f"; the nearest is {nearest(str(value), states)!r}" if states else "; it has none"
                raise UserError(f"{folder / 'metadata.json'}: {key}: no start state {value!r}{near}")
    info = _read(folder / "data.json", DATA).get("info", {})
    if scenario is None:
        return
    file = folder / f"{scenario}.json"
    content = _read(file, SCENARIO)
    actions = content.get("actions", [])
    if not _nested(actions, 3) or not all(actions):
        raise UserError(f'{file}: actions must be groups of combinations of buttons, such as [[[], ["LEFT"], ["A"]]]')
    rewards, done = content.get("rewards", [content.get("reward", {})]), content.get("done", {})
    scripts = content.get("scripts", [])
    if not _nested(scripts, 1) or (scripts and not any("script" in each for each in (done, *rewards))):
        raise UserError(f'{file}: scripts must be the Lua files of a script in reward or done, such as ["reward.lua"]')
    for one, several in (("reward", "rewards"), ("crop", "crops")):
        if one in content and several in content:
            raise UserError(f"{file}: {one} has no effect beside {several}; leave out one of them")
    for key, spec in (("done", done), *(("reward", reward) for reward in rewards)):
        if "script" in spec and (beside := [name for name in BESIDE if spec.get(name)]):
            raise UserError(f"{file}: {key}.{beside[0]} has no effect beside {key}.script; leave out one of them")
    ranges = {name: found for name, of in info.items() if (found := _range(of)) is not None}
    for reward in rewards:
        if not any(reward.get("time", {"reward": 1}).get(factor) for factor in ("reward", "penalty")):
            raise UserError(f"{file}: reward.time: has no effect without reward")
        for name, spec in reward.get("variables", {}).items():
            _check_term(spec, ranges.get(name), f"{file}: reward.variables.{name}")
    _check_condition(done, ranges, f"{file}: done")


def _nested(content: Any, depth: int) -> bool:
    """Whether something is lists, so many within one another, of texts."""
    if not depth:
        return isinstance(content, str)
    return isinstance(content, list) and all(_nested(each, depth - 1) for each in content)


def _read(file: Path, keys: dict[str, Any]) -> dict[str, Any]:
    try:
        content = json.loads(read_text(file), object_pairs_hook=_once) if file.is_file() else {}
    except (OSError, ValueError) as error:
        raise UserError(f"{file}: cannot read it ({error})") from error
    _check_keys(content, keys, file, "")
    assert isinstance(content, dict)
    return content


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if again := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"{min(again)!r} is there twice")
    return dict(pairs)


def _check_keys(content: Any, keys: Any, file: Path, place: str) -> None:
    if isinstance(keys, list):
        if not isinstance(content, list):
            raise UserError(f"{file}: {place} must be a list, [ ... ]")
        for each in content:
            _check_keys(each, keys[0], file, place)
    elif keys is not None:
        if not isinstance(content, dict):
            raise UserError(f"{file}: {place or 'it'} must be an object, {{ ... }}")
        for name, value in content.items():
            if ANY not in keys and name.startswith("_"):  # a comment
                continue
            if ANY not in keys and name not in keys:
                raise UserError(
                    f"{file}: {place}{'.' * bool(place)}{name}: unknown key; the nearest is {nearest(name, [*keys])!r} "
                    "(comments begin with _)"
                )
            _check_keys(value, keys.get(ANY, keys.get(name)), file, f"{place}{'.' * bool(place)}{name}")


def _range(place: Mapping[str, Any]) -> Range | None:
    """The lowest and the highest value of a variable; None: not known."""
    if "mask" in place or (found := TYPE.fullmatch(str(place.get("type")))) is None:
        return None
    values = DIGIT_BITS[found[2]] ** int(found[3])
    return (-values // 2, values // 2 - 1) if found[2] == "i" or values == 1 << 64 else (0, values - 1)


def _measured(spec: Mapping[str, Any], values: Range | None, delta: bool) -> Range | None:
    """The range of what a reward or a condition measures of a variable, before an `op`.

    Args:
        delta: whether its change is measured if the file does not say.
    """
    if values is not None and spec.get("measurement", "delta" if delta else "absolute") == "delta":
        return values[0] - values[1], values[1] - values[0]
    return values


def _can_hold(spec: Mapping[str, Any], values: Range | None, key: str) -> bool:
    """Whether an `op` can hold; raises if its reference has no effect."""
    operation, reference = spec.get("op"), spec.get("reference", 0)
    if isinstance(reference, float) and not reference.is_integer():
        raise UserError(f"{key}.reference must be a whole number, not {reference}")
    if reference and operation not in COMPARING:
        raise UserError(f"{key}.reference has no effect with op {operation}; compare by {', '.join(COMPARING)}")
    if values is None or operation not in OPERATIONS or not isinstance(reference, int):
        return True  # not known, or an error of its reader
    near = {*values, 0, 1, -1, *(sign * reference + step for sign in (1, -1) for step in (-1, 0, 1))}
    return any(OPERATIONS[operation](value, reference) for value in near if values[0] <= value <= values[1])


def _check_term(spec: Mapping[str, Any], values: Range | None, key: str) -> None:
    reward, penalty, measured = spec.get("reward", 0), spec.get("penalty", 0), _measured(spec, values, delta=True)
    if not reward and not penalty:
        raise UserError(f"{key}: has no effect without reward or penalty")
    if spec.get("op") is not None or spec.get("reference"):
        holds = _can_hold(spec, measured, key)
        measured = (-(spec.get("op") == "sign"), int(holds))
    if measured is None:
        return
    for name, factor, lost, sign in (
        ("penalty", penalty, measured[0] >= 0, "negative"),
        ("reward", reward, measured[1] <= 0, "positive"),
    ):
        if factor and lost:
            raise UserError(f"{key}.{name} has no effect: what it measures is never {sign}")


def _check_condition(spec: Mapping[str, Any], ranges: Mapping[str, Range], key: str) -> None:
    for name, of in spec.get("variables", {}).items():
        measured = _measured(of, ranges.get(name), delta=False)
        if of.get("op") is not None and not _can_hold(of, measured, f"{key}.variables.{name}"):
            low, high = measured or (0, 0)
            raise UserError(f"{key}.variables.{name}: op {of['op']} never holds: what it measures is {low} to {high}")
    for name, node in spec.get("nodes", {}).items():
        _check_condition(node, ranges, f"{key}.nodes.{name}")
