"""Circuits of the bundled game as data: the TOML format, the memory block that the ROM reads, and the compiler."""

LAPS = 5  # per race
