"""kartrl: a GA3C/IMPALA actor-learner for pixel games, first of all a kart racer on the SNES."""

__version__ = "0.1.0"
