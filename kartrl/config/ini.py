"""The configuration as INI text: reading, merging, validating and dumping it.

`default.cfg` is `dump(Config())`; any other file contains only what differs from it.
"""

import configparser
import difflib
from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from kartrl.config import arguments
from kartrl.config.algorithms import ALGORITHMS
from kartrl.config.chosen import Chosen
from kartrl.config.config import Config
from kartrl.config.environment import Environment
from kartrl.config.section import Section
from kartrl.config.wording import nearest, word_all
from kartrl.config.worlds import sections_of_worlds, settings_of
from kartrl.errors import UserError
from kartrl.files import read_text, user_path

Values = dict[str, dict[str, str]]
ALIKE = 0.8  # similarity of two keys of which one may be the other misspelt
PRESETS = Path(__file__).parent / "presets"


def read(files: Sequence[str | Path] = (), overrides: Iterable[str] = (), base: str = "") -> Config:
    """Defaults, then `base` (a dumped configuration), then each file, then each `section.key=value`.

    Args:
        files: paths, or names of bundled configurations: `presets`.

    Raises:
        UserError: a file cannot be read, or a section, key or value is invalid; it names the nearest valid one.
    """
    sources = [("the stored configuration", parse(base, "the stored configuration"))] if base else []
    for file in files:
        try:
            text = read_text(find_file(file))
        except (OSError, UnicodeDecodeError) as error:
            there = f"; the bundled ones are: {', '.join(presets())}" if isinstance(error, FileNotFoundError) else ""
            raise UserError(f"{file}: cannot read this configuration ({_reason(error)}){there}") from error
        sources.append((str(file), parse(text, str(file))))
    overrides = list(overrides)
    for override in overrides:
        sources.append(_override(override, "--set"))
    blank = Config()  # of its world, which decides what else there may be
    for source, new in reversed(sources):
        if "id" in (chosen := new.get("environment", {})):
            blank = _validate({"environment": {"id": chosen["id"]}}, source)
            break
    values = Values()
    for source, new in sources:
        _merge(values, new, source, blank)
    return _validate(values, " and ".join([*map(str, files), *["--set"] * bool(overrides or not files)]))


def check_override(override: str, option: str, config: Config) -> None:
    """Check `section.key=value` by itself, in a configuration of the same world.

    Args:
        option: the one that gave it.

    Raises:
        UserError: the section, key or value is invalid; it names the nearest valid one.
    """
    source, new = _override(override, option)
    _merge(Values(), new, source, config)


def _override(override: str, option: str) -> tuple[str, Values]:
    """Where `section.key=value` is from, for messages, and its value."""
    name, equals, value = override.partition("=")
    section, dot, key = name.strip().partition(".")
    if not (equals and dot):
        raise UserError(
            f"{option} {_short(override)}: expected section.key=value, as in {option} optimizer.learning_rate=0.001"
        )
    return f"{option} {_short(override)}", {section: {key: value.strip()}}


def check_own(overrides: Iterable[str], keys: Container[str], setter: str) -> None:
    """Refuse overrides, `section.key=value`, of keys that `setter`, such as a command, sets itself.

    Raises:
        UserError: names the first one.
    """
    for override in overrides:
        if (key := override.partition("=")[0].strip()) in keys:
            raise UserError(f"--set {_short(override)}: {setter} sets {key} itself; leave it out")


def presets() -> list[str]:
    """Names of the bundled configurations."""
    return sorted(file.stem for file in PRESETS.glob("*.cfg"))


def preset_ids() -> dict[str, str]:
    """Name of each bundled configuration, and its `environment.id`."""
    default = {"id": Environment().id}
    files = {name: PRESETS / f"{name}.cfg" for name in presets()}
    return {name: (default | parse(read_text(file), name).get("environment", {}))["id"] for name, file in files.items()}


