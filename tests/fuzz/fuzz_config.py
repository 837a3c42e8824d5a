"""Fuzzes the configuration's parser: any text is a configuration, which survives dump and read, or a UserError.

The input is a file's text, and after each zero byte an override. `make fuzz` runs this; libFuzzer's options go after
the name of the file.
"""

import sys
import tempfile
from pathlib import Path

import atheris

assert "kartrl" not in sys.modules, "what is imported before this is not instrumented"
with atheris.instrument_imports(include=["kartrl", "configparser"]):
    from commands import assert_clear

    from kartrl.config import Config, dump, read
    from kartrl.errors import UserError


def one(data: bytes) -> None:
    text, *overrides = data.decode(errors="surrogateescape").split("\0")
    try:
        config = read(overrides=overrides, base=text)
    except UserError as error:
        assert_clear(error)
        return
    dump(config).encode()
    assert read(base=dump(config)) == config


def seeds() -> Path:
    """A folder with each section of the default configuration, and its keys as overrides."""
    folder = Path(tempfile.mkdtemp())
    for section in dump(Config()).split("\n# ")[1:]:
        _, _, text = section.partition("\n[")
        if text:
            (folder / text.partition("]")[0]).write_text(f"[{text}")
    for name, field in Config.model_fields.items():
        overrides = "".join(f"\0{name}.{key}=1" for key in field.annotation.model_fields)
        (folder / f"{name}-overrides").write_text(f"[{name}]\n{overrides}")
    return folder


if __name__ == "__main__":
    atheris.Setup([*sys.argv, str(seeds())], one)
    atheris.Fuzz()
