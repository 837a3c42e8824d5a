"""An emulated console: a libretro core, in this process or isolated in another. Knows no game."""
