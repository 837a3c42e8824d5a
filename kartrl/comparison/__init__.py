"""Comparing runs: their curves, rliable's measures, a table and a picture."""
