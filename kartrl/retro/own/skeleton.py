"""Begins the integration of a game that stable-retro does not know: a folder with the ROM and commented files."""

import contextlib
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kartrl.console.roms import sha1
from kartrl.errors import UserError
from kartrl.files import explained
from kartrl.retro.console import RetroConsole
from kartrl.retro.importing import LARGEST
from kartrl.retro.library import NOT_RUN, Game, game_in
from kartrl.retro.scenario import OPERATIONS
from kartrl.retro.systems import systems

SAME = {"smc": "sfc", "swc": "sfc", "fig": "sfc", "gen": "md", "bin": "a26"}  # other endings of ROMs' files
SIGNATURES = (  # place in a ROM, bytes there, ending
    (0, b"NES\x1a", "nes"),
    (0x100, b"SEGA", "md"),
    (0x104, b"\xce\xed\x66\x66", "gb"),
    (4, b"\x24\xff\xae\x51", "gba"),
)


def begin_integration(folder: Path, rom: Path) -> None:
    """Make a folder with a copy of the ROM, its hash, and metadata.json, data.json and scenario.json with comments.

    Args:
        folder: a new one.

    Raises:
        UserError: the folder exists or cannot be written, or no emulator starts the ROM; nothing is written.
    """
    data = _read(rom)
    ending = _ending(rom, data)
    folder = folder.absolute()
    missing: list[Path] = []
    try:
        missing += (each for each in folder.parents if not each.exists())
        if os.path.lexists(folder):
            raise UserError(f"{folder} exists; choose a new folder")
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".kartrl-", dir=folder.parent) as work:
            made = Path(work, folder.name)
            made.mkdir()
            file = made / f"rom.{ending}"
            file.write_bytes(data)
            (made / "rom.sha").write_text(f"{sha1(file)}\n")
            for name, content in _files(game_in(made), rom).items():
                (made / name).write_text(_text(content), encoding="utf-8")
            made.rename(folder)  # fails if another process has put something there
    except OSError as error:
        raise UserError(f"{folder}: cannot make this folder ({error.strerror})") from error
    finally:
        for each in missing:  # those made for nothing
            with contextlib.suppress(OSError):
                each.rmdir()


def _read(rom: Path) -> bytes:
    with explained(rom, "read this ROM"):
        if not rom.is_file() and rom.exists():
            raise UserError(f"{rom}: not a file; name the ROM in it")
        if rom.stat().st_size > LARGEST:
            raise UserError(f"{rom}: too large for a ROM")
        data = rom.read_bytes()
    if data.startswith(b"PK\3\4"):
        raise UserError(f"{rom}: an archive; unpack the ROM first")
    return data


def _ending(rom: Path, data: bytes) -> str:
    """The ending of the ROM's file in an integration, which tells the console."""
    consoles = {ending: system for system in systems().values() for ending in system.endings}
    known = [ending for ending, system in consoles.items() if system.core not in NOT_RUN]
    ending = rom.suffix.lower().removeprefix(".")
    if ending in known:
        return ending
    for place, signature, told in SIGNATURES:
        if data.startswith(signature, place):
            return told
    if ending in SAME:
        return SAME[ending]
    if ending in consoles:
        raise UserError(f"{rom}: kartrl does not run games for {consoles[ending].name} ({consoles[ending].core})")
    raise UserError(f"{rom}: its ending does not tell the console; name it by that: .{', .'.join(known)}")


def _files(game: Game, rom: Path) -> dict[str, dict[str, Any]]:
    """The integration's files."""
    core = game.system.core_file  # raises if there is none
    try:
        console = RetroConsole(game, isolated=True)
    except UserError as error:
        raise UserError(f"{rom}: the emulator of {game.system.name}, {core.stem}, cannot start this ROM") from error
    blocks = {start: len(block) for start, block in console.opened().memory.items()}
    console.close()
    first = min(blocks, default=0)
    return {
        "metadata.json": {
            "_comment": [
                "default_state: where episodes begin if [levels] names no start state; null: the first one here or,",
                "without any, when the console is switched on. `kartrl play --game` saves them (F3) as NAME.state.",
            ],
            "default_state": None,
        },
        "data.json": {
            "_comment": [
                "info: variables in the console's memory, by names of your own, for reward and end; see _example.",
                "`kartrl play --game ... --memory` finds them.",
                f"address: in its memory, {_places(blocks)}.",
                "type: |u1 is a byte, |i1 a signed one, <u2 two bytes, the lower one first, >u2 the higher one first;",
                ">d3 six decimal digits, two in a byte, >n6 the same, one in a byte. mask, optional, keeps some bits.",
            ],
            "_example": {
                "info": {
                    "score": {"address": first + 16, "type": ">d3"},
                    "lives": {"address": first + 32, "type": "|u1"},
                }
            },
            "info": {},
        },
        "scenario.json": {
            "_comment": [
                "reward: of a frame: variables' increases times reward, decreases times penalty; see _example.",
                "done: the episode ends with any of these, or all of them if condition is all.",
                f"op: {', '.join(OPERATIONS)}; some compare with reference.",
                "measurement: absolute, a variable itself, or delta, its change in a frame.",
                "crop: X, Y, WIDTH and HEIGHT of what is observed; 0 and 0 for the rest of the screen.",
                f"actions: groups of combinations, one of each is held; buttons: {_buttons(game)}.",
            ],
            "_example": {
                "reward": {"variables": {"score": {"reward": 1}, "lives": {"penalty": 10}}, "time": {"reward": -0.01}},
                "done": {"condition": "any", "variables": {"lives": {"op": "equal", "reference": 0}}},
            },
            "reward": {"variables": {}},
            "done": {"variables": {}},
            "crop": [0, 0, 0, 0],
            "actions": game.system.actions,
        },
    }


def _places(blocks: dict[int, int]) -> str:
    """Blocks of memory, those that touch as one, as text."""
    spans: list[list[int]] = []
    for start, size in sorted(blocks.items()):
        if spans and spans[-1][1] == start:
            spans[-1][1] += size
        else:
            spans.append([start, start + size])
    return ", ".join(f"{start} to {end - 1} ({start:#x} to {end - 1:#x})" for start, end in spans) or "which is unknown"


def _buttons(game: Game) -> str:
    return ", ".join(button for button in game.system.buttons if button is not None)


def _text(content: Any, depth: int = 0) -> str:
    """JSON in which what is short, or holds nothing that does, is on one line."""
    line = json.dumps(content)
    items: Sequence[str] = ()
    if isinstance(content, dict):
        items = [f"{json.dumps(key)}: {_text(value, depth + 1)}" for key, value in content.items()]
    elif isinstance(content, list | tuple):
        items = [_text(value, depth + 1) for value in content]
    if not items or (depth and len(line) < 100):
        return line
    inside = ",\n".join(" " * (depth + 1) + item for item in items)
    return f"{line[0]}\n{inside}\n{' ' * depth}{line[-1]}" + "\n" * (not depth)
