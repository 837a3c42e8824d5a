"""Wrappers around an environment, and what its actions, observations and pictures are converted to."""
