"""Builds the bundled game: `python game/build.py [-o FOLDER]`. Needs cc65, and stable-retro for the start states."""

import argparse
import hashlib
import shutil
import sys
import tempfile
from pathlib import Path

import cartridge
import integration

from kartrl.kart.circuits.ground import compile_circuit

HERE = Path(__file__).parent
CIRCUITS = HERE.parent / "kartrl" / "kart" / "circuits" / "bundled"
TARGET = HERE.parent / "kartrl" / "kart" / "games" / "KartRL-Snes"


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the bundled game: ROM, descriptions and start states.")
    parser.add_argument(
        "-o", "--output", type=Path, default=TARGET, metavar="FOLDER", help="output folder (default: the package)"
    )
    output: Path = parser.parse_args().output
    if shutil.which("ca65") is None or shutil.which("ld65") is None:
        sys.exit("ca65 and ld65 are missing: install cc65 (apt-get install cc65, brew install cc65)")
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
