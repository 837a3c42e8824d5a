"""The files that stable-retro needs in addition to the ROM: variables, the end of a race, and start states."""

import gzip
import json
from pathlib import Path

RAM = 0x7E0000
OPPONENTS = 7
VARIABLES = {  # name: (address, type); meanings in README.md
    "x": (0x88, "<u2"), "y": (0x8C, "<u2"), "camera_angle": (0x95, "|u1"),
    "speed_x": (0x1022, "<i2"), "speed_y": (0x1024, "<i2"), "speed": (0x10EA, "<u2"),
    "kart_angle": (0x10AA, "<u2"), "angle_velocity": (0x109E, "|i1"), "hop": (0x101F, "<u2"),
    "lap": (0x10C1, "|u1"), "lap_max": (0x10F9, "|u1"), "checkpoint": (0x10C0, "|u1"), "checkpoint_num": (0x148, "|u1"),
    "milliseconds": (0x101, "|d1"), "seconds": (0x102, "|d1"), "minutes": (0x104, "|u1"),
    "collision": (0x1052, "|u1"), "ground_type": (0x10AE, "|u1"), "ground_status": (0x10A0, "|u1"),
    "out_of_control": (0x10A6, "|u1"), "lakitu": (0x10B, "|u1"), "coins": (0xE00, "|u1"), "rank": (0x1040, "|u1"),
    "driven": (0x54, "<i2"),
    "ticks": (0x1E00, "|u1"), "start_section": (0x1E01, "|u1"), "tick": (0x1E02, "<u2"), "circuit": (0x1E04, "|u1"),
    "select": (0x1E05, "|u1"), "build_id": (0x1E08, "<u4"),
    "opponents": (0x1E06, "|u1"), "opponent_speed": (0x1E07, "|u1"), "dark": (0x1E18, "|u1"),
    "touched": (0x1E19, "|u1"),
    "best_lap": (0x1E10, "<u2"), "last_lap": (0x1E12, "<u2"),
    **{
        f"opponent{i + 1}_{name}": (0x1E20 + 8 * i + 2 * k, "<u2")
        for i in range(OPPONENTS) for k, name in enumerate(("x", "y", "angle", "progress"))
    },
}  # fmt: skip
STANDING = 0x80  # value of `ticks` at which the game renders but does not advance


def describe(folder: Path, circuits: list[str], build_id: int) -> None:
    """Write build.json, data.json, scenario.json and metadata.json."""
    info = {name: {"address": RAM + address, "type": kind} for name, (address, kind) in VARIABLES.items()}
    done = {"variables": {"lap": {"op": "equal", "reference": 133}}}
    reward = {"variables": {"driven": {"reward": 1.0, "penalty": 1.0}}}  # a section forward 1, one back -1
    contents: dict[str, dict] = {
        "build.json": {"build_id": build_id},
        "data.json": {"info": info},
        "scenario.json": {"done": done, "reward": reward},
        "metadata.json": {"default_state": circuits[0]},
    }
    for name, content in contents.items():
        (folder / name).write_text(json.dumps(content, indent=1) + "\n")


def make_states(folder: Path, circuits: list[str]) -> None:
    """Boot the ROM in the folder and save each circuit's race at tick 0."""
    import stable_retro

    emulator = stable_retro.RetroEmulator(str(folder / "rom.sfc"))
    data = stable_retro.data.GameData()
    emulator.configure_data(data)
    emulator.step()
    data.load(str(folder / "data.json"), str(folder / "scenario.json"))
    for index, name in enumerate(circuits):
        for _ in range(60):  # boot, and let the sound CPU settle
            emulator.step()
        data.set_value("ticks", STANDING)
        data.set_value("select", index + 1)
        for _ in range(30):
            emulator.step()
        found = data.lookup_all()
        if (found["circuit"], found["tick"], found["lap"]) != (index, 0, 128):
            raise RuntimeError(f"{name} did not start: {found}")
        data.set_value("ticks", 0)
        (folder / f"{name}.state").write_bytes(gzip.compress(emulator.get_state(), mtime=0))
