"""Modules named by `environment.id` or `environment.wrapper`: in a package, or a file in the current folder."""

import contextlib
import importlib
import os
import re
import sys
from collections.abc import Iterator
from operator import attrgetter
from types import ModuleType
from typing import Any

import gymnasium

from kartrl.config import Environment
from kartrl.errors import UserError, located

Env = gymnasium.Env[Any, Any]
_NAMED = re.compile(r"([^\W\d][\w.]*):")


def named_modules(section: Environment) -> list[str]:
    """The named modules that making this environment would import; none for most environments."""
    return sorted({match[1] for text in _texts(section) if (match := _NAMED.match(text)) is not None})


def untrusted_modules(section: Environment) -> list[str]:
    """Of `named_modules`, those that the user has not named in `KARTRL_IMPORT`."""
    trusted = os.environ.get("KARTRL_IMPORT", "").replace(",", " ").split()
    return [module for module in named_modules(section) if module not in trusted]


def trust(section: Environment) -> str:
    """What the user types before a command that loads a checkpoint with this environment; "" for most."""
    return f"KARTRL_IMPORT={','.join(named_modules(section))} " if untrusted_modules(section) else ""


def _texts(section: Environment) -> Iterator[str]:
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


def look_here(section: Environment) -> None:
    """If a module is named, append the current folder to `sys.path`: last, so that it shadows nothing installed."""
    with contextlib.suppress(FileNotFoundError):  # it has been deleted
        if named_modules(section) and (here := os.getcwd()) not in sys.path:
            sys.path.append(here)


def import_named(key: str, value: str) -> ModuleType:
    """Import the module of the key's value "module:name".

    Raises:
        UserError: the value has another form, or the module cannot be imported, for whatever reason.
    """
    named = _NAMED.match(value)
    if named is None or value.count(":") > 1:
        raise UserError(f"[environment] {key} = {value}: is not of the form module:name")
    try:
        return importlib.import_module(named[1])
    except ModuleNotFoundError as error:
        raise UserError(f"[environment] {key} = {value}: {error}") from error
    except (Exception, SystemExit) as error:
        raise UserError(f"[environment] {key} = {value}: cannot import {named[1]!r}: {located(error)}") from error


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
