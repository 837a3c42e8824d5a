"""What each world brings to the configuration, by `environment.id`: the only place that knows worlds by name."""

import importlib
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from kartrl.config.levels import LevelSyntax
from kartrl.config.section import Section

WORLDS = {
    "kartrl/Kart-v0": "kartrl.kart.settings",
    "kartrl/Procgen-v0": "kartrl.procgen.settings",
    "retro/": "kartrl.retro.settings",
}
"""`environment.id` -> the module with its `SETTINGS`; a namespace, such as "retro/", stands for all of its ids."""


class WorldSections(Section):
    """The sections of a world: each field is one, by its name in the file; every section has defaults."""


class WorldSettings(NamedTuple):
    """What a world brings to the configuration. Its module must not import Gymnasium, torch or an emulator."""

    world: str
    """Module and class of its `World`, which is imported when it is asked for."""
    sections: type[WorldSections] = WorldSections
    levels: LevelSyntax | None = None
    """None: it has no levels."""
    defaults: Mapping[str, Mapping[str, str]] = {}
    """Section -> key -> text: defaults of the sections that all worlds share, where this world's are others."""


GYMNASIUM = WorldSettings("kartrl.envs.worlds:GymnasiumWorld")
"""Of every other id."""


def settings_of(environment_id: str) -> WorldSettings:
    """What the world of this `environment.id` brings."""
    module = WORLDS.get(environment_id) or WORLDS.get(f"{environment_id.partition('/')[0]}/")
    settings: WorldSettings = GYMNASIUM if module is None else importlib.import_module(module).SETTINGS
    return settings


def sections_of_worlds() -> Iterator[tuple[str, str, Collection[str]]]:
    """Of each world: an id, and the name and the keys of each section that it has; those of [levels] are ()."""
    for environment_id in WORLDS:
        settings = settings_of(environment_id)
        for name, info in settings.sections.model_fields.items():
            yield environment_id, name, type(info.default).model_fields
        if settings.levels is not None:
            yield environment_id, "levels", ()