def dump(config: Config, comments: bool = True, about: Mapping[str, str] | None = None) -> str:
    """The configuration as INI text, by default with a line of explanation for each section and key.

    Args:
        about: lines of comments at the top, by name.
    """
    lines = [f"# {name}: {text}" for name, text in about.items()] + [""] if about else []
    syntax = settings_of(config.environment.id).levels
    for name, section in config:
        if name != "levels":
            for own, of in dict(section).items() if name == "world" else [(name, section)]:
                lines += _block(own, of)
        elif syntax is not None:
            lines += [f"# {_first_line(section)}", "[levels]", *(f"# {hint}" for hint in syntax.hints)]
            lines += [*(f"{key} = {use}" for key, use in section.uses.items()), ""]
    return "\n".join(line for line in lines if comments or not line.startswith("# "))


def _block(name: str, section: Section) -> list[str]:
    lines = [f"# {_first_line(section)}", f"[{name}]"]
    for key, info in type(section).model_fields.items():
        lines += [f"# {info.description}", *_lines(key, getattr(section, key))]
    return [*lines, ""]


def _first_line(section: BaseModel) -> str:
    return (type(section).__doc__ or "").splitlines()[0]


def _lines(key: str, value: Any) -> list[str]:
    if isinstance(value, dict):
        return [f"{key}.{name} = {arguments.render(argument)}" for name, argument in value.items()]
    return [f"{key} = {_text(value)}"]


def settings(config: Config) -> dict[str, bool | float | str]:
    """All values that may affect what is learned, as "section.key" -> value; lists and arguments as text."""
    others = ALGORITHMS.keys() - {config.algorithm.name}
    kept = {name: section.model_dump() for name, section in config.sections.items() if name not in others}
    del kept["run"]["logs"], kept["run"]["name"]
    given = kept["environment"].pop(arguments.PREFIX)
    kept[f"environment.{arguments.PREFIX}"] = {name: arguments.render(value) for name, value in given.items()}
    values = {f"{name}.{key}": value for name, section in kept.items() for key, value in section.items()}
    plain = {
        name: value if isinstance(value, Chosen | bool | int | float) else _text(value)
        for name, value in values.items()
    }
    return plain | {f"levels.{key}": use for key, use in config.levels.uses.items() if use != "none"}


def _text(value: Any) -> str:
    if isinstance(value, Chosen):
        return f"auto ({value})"
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def find_file(file: str | Path) -> Path:
    """The file with this path or, if there is none, the bundled configuration with this name."""
    path = user_path(str(file))
    return PRESETS / f"{file}.cfg" if str(file) in presets() and not path.is_file() else path


def _short(text: str, limit: int = 80) -> str:
    """Untrusted text, shortened and escaped to one line for a message."""
    return repr(text[:limit])[1:-1][:limit]


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def parse(text: str, source: str) -> Values:
    """The text of a configuration as section -> key -> value, neither of which is checked.

    Raises:
        UserError: it is no INI file.
    """
    parser = configparser.ConfigParser(
        interpolation=None, default_section="\0", comment_prefixes="#", delimiters=("=",)
    )
    parser.optionxform = str  # type: ignore[assignment, method-assign]  # circuit names contain capitals
    try:
        parser.read_string(text, source)
    except configparser.Error as error:
        raise UserError(f"{source}: not a valid configuration: {_short(' '.join(str(error).split()), 200)}") from error
    return {
        name: {key: " ".join(value.splitlines()).strip() for key, value in parser[name].items()}
        for name in parser.sections()
    }


def _merge(values: Values, new: Values, source: str, blank: Config) -> None:
    """Add new values to those so far.

    Args:
        blank: the defaults of the world whose configuration it is.
    """
    world = blank.environment.id
    syntax, sections = settings_of(world).levels, blank.sections
    for section, keys in new.items():
        refuse_other_worlds(source, section, blank)
        if section not in sections and section != "levels":
            _unknown(source, f"section [{_short(section)}]", section, list(sections))
        for key, value in keys.items():
            if section == "levels" and syntax is not None:
                if (wrong := syntax.mistake(key)) is not None:
                    raise UserError(f"{source}: [levels] {_short(key)}: {wrong}")
                values.get(section, {}).pop(key, None)  # the last key counts
            elif section == "environment" and arguments.is_argument(key):
                if (wrong := arguments.mistake(key)) is not None:
                    raise UserError(f"{source}: [environment] {_short(key)}: {wrong}")
            elif key not in type(sections[section]).model_fields:
                _refuse_key(source, section, key, blank)
            if not value.isprintable():  # it could not be written to a file and read back
                raise UserError(f"{source}: [{section}] {key}: contains unprintable characters (got '{_short(value)}')")
            values.setdefault(section, {})[key] = value
            only = Values({"environment": {"id": world}})
            only.setdefault(section, {})[key] = value
            _validate(only, source, only=(section, key))


