"""Procgen's games, on a number of levels to train on and unseen ones."""
