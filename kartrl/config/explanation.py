"""Configurations for people: what of one differs from another, and what a key means."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kartrl.config import arguments
from kartrl.config.chosen import unchosen
from kartrl.config.config import Config
from kartrl.config.environment import Environment
from kartrl.config.ini import dump, find_file, parse, read, refuse_other_worlds
from kartrl.config.wording import nearest
from kartrl.config.worlds import settings_of
from kartrl.errors import UserError
from kartrl.files import read_text

_KINDS = {
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "string": "text",
    "crop": "four whole numbers",
    "schedule": "number, or linear START END, or polynomial START END, or piecewise AT VALUE AT VALUE ...",
}
_LIMITS = {
    "minimum": "{:,} or more",
    "exclusiveMinimum": "more than {:,}",
    "maximum": "at most {:,}",
    "exclusiveMaximum": "less than {:,}",
}


class Change(NamedTuple):
    """A key whose value differs; None: it is not set there."""

    section: str
    key: str
    here: str | None
    there: str | None


def changes(config: Config, other: Config | None = None) -> list[Change]:
    """The keys of `config` whose values differ from those of `other`, in the order of the file.

    Without `other`, from the defaults of its world and the default `environment.id`. Values are compared, not their
    spelling, and what `auto` chose counts as `auto`.
    """
    usual = _defaults(config)
    new, old = (_texts(read(base=dump(unchosen(one)))) for one in (config, other or usual))  # so that 60 is 60.0
    if other is None:
        old["environment"]["id"] = Environment().id
    elif settings_of(config.environment.id) != settings_of(other.environment.id):
        # a world's sections: from its defaults
        common = Config.model_fields.keys() - {"levels"}
        old = {name: keys for name, keys in old.items() if name in common} | {
            name: keys for name, keys in _texts(read(base=dump(usual))).items() if name not in common
        }
    found = []
    for section in new | old:
        here, there = new.get(section, {}), old.get(section, {})
        found += [Change(section, key, None, value) for key, value in there.items() if key not in here]
        found += [Change(section, key, value, there.get(key)) for key, value in here.items() if there.get(key) != value]
    return found


def difference(config: Config, other: Config | None = None) -> str:
    """The `changes` as INI text that makes `config` of `other`, with the values there in comments."""
    lines = []
    for section, differing in itertools.groupby(changes(config, other), lambda change: change.section):
        lines.append(f"[{section}]")
        for _, key, here, there in differing:
            if here is None:
                lines.append(f"# {key} = {there}, not set here")
            else:
                lines += [f"# {'not set' if there is None else there}", f"{key} = {here}"]
    return "".join(f"{line}\n" for line in lines)


def explain(config: Config, name: str, files: Sequence[str], overrides: Sequence[str]) -> dict[str, str]:
    """What a key is: its `key`, `meaning`, `type`, `default`, `value` and `set_by`.

    Args:
        name: section.key, or a key that only one section has.
        files: as in `read`, which made the configuration of them.
        overrides: likewise.

    Raises:
        UserError: there is no such key, or several; it names the nearest.
    """
    default, values = (
        {f"{section}.{key}": value for section, keys in _texts(one).items() for key, value in keys.items()}
        for one in (_defaults(config), config)
    )
    default["environment.id"] = Environment().id
    if _may_be_set(config, *name.partition(".")[::2]):
        values.setdefault(name, "not set")
    found = [key for key in values if name in (key, key.partition(".")[2])]
    if len(found) > 1:
        raise UserError(f"{name}: several sections have this key; choose from {', '.join(found)}")
    if not found:
        refuse_other_worlds(name[:80], name.partition(".")[0], config)
        short = {key.partition(".")[2]: key for key in reversed(values)}
        near = nearest(name, [*values, *short])
        raise UserError(f"{name[:80]!r}: unknown key; the nearest valid one is {short.get(near, near)!r}")
    (key,) = found
    meaning, accepted = _about(config, *key.split(".", 1))
    about = {"key": key, "meaning": meaning, "type": accepted, "default": default.get(key, "not set")}
    return about | {"value": values[key], "set_by": _origin(key, files, overrides)}


def _defaults(config: Config) -> Config:
    """Those of the world of a configuration."""
    return read(overrides=[f"environment.id={config.environment.id}"])


def _may_be_set(config: Config, section: str, key: str) -> bool:
    """Whether it is a key of which there are any number: of a level, or an argument of the environment."""
    syntax = settings_of(config.environment.id).levels
    if section == "levels":
        return syntax is not None and syntax.mistake(key) is None
    return section == "environment" and arguments.is_argument(key) and arguments.mistake(key) is None


def _about(config: Config, section: str, key: str) -> tuple[str, str]:
    """Meaning and type of a key."""
    syntax = settings_of(config.environment.id).levels
    if syntax is not None and section == "levels":
        return f"how this level is used; {' '.join(syntax.hints)}", "train or test or none"
    if arguments.is_argument(key):
        return "argument of the environment's constructor", "Python literal, or text"
    kind = type(config.sections[section])
    return str(kind.model_fields[key].description), _accepted(kind.model_json_schema()["properties"][key])


def _origin(key: str, files: Sequence[str], overrides: Sequence[str]) -> str:
    """Which of these sets the key last."""
    if any(override.partition("=")[0].strip() == key for override in overrides):
        return "the command line"
    section, _, name = key.partition(".")
    for file in reversed(files):
        if name in parse(read_text(find_file(file)), str(file)).get(section, {}):
            return str(file)
    return "default"


def _texts(config: Config) -> dict[str, dict[str, str]]:
    """Section -> key -> value, as in the file."""
    return parse(dump(config, comments=False), "the configuration")


def _accepted(schema: Mapping[str, Any]) -> str:
    """A JSON schema of pydantic's in words."""
    if "anyOf" in schema:
        return " or ".join(map(_accepted, schema["anyOf"]))
    if choices := schema.get("enum", [schema["const"]] if "const" in schema else None):
        return " or ".join(choices)
    if "prefixItems" in schema:
        return " and ".join(map(_accepted, schema["prefixItems"]))
    if "items" in schema:
        return f"list: {_accepted(schema['items'])} each"
    limits = [text.format(schema[key]) for key, text in _LIMITS.items() if key in schema]
    return ", ".join([_KINDS[schema["type"]], *limits])