def refuse_other_worlds(source: str, section: str, blank: Config) -> None:
    """Refuse a section that only other worlds than this configuration's have.

    Raises:
        UserError: it says which.
    """
    ours = section in blank.sections or (section == "levels" and settings_of(blank.environment.id).levels is not None)
    if not ours and (ids := [world for world, name, _ in sections_of_worlds() if name == section]):
        raise UserError(f"{source}: [{section}] {_applies(ids, blank)}")


def _refuse_key(source: str, section: str, key: str, blank: Config) -> NoReturn:
    what, own = f"key '{_short(key)}' in [{section}]", list(type(blank.sections[section]).model_fields)
    places = [(other, name) for name, of in blank.sections.items() for other in type(of).model_fields]
    near = difflib.get_close_matches(key[:80], [*own, *(other for other, _ in places)], n=1, cutoff=ALIKE)
    found = [f"{name}.{other}" for other, name in places if [other] == near and other not in own]
    if len(found) == 1:
        raise UserError(f"{source}: unknown {what}; the nearest valid one is {found[0]!r}")
    for world, name, keys in sections_of_worlds() if not near else ():
        if key in keys:
            raise UserError(f"{source}: unknown {what}; {name}.{key} {_applies([world], blank)}")
    _unknown(source, what, key, own)


def _applies(ids: Sequence[str], blank: Config) -> str:
    names = " and ".join(f"{name}..." if name.endswith("/") else name for name in ids)  # one may be a namespace
    return f"applies to {names} only; environment.id is {_short(blank.environment.id)}"


def _unknown(source: str, what: str, name: str, known: Sequence[str]) -> NoReturn:
    raise UserError(f"{source}: unknown {what}; the nearest valid one is {nearest(name, known)!r}")


def _validate(values: Values, source: str, only: tuple[str, str] | None = None) -> Config:
    """The configuration with these values; with `only`, ignores errors of other keys, which may be overridden later."""
    tree: dict[str, Any] = dict(values)
    if "environment" in tree:
        tree["environment"] = _with_arguments(tree["environment"])
    own = settings_of(values.get("environment", {}).get("id", Environment().id)).sections.model_fields
    tree["world"] = {name: tree.pop(name) for name in own if name in tree}
    try:
        return Config.model_validate(tree)
    except ValidationError as errors:
        found = [error for error in errors.errors() if only is None or _place(error)[:2] == only]
        if found:
            place = _place(found[0])
            same = [error for error in found if _place(error) == place]  # several if the value may have several types
            given = f" (got {repr(found[0]['input'])[:80]})" if len(place) > 1 else ""
            name = " ".join((f"[{place[0]}]", *place[1:]))
            raise UserError(f"{source}: {name}: {word_all(same)}{given}") from errors
        return Config()


def _with_arguments(keys: dict[str, str]) -> dict[str, Any]:
    """The keys of [environment], with the arguments in a table of their own."""
    plain: dict[str, Any] = {key: value for key, value in keys.items() if not arguments.is_argument(key)}
    return plain | {
        arguments.PREFIX: {
            arguments.name_of(key): arguments.parse(value) for key, value in keys.items() if arguments.is_argument(key)
        }
    }


def _place(error: ErrorDetails) -> tuple[str, ...]:
    """The section and, if the error is about one, the key."""
    places = [*map(str, error["loc"])]
    if places[:1] == ["world"]:
        del places[0]
    if places[:2] == ["levels", "uses"]:
        del places[1]
    return tuple(places[:2])
