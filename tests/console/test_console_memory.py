"""Named values in the memory, against stable-retro's own reader."""

import json
from pathlib import Path

import numpy as np
import pytest

from kartrl.console.memory import Memory
from kartrl.errors import UserError
from kartrl.kart.console import RAM
from kartrl.kart.game_files import BUNDLED, GAMES

stable_retro = pytest.importorskip("stable_retro", reason="no SNES emulator on this platform")

ORDERS = ("|", "=", "<", ">", "<>", "><", "<=", ">=")
TYPES = [f"{order}{kind}{size}" for order in ORDERS for kind in "uidn" for size in range(1, 9)]
RAM_SIZE, PLACE, SIZE = 0x20000, 0x100, 64  # of the memory, and of the random bytes in it


def test_values_of_all_types_equal_stable_retros(tmp_path: Path) -> None:
    """All orders, kinds and sizes, with and without a mask, on random memory and on bytes that are no BCD digits."""
    random = np.random.default_rng(1)
    masks = [{}, {"mask": 0x78}, {"mask": -113}, {"mask": 2**63 + 5}, {"mask": int(random.integers(2**63))}]
    info = {
        f"{kind} {number}": {"address": RAM + PLACE + int(random.integers(SIZE - 8)), "type": kind, **mask}
        for kind in TYPES
        for number, mask in enumerate(masks)
    }
    file, scenario = tmp_path / "data.json", tmp_path / "scenario.json"
    file.write_text(json.dumps({"info": info}))
    scenario.write_text("{}")
    emulator, data = stable_retro.RetroEmulator(str(GAMES / BUNDLED / "rom.sfc")), stable_retro.data.GameData()
    emulator.configure_data(data)
    emulator.step()
    assert data.load(str(file), str(scenario))
    memory, ram = Memory(file, {RAM: RAM_SIZE}), bytearray(RAM_SIZE)
    for values in [*random.integers(256, size=(50, SIZE)), np.arange(160, 160 + SIZE), np.full(SIZE, 255)]:
        for index, value in enumerate(values.tolist()):
            data.memory.assign(RAM + PLACE + index, "|u1", value)
            ram[PLACE + index] = value
        assert memory.read({RAM: ram}) == data.lookup_all()


@pytest.mark.parametrize(
    "place",
    [
        {"address": RAM + 16, "type": "|x9"},
        {"address": RAM + 16, "type": "<u9"},
        {"address": RAM + 16, "type": "<u0"},
        {"address": RAM + 16, "type": "<f4"},
        {"address": RAM + 16, "type": 7},
        {"address": RAM + 16, "type": "|u1", "mask": "all"},
        {"type": "|u1"},
    ],
)
def test_invalid_address_or_type_is_an_error(tmp_path: Path, place: dict) -> None:
    file = tmp_path / "data.json"
    file.write_text(json.dumps({"info": {"x": place}}))
    with pytest.raises(UserError, match=r"data\.json.*addresses"):
        Memory(file, {RAM: RAM_SIZE})


def test_values_outside_the_memory_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "data.json"
    places = {"before": RAM - 1, "first": RAM, "last": RAM + 6, "across": RAM + 7, "behind": RAM + 8, "next": 2**32}
    info = {name: {"address": address, "type": "<u2"} for name, address in places.items()}
    file.write_text(json.dumps({"info": info}))
    memory = Memory(file, {RAM: 8, 2**32: 2})
    assert memory.outside == ("before", "across", "behind")
    assert memory.read({RAM: bytes(range(8)), 2**32: b"\1\0"}) == {"first": 0x100, "last": 0x706, "next": 1}
