"""Builds the bundled game: `python game/build.py [-o FOLDER]`. Needs cc65, and stable-retro for the start states."""

import hashlib
import shutil
import tempfile
from pathlib import Path

import cartridge
import integration
from building import output_folder

from kartrl.kart.circuits.ground import compile_circuit

HERE = Path(__file__).parent
CIRCUITS = HERE.parent / "kartrl" / "kart" / "circuits" / "bundled"
TARGET = HERE.parent / "kartrl" / "kart" / "games" / "KartRL-Snes"


def main() -> None:
    output = output_folder("Build the bundled game: ROM, descriptions and start states.", TARGET)
    files = sorted(CIRCUITS.glob("*.toml"))
    names = [file.stem for file in files]
    rom, build_id = cartridge.build(HERE, [compile_circuit(file) for file in files])
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        (work / "rom.sfc").write_bytes(rom)
        (work / "rom.sha").write_text(hashlib.sha1(rom, usedforsecurity=False).hexdigest() + "\n")
        integration.describe(work, names, build_id)
        integration.make_states(work, names)
        # only complete builds are copied; each file atomically
        output.mkdir(parents=True, exist_ok=True)
        for file in sorted(work.iterdir()):
            partial = output / f".{file.name}.new"
            shutil.copyfile(file, partial)
            partial.replace(output / file.name)
    print(f"{output}: build {build_id:08x}, {len(rom) // 1024} KiB, circuits {', '.join(names)}")


if __name__ == "__main__":
    main()
