"""Frames, memory, values, reward and end equal `stable_retro.make`'s, over 20,000 random steps for each core.

A tenth of these but for tests marked `slow`.
"""

import gzip
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kartrl.console.libretro import PAD_BITS, Emulator
from kartrl.kart.game_files import BUNDLED, GAMES
from kartrl.retro.console import RetroConsole
from kartrl.retro.library import Game, atari_roms, find_game, folders, game_in
from kartrl.retro.scenario import OPERATIONS
from kartrl.retro.systems import systems

stable_retro = pytest.importorskip("stable_retro", reason="no emulators on this platform")

STEPS = 20_000
AIRSTRIKER = "Airstriker-Genesis-v0"
TINY_GAME_BOY = bytes.fromhex(
    "f3 31 f0 df 21 00 c0"  # di; ld sp, dff0; ld hl, c000
    "f0 44 fe 90 20 fa"  # wait for line 144
    "3e 10 e0 00 f0 00 f0 00 e6 0f 47"  # b: the buttons
    "3e 20 e0 00 f0 00 f0 00 e6 0f cb 37 b0"  # a: and the directions
    "86 2c 77 e0 43 2f e0 47"  # add the last sum; store it in the next byte, and show it by scroll and palette
    "f0 44 fe 90 28 fa 18 d2"  # wait for another line; again
)
SHORT_AND_LONG = pytest.mark.parametrize("steps", [STEPS // 10, pytest.param(STEPS, marks=pytest.mark.slow)])
MakeBoth = Callable[..., tuple[Any, RetroConsole]]
KINDS = [f"{order}{kind}{size}" for order in ("|", "<", ">", "><", "<>") for kind in "uidn" for size in range(1, 9)]
FACTORS = (-2, -1, -0.25, 0, 0.5, 1, 3)  # whose sums are exact in any order


@pytest.fixture
def make_both(tmp_path: Path) -> Iterator[MakeBoth]:
    """Makes stable-retro's environment and a console with a copy of a game's integration, closed at the end."""
    made: list[Any] = []

    def make(
        game: Game, files: dict[str, Any] | None = None, actions: str = "ALL", fast: bool = False, **settings: Any
    ) -> Any:
        for each in made:
            each.close()
        folder = tmp_path / str(len(made)) / game.name
        shutil.copytree(game.folder, folder)
        rom = folder / f"rom.{game.system.endings[0]}"
        if not rom.exists():
            shutil.copy(game.rom(), rom)
        for name, content in (files or {}).items():
            (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
        stable_retro.data.Integrations.clear_custom_paths()
        stable_retro.data.Integrations.add_custom_path(str(folder.parent))
        env = stable_retro.make(
            game.name,
            inttype=stable_retro.data.Integrations.CUSTOM_ONLY,
            render_mode="rgb_array",
            use_restricted_actions=getattr(stable_retro.Actions, actions),
            **settings,
        )
        made.append(env)
        made.append(RetroConsole(game_in(folder), players=settings.get("players", 1), fast=fast))
        return env, made[-1]

    yield make
    for each in made:
        each.close()


def assert_same_frame(env: Any, console: RetroConsole, seen: np.ndarray | None) -> None:
    assert seen is None or np.array_equal(seen, console.cropped(console.scenario.crop()))
    memory = {start: bytes(block) for start, block in console.opened().memory.items()}
    assert memory == env.data.memory.blocks


def drive(env: Any, console: RetroConsole, state: str | None, steps: int, seed: int, held: Any = None) -> None:
    """Random actions, each repeated for some steps, through ends, saved states and restored ones.

    Args:
        held: what the buttons of an action are for the console; by default those of MultiBinary.
    """
    random = np.random.default_rng(seed)
    named = np.array([button is not None for button in console.game.system.buttons] * console.players)
    assert_same_frame(env, console, begin(env, console, state))
    since = 0
    saved = env.em.get_state()
    for step in range(steps):
        if step % 7 == 0 or random.random() < 0.1:
            action = env.action_space.sample() if held else named * random.integers(2, size=env.action_space.n)
        seen, reward, done, truncated, info = env.step(action)
        bits = [held(action)] if held else np.split(action, console.players)
        buttons = sum(
            int(bit if held else sum(int(each) << i for i, each in enumerate(bit))) << PAD_BITS * player
            for player, bit in enumerate(bits)
        )
        drawn = step % 4 == 3 or not console.opened().hides
        outcome = console.advance(buttons, drawn)
        assert_same_frame(env, console, seen if drawn or random.random() < 0.1 else None)
        assert (outcome.reward, outcome.done, False) == (reward, done, truncated)
        assert console.info() == info
        since += 1
        if step % 400 == 150:
            saved = console.save() if step % 800 == 150 else env.em.get_state()
        if step % 400 == 210:  # the values before stay those before the restore
            assert env.em.set_state(saved)
            console.restore(saved)
        if (done and since > 40) or since > 3000:
            assert_same_frame(env, console, begin(env, console, state))
            since = 0


def begin(env: Any, console: RetroConsole, state: str | None) -> np.ndarray:
    seen, _ = env.reset()
    console.begin_episode(state)
    return seen


def random_integration(env: Any, seed: int) -> dict[str, Any]:
    """A data.json with values of all types anywhere in the memory, and a scenario.json with all operations."""
    random = np.random.default_rng(seed)
    blocks = [(start, len(block)) for start, block in env.data.memory.blocks.items()]
    info: dict[str, Any] = {}
    for kind in KINDS:
        start, size = blocks[random.integers(len(blocks))]
        address = start + int(random.integers(max(1, min(size, 2048) - 8)))
        if address - start + int(kind[-1]) <= size:
            info[f"value {kind}"] = {"address": address, "type": kind}
    small = [name for name in info if name[-1] in "12"]

    def measure(delta: str) -> dict[str, Any]:
        spec = {"op": str(random.choice([*OPERATIONS])), "reference": int(random.integers(-2, 3))}
        return spec | ({"measurement": delta} if random.random() < 0.5 else {})

    terms = {}
    for name in random.choice(small, 12, replace=False):
        spec = measure("absolute") | {"reward": float(random.choice(FACTORS)), "penalty": float(random.choice(FACTORS))}
        if random.random() < 0.4:
            del spec["op"]
        terms[str(name)] = spec

    def condition(depth: int) -> dict[str, Any]:
        names = random.choice([*info], 2, replace=False)
        found: dict[str, Any] = {"variables": {str(name): measure("delta") for name in names}}
        if depth:
            found["nodes"] = {str(number): condition(depth - 1) for number in range(2)}
        return found | ({"condition": "all"} if depth % 2 or random.random() < 0.5 else {})

    reward = {"variables": terms, "time": {"reward": -0.5}}
    return {
        "data.json": {"info": info},
        "scenario.json": {"reward": reward, "done": condition(2), "crop": [8, 16, 100, 120]},
    }


SCRIPT = """
data.begun = 3
count = 0
function reward()
    count = count + 1
    if count %% 50 == 0 then
        data.%s = count / 50 %% 200  -- changes the game's memory
    end
    return data.%s * 0.25 - scenario.frame + data.begun
end
function done()
    return count > 700
end
"""


def number(bits: np.ndarray) -> int:
    return sum(int(bit) << place for place, bit in enumerate(bits))


@SHORT_AND_LONG
@pytest.mark.timeout(900)
def test_genesis_equals_stable_retro(make_both: MakeBoth, steps: int) -> None:
    """Its own scenario, then values of all types, and a reward and an end of all operations; Discrete and all buttons.

    Its memory is in words of two bytes, each in reverse. With the core's shortcuts three of four frames are not drawn.
    """
    game = find_game(AIRSTRIKER)
    for fast in (False, True):
        env, console = make_both(game, actions="DISCRETE", fast=fast)
        drive(env, console, "Level1", steps * 2 // 5, seed=fast, held=console.combinations.discrete().__getitem__)
    env, console = make_both(game, random_integration(env, 2))
    drive(env, console, "Level1", steps // 5, seed=2)


def test_core_without_symbols_is_the_same_without_shortcuts(tmp_path: Path) -> None:
    """As on other systems and processors, where none are known; every frame is drawn then."""
    game = find_game(AIRSTRIKER)
    core = bytearray(game.system.core_file.read_bytes())
    core[0x3C:0x3E] = bytes(2)  # the number of sections in an ELF file, of which one has the symbols
    plain = tmp_path / game.system.core_file.name
    plain.write_bytes(core)
    emulators = Emulator(plain, game.rom(), fast=True), Emulator(game.system.core_file, game.rom())
    random = np.random.default_rng(0)
    state = emulators[0].save()
    for step in range(400):
        if step % 150 == 100:
            assert all(emulator.restore(state) for emulator in emulators)
        buttons = int(random.integers(4096))
        for emulator in emulators:
            emulator.pressed = buttons
            emulator.run()
        first, second = ({at: bytes(block) for at, block in each.memory.items()} for each in emulators)
        assert first == second
        assert np.array_equal(*(emulator.screen() for emulator in emulators))
    assert not any(emulator.hides for emulator in emulators)
    for emulator in emulators:
        emulator.close()


@SHORT_AND_LONG
@pytest.mark.timeout(900)
def test_snes_equals_stable_retro(make_both: MakeBoth, steps: int) -> None:
    """Our own game, with filtered actions, for two players, and with MultiDiscrete ones."""
    game = game_in(GAMES / BUNDLED)
    env, console = make_both(game, actions="FILTERED", state="MarioCircuit.Act1")
    drive(
        env, console, "MarioCircuit.Act1", steps * 3 // 4, 1, lambda bits: console.combinations.filtered(number(bits))
    )
    env, console = make_both(game, random_integration(env, 3), players=2, state="DonutPlains.Act1")
    drive(env, console, "DonutPlains.Act1", steps * 3 // 20, seed=3)
    env, console = make_both(game, random_integration(env, 4), "MULTI_DISCRETE", state="DonutPlains.Act1")
    env.action_space.seed(4)
    drive(env, console, "DonutPlains.Act1", steps // 10, 4, lambda chosen: console.combinations.chosen(chosen.tolist()))


@pytest.mark.parametrize(
    ("name", "state", "variable"), [(AIRSTRIKER, "Level1", "lives"), (BUNDLED, "MarioCircuit.Act1", "speed")]
)
def test_lua_scenario_equals_stable_retro(make_both: MakeBoth, name: str, state: str, variable: str) -> None:
    game = game_in(GAMES / BUNDLED) if name == BUNDLED else find_game(name)
    scenario = {"reward": {"script": "lua:reward"}, "done": {"script": "lua:done"}, "scripts": ["a.lua"]}
    files = {"scenario.json": scenario, "a.lua": SCRIPT % (variable, variable)}
    env, console = make_both(game, files, state=state)
    assert variable in console.info()
    drive(env, console, state, 1500, seed=6)


@SHORT_AND_LONG
@pytest.mark.timeout(900)
def test_nes_equals_stable_retro(make_both: MakeBoth, steps: int) -> None:
    """Our own game, through its start states, while others are played in the same process."""
    game = find_game("Rapids-Nes-v0")
    others = [RetroConsole(game), RetroConsole(find_game("Airstriker-Genesis-v0"))]
    others[0].begin_episode("Level02")

    def held(action: int) -> int:
        for other in others:
            other.advance(32 * action)
        return held_by[action]

    env, console = make_both(game, actions="DISCRETE", state="Level13")
    held_by = console.combinations.discrete()
    assert held_by == [0, 64, 128]
    drive(env, console, "Level13", steps * 4 // 5, seed=1, held=held)
    for other in others:
        other.close()
    env, console = make_both(game, random_integration(env, 5), state="Level01")
    drive(env, console, "Level01", steps // 5, seed=5)


@SHORT_AND_LONG
@pytest.mark.timeout(900)
def test_game_boy_equals_stable_retro(make_both: MakeBoth, tmp_path: Path, steps: int) -> None:
    """A game of forty instructions, with memory in its cartridge, as stable-retro invents some where there is none."""
    folder = tmp_path / "Tiny-GameBoy-v0"
    folder.mkdir()
    rom = bytearray(0x8000)
    rom[0x101:0x104], rom[0x150 : 0x150 + len(TINY_GAME_BOY)] = b"\xc3\x50\x01", TINY_GAME_BOY
    rom[0x147], rom[0x149] = 9, 2  # memory in the cartridge, with a battery: 8 KiB
    rom[0x14D] = -sum(rom[0x134:0x14D]) - 25 & 255
    (folder / "rom.gb").write_bytes(rom)
    add_start(folder)
    env, _ = make_both(game_in(folder))
    env, console = make_both(game_in(folder), random_integration(env, 6))
    drive(env, console, "Start", steps, seed=6)
    assert len({*bytes(console.opened().ram[:256])}) > 50


def add_start(folder: Path) -> None:
    """A start state, of the moment at which the console is switched on, for a game that is only a ROM so far."""
    (folder / "metadata.json").write_text('{"default_state": "Start"}')
    console = RetroConsole(game_in(folder))
    console.settle()
    (folder / "Start.state").write_bytes(gzip.compress(console.save()))
    console.close()


def tiny_rom(console: str) -> bytes:
    """A game of a few instructions: joypad and a counter are added up all over the memory, and change a colour."""
    if console in ("Sms", "GameGear"):  # Z80: joypad at port 0xDC, memory at 0xC000
        begin = bytes.fromhex("f3 31f0df ed56 3e04 d3bf 3e80 d3bf 3e00 d3bf 3e87 d3bf")
        colour = "10" if console == "Sms" else "20"
        again = bytes.fromhex(f"dbdc 2100c0 34 86 6e 26c1 77 f5 3e{colour} d3bf 3ec0 d3bf f1 d3be d3be")
        return (begin + again + bytes([0x18, 254 - len(again)])).ljust(0x8000, b"\0")
    if console == "GbAdvance":  # ARM: keys at 0x4000130, memory at 0x2000000, the first colour at 0x5000000
        start, header = 0xEA00002E, bytes(0xAE) + b"\x96" + bytes(13)
        before = 0xE3A00402, 0xE3A02301, 0xE3A05405, 0xE3A06000, 0xE1C260B0, 0xE2822E13
        repeated = (
            0xE1D210B0, 0xE5903000, 0xE0833001, 0xE2833001, 0xE5803000, 0xE20340FC, 0xE0844000, 0xE5843100, 0xE1C530B0,
        )  # fmt: skip
        words = (start, *before, *repeated, 0xEAFFFFFF - len(repeated) - 1)
        code = b"".join(word.to_bytes(4, "little") for word in words)
        return (code[:4] + header + code[4:]).ljust(0x8000, b"\0")
    # HuC6280: joypad at 0x1000, memory at 0x2000, colours at 0x402; the code is mapped to 0xE000
    begin = bytes.fromhex("78 d4 d8 a2ff 9a a9ff 5301 a9f8 5302")
    again = bytes.fromhex("a901 8d0010 ad0010 18 6d0020 ee0020 ae0020 9d0021 9c0204 9c0304 8d0404 8d0504")
    return (begin + again + bytes([0x80, 254 - len(again)])).ljust(0x1FFE, b"\0") + b"\x00\xe0"


@pytest.mark.parametrize("name", ["Sms", "GameGear", "GbAdvance", "PCEngine"])
def test_tiny_game_equals_stable_retro(make_both: MakeBoth, tmp_path: Path, name: str) -> None:
    """Also after another game of the same emulator, as a core may keep something of it."""
    other = RetroConsole(find_game(AIRSTRIKER), fast=True)
    other.begin_episode("Level1")
    for frame in range(60):
        other.advance(frame % 2)
    other.close()
    folder = tmp_path / f"Tiny-{name}-v0"
    folder.mkdir()
    (folder / f"rom.{systems()[name].endings[0]}").write_bytes(tiny_rom(name))
    add_start(folder)
    env, _ = make_both(game_in(folder))
    env, console = make_both(game_in(folder), random_integration(env, 7), fast=True)
    drive(env, console, "Start", 1000, seed=7)
    assert len({*b"".join(bytes(block) for block in console.opened().memory.values())}) > 50


@SHORT_AND_LONG
@pytest.mark.timeout(900)
def test_atari_equals_stable_retro(make_both: MakeBoth, steps: int) -> None:
    """All games whose ROMs are in ale-py's package, four of which have a reward or end in Lua, run by stable-retro.

    Restored states lack the paddle's position.
    """
    pytest.importorskip("ale_py", reason="has the ROMs")
    hashes = {digest for digest, _ in atari_roms()}
    names = [name for name in folders() if "-Atari2600-" in name]
    games = [game for game in map(find_game, names) if hashes & {*game.hashes}]
    assert len(games) == 32
    for seed, game in enumerate(games):
        env, console = make_both(game, actions="DISCRETE")
        assert console.scenario.scripted == any(game.folder.glob("*.lua"))
        env.action_space.seed(seed)
        state = game.default_state()
        drive(env, console, state, 2 * steps // len(games), seed, held=console.combinations.discrete().__getitem__)
