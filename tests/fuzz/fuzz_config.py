"""Fuzzes the configuration's parser: any text is a configuration, which survives dump and read, or a UserError.

`make fuzz` runs this; libFuzzer's options go after the name of the file.
"""

import sys

import atheris
from commands import assert_clear

with atheris.instrument_imports(include=["kartrl", "configparser"]):
    from kartrl.config import dump, read
    from kartrl.errors import UserError


def one(data: bytes) -> None:
    provider = atheris.FuzzedDataProvider(data)
    overrides = [provider.ConsumeUnicode(40) for _ in range(provider.ConsumeIntInRange(0, 3))]
    text = provider.ConsumeUnicode(sys.maxsize)
    try:
        config = read(overrides=overrides, base=text)
    except UserError as error:
        assert_clear(error)
        return
    dump(config).encode()
    assert read(base=dump(config)) == config


if __name__ == "__main__":
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
