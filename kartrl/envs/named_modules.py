"""Modules named by `environment.id` or `environment.wrapper`: in a package, or a file in the current folder."""

import contextlib
import importlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from types import ModuleType
from typing import Any

import gymnasium

from kartrl.config import Environment, Model
from kartrl.errors import UserError, located

Env = gymnasium.Env[Any, Any]
_NAMED = re.compile(r"([^\W\d][\w.]*):")
OF_PRESETS = ("minigrid", "minigrid.wrappers")  # trusted, as kartrl itself names them


def named_modules(*sections: Environment | Model) -> list[str]:
    """The named modules that making these environments and networks would import; none for most."""
    texts = (text for section in sections for text in _texts(section))
    return sorted({match[1] for text in texts if (match := _NAMED.match(text)) is not None})


def untrusted_modules(*sections: Environment | Model) -> list[str]:
    """Of `named_modules`, those that neither the user has named, in `KARTRL_IMPORT`, nor a preset."""
    trusted = (*OF_PRESETS, *_trusted())
    return [module for module in named_modules(*sections) if module not in trusted]


def trust(*sections: Environment | Model) -> str:
    """What the user types before a command that loads a checkpoint with these sections; "" for most."""
    return f"KARTRL_IMPORT={','.join(named_modules(*sections))} " if untrusted_modules(*sections) else ""


def trust_here(modules: Iterable[str]) -> None:
    """Trust modules in this process and those that it starts, as the user has named them himself."""
    if modules := [*modules]:
        os.environ["KARTRL_IMPORT"] = ",".join(dict.fromkeys([*_trusted(), *modules]))


def _trusted() -> list[str]:
    return os.environ.get("KARTRL_IMPORT", "").replace(",", " ").split()


def _texts(section: Environment | Model) -> Iterator[str]:
    if isinstance(section, Model):
        yield from (section.encoder, section.core)
        return
    yield section.id
    yield section.wrapper
    # Environments that make others (Gymnasium's compatibility ones, for instance) take "module:Id" as an argument.
    waiting = list(section.kwargs.values())
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list | tuple | set | dict):
            waiting += [*value, *value.values()] if isinstance(value, dict) else value


def look_here(section: Environment | Model) -> None:
    """If a module is named, append the current folder to `sys.path`: last, so that it shadows nothing installed."""
    with contextlib.suppress(FileNotFoundError):  # it has been deleted
        if named_modules(section) and (here := os.getcwd()) not in sys.path:
            sys.path.append(here)


def import_function(key: str, value: str) -> Callable[..., Any]:
    """The function of a key's value "module:function", of a file in the current folder too.

    Raises:
        UserError: there is none, or the module cannot be imported.
    """
    with contextlib.suppress(FileNotFoundError):  # it has been deleted
        if (here := os.getcwd()) not in sys.path:
            sys.path.append(here)
    section, _, name = key.partition(".")
    module = import_named(name, value, section)
    function = vars(module).get(value.partition(":")[2])
    if not callable(function) or not is_own(module, function):
        raise UserError(f"[{section}] {name} = {value}: {module.__name__} defines no such function")
    return function


def is_own(module: ModuleType, function: Any) -> bool:
    """Whether a module, or one below it, defines this function.

    One that it has only imported could be anything, such as `subprocess.run`.
    """
    origin = getattr(function, "__module__", None) or ""
    return bool(origin == module.__name__ or origin.startswith(f"{module.__name__}."))


def import_named(key: str, value: str, section: str = "environment") -> ModuleType:
    """Import the module of the key's value "module:name".

    Raises:
        UserError: the value has another form, or the module cannot be imported, for whatever reason.
    """
    named = _NAMED.match(value)
    if named is None or value.count(":") > 1:
        raise UserError(f"[{section}] {key} = {value}: is not of the form module:name")
    try:
        return importlib.import_module(named[1])
    except ModuleNotFoundError as error:
        advice = "; pip install 'kartrl[minigrid]'" if error.name == "minigrid" else ""  # of a preset
        raise UserError(f"[{section}] {key} = {value}: {error}{advice}") from error
    except (Exception, SystemExit) as error:
        raise UserError(f"[{section}] {key} = {value}: cannot import {named[1]!r}: {located(error)}") from error


def apply_wrapper(env: Env, section: Environment) -> Env:
    """Apply the function `section.wrapper` to `env`.

    Raises:
        UserError: there is no such function, or it does not return an environment.
    """
    if section.wrapper == "none":
        return env
    look_here(section)
    module = import_named("wrapper", section.wrapper)
    try:
        function = attrgetter(section.wrapper.partition(":")[2])(module)
    except AttributeError as error:
        raise UserError(f"[environment] wrapper = {section.wrapper}: {error}") from error
    wrapped = function(env)
    if not isinstance(wrapped, gymnasium.Env):
        found = type(wrapped).__name__
        raise UserError(f"[environment] wrapper = {section.wrapper}: returned {found}, not an environment")
    return wrapped
