"""An emulated console: a libretro core, in this process or isolated in another; memory, states. Knows no game."""
