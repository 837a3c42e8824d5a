"""Functions of the user's own, by the names with which other processes import them."""

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kartrl.envs.named_modules import trust_here
from kartrl.errors import UserError

REMEDY = "kartrl's processes import it by its name: define it by `def` or `class` at the top level of a file"


def reference(function: Callable[..., Any], key: str) -> str:
    """A function as `module:name`.

    Its module counts as trusted from now on, see `KARTRL_IMPORT`: this program has run it.

    Args:
        key: of the configuration that it is for.

    Raises:
        UserError: another process could not import it.
    """
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    what = f"{key} = {name or repr(function)[:80]}"
    if module is None or not name.isidentifier():
        raise UserError(f"{what}: {REMEDY}")
    if module == "__main__":
        module = _script(what)
    elif getattr(sys.modules.get(module), name, None) is not function:
        raise UserError(f"{what}: {module}.{name} is something else; {REMEDY}")
    trust_here([module])
    return f"{module}:{name}"


def _script(what: str) -> str:
    """The name with which the program's script can be imported."""
    main: Any = sys.modules["__main__"]
    if main.__spec__ is not None:  # python -m
        return str(main.__spec__.name)
    file = getattr(main, "__file__", None)
    if file is None:
        raise UserError(
            f"{what}: is defined in a notebook or at a prompt, where no other process finds it: write it to a file (in "
            "a notebook by %%writefile mine.py) and import it from there"
        )
    name = Path(file).stem
    found = importlib.util.find_spec(name) if name.isidentifier() else None
    if (
        found is None
        or found.origin is None
        or not Path(found.origin).exists()
        or not os.path.samefile(found.origin, file)
    ):
        raise UserError(f"{what}: other processes cannot import {file} as {name!r}: put it into a module of its own")
    return name
