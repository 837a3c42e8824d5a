"""The console on the bundled ROM: equal to stable-retro's emulator, several per process; ticks, states, ROMs."""

import gzip
import os
import platform
import shutil
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from karts import FOLDER, ONE_OF_EACH_KIND, MakeKart, record

from kartrl.console import core_patches
from kartrl.console.libretro import ALL, BUTTONS, Emulator
from kartrl.console.snes9x_shortcuts import SNES9X
from kartrl.console.states import read_state
from kartrl.errors import UserError
from kartrl.kart.circuits.states import circuit_map
from kartrl.kart.console import KartConsole
from kartrl.kart.game import load_game
from kartrl.kart.game_files import BUNDLED, GAMES, core_file

pytest.importorskip("stable_retro", reason="no SNES emulator on this platform")
needs_shortcuts = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="there are no shortcuts"
)


def copied(folder: Path) -> Path:
    shutil.copytree(FOLDER, folder / BUNDLED)
    return folder / BUNDLED


def test_a_state_of_another_build_is_an_error(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    console = KartConsole(folder, "MarioCircuit.Act1")
    console.set_value("build_id", 0xDEADBEEF)
    (folder / "MarioCircuit.Act2.state").write_bytes(gzip.compress(console.save()))
    with pytest.raises(UserError, match=r"MarioCircuit\.Act2.*another build.*deadbeef"):
        console.load("MarioCircuit.Act2")
    console.load("MarioCircuit.Act1")
    console.close()


def test_start_state_can_be_a_path(tmp_path: Path) -> None:
    """By its path: the same race and map as by the circuit's name; a missing one is reported."""
    file = tmp_path / "my own.state"
    shutil.copy(FOLDER / "DonutPlains.Act2.state", file)
    console, seen = KartConsole(FOLDER), []
    for circuit in ("DonutPlains.Act2", str(file)):
        console.load(circuit)
        console.step(console.buttons(["B"]), 50)
        seen.append((console.race(), console.screen().tobytes()))
    assert seen[0] == seen[1]
    named, own = circuit_map(FOLDER, "DonutPlains.Act2"), circuit_map(FOLDER, str(file))
    assert named is not None
    assert own is not None
    assert named.shape == (1024, 1024, 3)
    assert np.array_equal(named, own)
    with pytest.raises(UserError, match=r"nowhere\.state.*no such"):
        console.load(str(tmp_path / "nowhere.state"))
    console.close()


def test_a_state_that_was_overwritten_is_read_again(tmp_path: Path) -> None:
    """As by F3 in the window, with a name that the menu has shown before."""
    file = tmp_path / "mine.state"
    console, titles = KartConsole(FOLDER), []
    for number, circuit in enumerate(("MarioCircuit.Act1", "RainbowRoad.Act1")):
        shutil.copy(FOLDER / f"{circuit}.state", file)
        os.utime(file, (number, number))
        for _ in range(2):
            console.load(str(file))
            block = console.block()
            assert block is not None
            titles.append(block.title)
    file.unlink()
    console.load(str(file))
    console.close()
    assert titles[0] == titles[1] != titles[2] == titles[3]


def test_only_a_game_with_a_map_below_has_lines_to_fill_in() -> None:
    console = KartConsole(FOLDER, "MarioCircuit.Act1")
    console.step(0, 5)
    black = ~console.screen().any((1, 2))
    assert black.any()
    assert (console.picture() != console.screen()).any()
    console.game = console.game._replace(ground_rows=None)
    np.testing.assert_array_equal(console.picture(), console.screen())
    console.close()


def test_a_damaged_state_is_an_error(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    (folder / "MarioCircuit.Act1.state").write_bytes(gzip.compress(b"not a state" * 1000))
    (folder / "MarioCircuit.Act2.state").write_bytes(b"not gzip")
    console = KartConsole(folder)
    with pytest.raises(UserError, match="rejects"):
        console.load("MarioCircuit.Act1")
    with pytest.raises(UserError, match="cannot read"):
        console.load("MarioCircuit.Act2")
    console.close()


def test_invalid_rom_is_an_error(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    (folder / "rom.sfc").write_bytes(b"")
    with pytest.raises(UserError, match=r"rom\.sfc.*cannot start"):
        KartConsole(folder)


def test_save_and_restore() -> None:
    with_state = KartConsole("bundled", "MarioCircuit.Act3")
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


def test_gray_screen_has_the_luma_of_the_coloured_one() -> None:
    console = KartConsole("bundled", "MarioCircuit.Act3")
    console.step(console.buttons(["B"]), 40)
    gray = console.screen(slice(10, 90), gray=True)
    assert len(np.unique(gray)) > 10
    assert np.array_equal(gray, cv2.cvtColor(console.screen(slice(10, 90)), cv2.COLOR_RGB2GRAY))
    console.close()


def test_equal_to_stable_retros_emulator() -> None:
    """The same buttons: the same race states, pictures and, at the end, saved state, bit for bit."""
    import stable_retro

    console = KartConsole(FOLDER, "MarioCircuit.Act4")
    reference, data = stable_retro.RetroEmulator(str(FOLDER / "rom.sfc")), stable_retro.data.GameData()
    reference.configure_data(data)
    reference.step()
    assert data.load(str(FOLDER / "data.json"), str(FOLDER / "scenario.json"))
    assert reference.set_state(read_state(FOLDER / "MarioCircuit.Act4.state"))
    data.set_value("ticks", 5)
    pads = np.random.default_rng(4).integers(2, size=(100, 12)).astype(np.uint8)
    for pad in pads:
        console.step(console.buttons([name for name, down in zip(BUTTONS, pad, strict=True) if down]), 5)
        reference.set_button_mask(pad, 0)
        reference.step()
        assert console.race() == data.lookup_all()
        assert np.array_equal(console.screen(), reference.get_screen())
    assert console.save() == reference.get_state()
    console.close()


@needs_shortcuts
@pytest.mark.parametrize("circuit", ONE_OF_EACH_KIND)
def test_race_with_shortcuts_is_the_same(circuit: str) -> None:
    slow, fast = KartConsole(FOLDER, circuit), KartConsole(FOLDER, circuit, fast=True)
    generator = np.random.default_rng(5)
    for console in (slow, fast):
        console.set_opponents(3)
    for turn in range(60):
        buttons = slow.buttons([name for name in BUTTONS if generator.random() < 0.5])
        for console in (slow, fast):
            console.step(buttons, 5, (ALL, slice(36, 106))[turn % 2])
        assert bytes(slow.opened().ram) == bytes(fast.opened().ram)
        assert np.array_equal(slow.screen(), fast.screen())
    states = slow.save(), fast.save()
    assert states[0] != states[1]  # the audio processing unit was not emulated
    slow.close()
    fast.close()


def test_a_cartridge_takes_no_shortcuts(tmp_path: Path) -> None:
    """Its ROM may wait for the audio processing unit, or depend on the cycle in which an interrupt comes."""
    assert not load_game(GAMES / "SuperMarioKart-Snes" / "game.json").shortcuts
    library = tmp_path / "core.so"
    library.write_bytes(b"no core that is known")
    assert core_patches.find(library, SNES9X) is None


@needs_shortcuts
def test_core_with_changed_instructions_takes_no_shortcuts(tmp_path: Path) -> None:
    core, change = core_file().read_bytes(), SNES9X.changes[1]
    assert core.count(change.old) == 1
    library = tmp_path / "core.so"
    library.write_bytes(core.replace(change.old, change.old[::-1]))
    assert core_patches.find(library, SNES9X) is None


def test_stable_retro_alone_rewards_each_section_forward() -> None:
    """As docs/library.md has it."""
    import stable_retro

    games = stable_retro.data.Integrations
    games.add_custom_path(str(FOLDER.parent))
    env = stable_retro.make("KartRL-Snes", "MarioCircuit.Act1", inttype=games.CUSTOM, render_mode="rgb_array")
    env.reset(seed=1)
    accelerate = np.zeros(12, np.int8)
    accelerate[0] = 1  # B
    rewards = [env.step(accelerate)[1] for _ in range(120)]
    assert set(rewards) == {0.0, 1.0}
    assert sum(rewards) == env.data.lookup_value("driven") >= 3
    env.close()


def test_consoles_in_one_process_are_independent() -> None:
    names = ("MarioCircuit.Act1", "MarioCircuit.Act2", "MarioCircuit.Act1")

    def step(console: KartConsole, index: int) -> tuple[dict, bytes]:
        console.step(console.buttons(["B"] if index % 3 else ["B", "LEFT"]), 5)
        return console.race(), console.screen().tobytes()

    alone = []
    for number, name in enumerate(names):
        console = KartConsole(FOLDER, name)
        alone.append([step(console, index + number) for index in range(30)])
        console.close()
    consoles = [KartConsole(FOLDER, name) for name in names]
    together = [[step(console, index + number) for number, console in enumerate(consoles)] for index in range(30)]
    assert [list(seen) for seen in zip(*together, strict=True)] == alone
    for console in consoles:
        console.close()


def test_closed_consoles_leave_no_open_files() -> None:
    KartConsole(FOLDER).close()
    before = len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0
    for _ in range(3):
        KartConsole(FOLDER).close()
    assert sys.platform != "linux" or len(os.listdir("/proc/self/fd")) == before


def test_use_of_a_closed_console_raises() -> None:
    console = KartConsole(FOLDER, "MarioCircuit.Act1")
    console.close()
    with pytest.raises(UserError, match="closed"):
        console.step(0)


def test_invalid_core_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "core.so").write_bytes(b"not a library")
    with pytest.raises(UserError, match=r"core\.so.*cannot load"):
        Emulator(tmp_path / "core.so", FOLDER / "rom.sfc")


def test_console_drives_an_imported_cartridge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_kart: MakeKart
) -> None:
    """The bundled ROM as a cartridge: only addresses are known, and frames are skipped one by one."""
    monkeypatch.setenv("KARTRL_DATA", str(tmp_path))
    own = tmp_path / "SuperMarioKart-Snes"
    own.mkdir()
    shutil.copy(FOLDER / "rom.sfc", own)
    shutil.copy(FOLDER / "MarioCircuit.Act2.state", own)
    settings = {"circuit": "MarioCircuit.Act2", "random_start": False, "reward": {"kind": "checkpoint"}}
    expected = record(make_kart(**settings), 4)
    env = make_kart(game="auto", **settings)
    seen = record(env, 4)
    assert env.console.folder == own
    assert env.console.game.ticks_per_frame == 1
    assert env.console.block() is None
    assert circuit_map(own, "MarioCircuit.Act2") is None
    with pytest.raises(UserError, match="at most 0 opponents"):
        make_kart(game="auto", opponents=1, **settings).reset()
    assert all(
        np.array_equal(one[0], other[0]) and one[1:-1] == other[1:-1] for one, other in zip(seen, expected, strict=True)
    )
    with pytest.raises(UserError, match="cannot start at a section"):
        env.reset(options={"section": 3})
    with pytest.raises(UserError, match=r"MarioCircuit\.Act1.*MarioCircuit\.Act2"):
        make_kart(game="cartridge")
