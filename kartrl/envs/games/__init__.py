"""Environments that kartrl brings along, besides the kart."""
