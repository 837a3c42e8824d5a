"""Comparing runs: their curves, rliable's measures of them, a table and a picture."""
