"""The emulator driver on the bundled ROM: ticks, states, ROMs, and one emulator in a process."""

import gzip
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from karts import FOLDER, MakeKart, record

from kartrl.envs.retro import BUNDLED, Console
from kartrl.errors import UserError

pytest.importorskip("stable_retro", reason="no SNES emulator on this platform")


@pytest.mark.parametrize("skip", [2, 3, 8])
def test_ticks_in_the_rom_equal_frame_by_frame(skip: int) -> None:
    """The same buttons for N ticks in as few video frames as may be, and in N of them: the same states and pictures."""
    console = Console(FOLDER)
    pads = [console.buttons(names) for names in ([], ["LEFT"], ["LEFT", "B"], ["RIGHT", "B"], ["RIGHT", "B", "L"], ["LEFT", "Y"])]
    chosen = np.random.default_rng(skip).integers(len(pads), size=90)

    def drive() -> Iterator[tuple[dict, bytes]]:
        console.load("MarioCircuit.Act2")
        for pad in chosen:
            console.step(pads[pad], skip)
            race = console.race()
            del race["ticks"]  # the command itself
            yield race, console.screen().tobytes()

    fast = list(drive())
    console.game = console.game._replace(ticks_per_frame=1)
    console.data.set_value("ticks", 1)
    for step, (race, screen) in enumerate(drive()):
        assert race == fast[step][0], step
        assert screen == fast[step][1], step
    console.close()


def copied(folder: Path) -> Path:
    shutil.copytree(FOLDER, folder / BUNDLED)
    return folder / BUNDLED


def test_a_state_of_another_build_is_an_error(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    console = Console(folder, "MarioCircuit.Act1")
    console.data.set_value("build_id", 0xDEADBEEF)
    (folder / "MarioCircuit.Act2.state").write_bytes(gzip.compress(console.save()))
    with pytest.raises(UserError, match=r"MarioCircuit\.Act2.*another build.*deadbeef"):
        console.load("MarioCircuit.Act2")
    console.load("MarioCircuit.Act1")
    console.close()


def test_a_damaged_state_is_an_error(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    (folder / "MarioCircuit.Act1.state").write_bytes(gzip.compress(b"not a state" * 1000))
    (folder / "MarioCircuit.Act2.state").write_bytes(b"not gzip")
    console = Console(folder)
    with pytest.raises(UserError, match="does not take"):
        console.load("MarioCircuit.Act1")
    with pytest.raises(UserError, match="cannot read"):
        console.load("MarioCircuit.Act2")
    console.close()


def test_a_rom_that_is_none(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    (folder / "rom.sfc").write_bytes(b"")
    with pytest.raises(UserError, match=r"rom\.sfc.*cannot start"):
        Console(folder)


def test_save_and_restore() -> None:
    with_state = Console("bundled", "MarioCircuit.Act3")
    pad = with_state.buttons(["B", "LEFT"])
    with_state.step(pad, 40)
    saved = with_state.save()
    seen = []
    for _ in range(2):
        with_state.restore(saved)
        with_state.step(pad, 7)
        seen.append((with_state.race(), with_state.screen().tobytes()))
    assert seen[0] == seen[1]
    with_state.close()
    with_state.close()


def test_somebody_elses_emulator(make_kart: MakeKart) -> None:
    import stable_retro

    other = stable_retro.make("Airstriker-Genesis-v0", render_mode="rgb_array")
    try:
        with pytest.raises(UserError, match="one emulator in a process"):
            make_kart().reset()
    finally:
        other.close()


def test_the_same_wrapper_drives_an_imported_cartridge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_kart: MakeKart) -> None:
    """Our own ROM in the cartridge's place: nothing of it but the addresses is known, and frames are skipped one by one."""
    monkeypatch.setenv("KARTRL_DATA", str(tmp_path))
    own = tmp_path / "SuperMarioKart-Snes"
    own.mkdir()
    shutil.copy(FOLDER / "rom.sfc", own)
    shutil.copy(FOLDER / "MarioCircuit.Act2.state", own)
    settings = {"circuit": "MarioCircuit.Act2", "random_start": False, "reward": {"kind": "checkpoint"}}
    expected = record(make_kart(**settings), 4)
    env = make_kart(game="auto", **settings)
    seen = record(env, 4)
    assert env._console.folder == own
    assert env._console.game.ticks_per_frame == 1
    assert all(np.array_equal(one[0], other[0]) and one[1:-1] == other[1:-1] for one, other in zip(seen, expected, strict=True))
    with pytest.raises(UserError, match="cannot begin at a section"):
        env.reset(options={"section": 3})
    with pytest.raises(UserError, match=r"MarioCircuit\.Act1.*MarioCircuit\.Act2"):
        make_kart(game="cartridge")
