"""Circuits of the bundled game as data: what a file says, what the ROM needs of it, and the way between them."""

LAPS = 5  # of a race
