"""Measures how fast parts of a training are, each alone, and training as a whole."""
