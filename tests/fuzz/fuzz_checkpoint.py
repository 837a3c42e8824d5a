"""Fuzzes the reader of checkpoints: any file is a checkpoint or a UserError.

The last byte of the input chooses what the rest is: a whole file, a header, or a description with a correct digest.
`make fuzz` runs this; libFuzzer's options go after the name of the file.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import atheris
import safetensors.torch
import torch

assert "kartrl" not in sys.modules, "what is imported before this is not instrumented"
with atheris.instrument_imports(include=["kartrl", "configparser", "json"]):
    from commands import assert_clear
    from policies import make_checkpoint

    from kartrl.errors import UserError
    from kartrl.learning import checkpoint, checkpoint_file

torch.set_num_threads(1)
HONEST = make_checkpoint(1)
TENSORS = {
    f"{group}/{name}": value
    for group in ("network", "optimizer", "random")
    for name, value in getattr(HONEST, group).items()
}
ARRAYS = {name: tensor.numpy() for name, tensor in TENSORS.items()}
FOLDER = Path(tempfile.mkdtemp())
FILE = FOLDER / f"{os.getpid()}.pt"


def one(data: bytes) -> None:
    kind, rest = data[-1:], data[:-1]
    if kind < b"\x55":
        content = rest
    elif kind < b"\xaa":
        content = len(rest).to_bytes(8, "little") + rest + bytes(64)
    else:
        text = rest.decode(errors="replace")
        content = safetensors.torch.save(TENSORS, {"about": text, "sha256": checkpoint_file.digest(text, ARRAYS)})
    FILE.write_bytes(content)
    for read in (checkpoint.load, checkpoint_file.read):
        try:
            read(FILE)
        except UserError as error:
            assert_clear(error)


def seeds() -> Path:
    """A folder with an input of each kind that is an honest checkpoint."""
    folder = FOLDER / "seeds"
    folder.mkdir()
    checkpoint.save(FILE, HONEST)
    content = FILE.read_bytes()
    header = content[8 : 8 + int.from_bytes(content[:8], "little")]
    for number, text in enumerate((content, header, json.loads(header)["__metadata__"]["about"].encode())):
        (folder / str(number)).write_bytes(text + bytes([number * 0x7F]))
    return folder


if __name__ == "__main__":
    atheris.Setup([*sys.argv, str(seeds())], one)
    atheris.Fuzz()
