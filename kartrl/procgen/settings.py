"""What Procgen brings to the configuration."""

from kartrl.config.worlds import WorldSettings

SETTINGS = WorldSettings("kartrl.procgen.world:ProcgenWorld")
